/* power.h - how the computing power of this node's GPUs is divided: the policy in force and who is on which
 * GPU become a share of each container, and what the driver says was used becomes the rate that its shim
 * goes by. Both are words of the grants, which hold while no agent runs. src/model/shares.h and correction.h
 * decide; docs/internals/computing-power.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/shares.h"

struct agent;
struct correction_gpu;
struct grant_file;
struct json_object;
struct metrics;
struct power;
struct power_gpu;

/* power_is_told() - as policy_is_told(). */
bool power_is_told(const struct power *power);

/* power_policy() - in force. */
enum share_policy power_policy(const struct power *power);

int power_new(struct agent *agent, struct power **ret_power);
void power_free(struct power *power); /* accepts NULL. Before looks_free() */

/* power_start_kube() - watch the ConfigMap with the policy; the client is there. */
int power_start_kube(struct power *power);

/* power_node_seen() - annotations of the node, NULL if it has none. */
void power_node_seen(struct power *power, struct json_object *annotations);

/* power_changed() - pods, grants, GPUs or the policy may be others. Accepts NULL. */
void power_changed(struct power *power);

/* power_resume() - what a grant says that an agent before us, or nobody, has written. */
void power_resume(struct power_gpu *gpu, const struct grant_file *grant, unsigned index);

/* power_recall() - once, when all grants of before are there: their policy holds until another is known. */
void power_recall(struct power *power);

/* power_wants_use() - whether the driver is to be asked who used this GPU. */
bool power_wants_use(struct power *power, const char *uuid);

/* power_used() - the driver has said who used it: power_gpu.used_percent and who of all containers on it are
 * filled. */
void power_used(struct power *power, const char *uuid, const struct correction_gpu *said);

/* power_metrics() - onto the agent's page. */
void power_metrics(const struct power *power, const struct agent *agent, struct metrics *page);
