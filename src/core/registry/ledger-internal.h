/* ledger-internal.h - functions of ledger.c that other files of this folder use. */
#pragma once

#include "core/registry/registry.h"

/* ledger_pod_add() - adds an entry that occupies nothing; its uid must be new. */
int ledger_pod_add(struct ledger *ledger, const struct pod_facts *facts, struct ledger_pod **ret_pod);

/* ledger_pod_occupy() - replaces what the pod occupies. A placement of NULL means that the pod is unplaced.
 * The function does not check for room. -ENOMEM: nothing changed. */
int ledger_pod_occupy(struct ledger *ledger, struct ledger_pod *pod, const char *node,
	const struct placement *placement, enum occupancy occupancy);

/* ledger_pod_take_size() - a pod that has a placement occupies this one instead, on the same GPUs. Takes over
 * placement and request, which fit each other. */
void ledger_pod_take_size(
	struct ledger *ledger, struct ledger_pod *pod, struct placement *placement, struct request *request);

int ledger_pod_get_or_add(struct ledger *ledger, const struct pod_facts *facts, struct ledger_pod **ret_pod);

/* ledger_pod_drop_if_unused() - the ledger remembers a pod that the API server never showed only while the
 * pod holds something. */
void ledger_pod_drop_if_unused(struct ledger *ledger, struct ledger_pod *pod);

/* ledger_pod_end_reservation() - the pod no longer occupies anything; its entry may be freed. */
void ledger_pod_end_reservation(struct ledger *ledger, struct ledger_pod *pod);

/* gpu_hosts_add(), gpu_hosts_remove() - count a node, or no longer count it. What a node has and what its
 * pods take changes only while ledger->hosts does not count it. */
void gpu_hosts_add(struct gpu_hosts *hosts, const struct node_ledger *node);
void gpu_hosts_remove(struct gpu_hosts *hosts, const struct node_ledger *node);

/* ledger_count_models() - the node's GPUs are what pods call by these names (NULL: unknown). Call after each
 * change of them. */
void ledger_count_models(struct ledger *ledger, struct node_ledger *node, const char *names);

/* ledger_pod_end_nomination() - does nothing if the pod has no nomination. */
void ledger_pod_end_nomination(struct ledger *ledger, struct ledger_pod *pod);
