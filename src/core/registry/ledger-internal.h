/* ledger-internal.h - steps of ledger.c that other files of this folder take too. */
#pragma once

#include "core/registry/registry.h"

/* ledger_pod_add() - an entry that occupies nothing; its uid must be new. */
int ledger_pod_add(struct ledger *ledger, const struct pod_facts *facts, struct ledger_pod **ret_pod);

/* ledger_pod_occupy() - what the pod occupies from now on, in place of what it occupied; placement NULL:
 * unplaced. Does not ask whether it fits. -ENOMEM: nothing changed. */
int ledger_pod_occupy(struct ledger *ledger, struct ledger_pod *pod, const char *node,
	const struct placement *placement, enum occupancy occupancy);

int ledger_pod_get_or_add(struct ledger *ledger, const struct pod_facts *facts, struct ledger_pod **ret_pod);

/* ledger_pod_drop_if_unused() - a pod that the API server never showed is remembered only as long as it holds
 * something. */
void ledger_pod_drop_if_unused(struct ledger *ledger, struct ledger_pod *pod);

/* ledger_pod_end_reservation() - the pod occupies nothing any more; it may be gone afterwards. */
void ledger_pod_end_reservation(struct ledger *ledger, struct ledger_pod *pod);

/* ledger_count_host() - the node belongs to those over which ledger_gpu_mean() is taken, or does not any
 * more. */
void ledger_count_host(struct ledger *ledger, const struct node_ledger *node, bool leaves);

/* ledger_pod_end_nomination() - nothing happens if it has none. */
void ledger_pod_end_nomination(struct ledger *ledger, struct ledger_pod *pod);
