/* record.h - a file for each prepared claim, STATE/claims/UID.json: what it was given, and which containers
 * use it. It is written before the grant and removed after it, so that whatever lies on the node for a claim
 * has a record. Like the grants it does not survive a reboot, after which the kubelet has all claims prepared
 * again. */
#pragma once

struct error;
struct node_claim;
struct node_registry;

/* record_write() - negative errno with a sentence. Sets claim->saved. */
int record_write(const char *state_dir, struct node_claim *claim, struct error *err);
void record_remove(const char *state_dir, const char *uid);

/* records_load() - all of them into the registry. A file that is not readable becomes a claim without
 * devices, which keeps what lies there until the kubelet prepares or unprepares the claim. */
void records_load(const char *state_dir, struct node_registry *node);
