/* dra.h - Dynamic Resource Allocation on this node: in the mode dra the agent publishes its GPUs as devices
 * of a ResourceSlice, and prepares the ResourceClaims that kube-scheduler has allocated on them. */
#pragma once

#include <stdbool.h>

#include "agent/dra/deps.h"

struct dra;

/* dra_new() - loads the claims that earlier agents have prepared into the registry. */
int dra_new(const struct dra_deps *deps, struct dra **ret_dra);
void dra_free(struct dra *dra); /* accepts NULL */

/* dra_follow_label() - what the node's label asks for becomes the mode that is asked for; but the mode dra
 * only when the API server can do what claims need. Until that is known, and where it cannot, the mode in
 * force stays; the node's problem `mode` and an Event say why. */
void dra_follow_label(struct dra *dra);

/* dra_offer() - offers the node's GPUs to claims, or withdraws them, and checks whether the kubelet knows the
 * driver; sets the node's `watched` and its problem `unregistered` while the mode is dra. ready: what the
 * node's GPUs are, and which are faulty, is known. Call it at least once a second. */
void dra_offer(struct dra *dra, bool ready);

/* dra_tick() - each second. */
void dra_tick(struct dra *dra);

/* dra_counts() - for the metrics. */
const struct dra_counts *dra_counts(const struct dra *dra);

/* dra_is_offered() - the API server shows GPUs of this node to kube-scheduler. */
bool dra_is_offered(const struct dra *dra);
