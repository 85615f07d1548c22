/* nomination.h - GPUs that are being freed for one waiting pod.
 *
 * The victims still occupy their units until they are gone, and from then on the units are free for the pod
 * and for those above it only. So a nomination is no part of the node's sums: it is laid over them while the
 * ledger looks for a GPU for somebody of the pod's priority or below (kube-scheduler 1.36.3 counts nominated
 * pods for the same ones: addGENominatedPods), and lifted again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/registry/registry.h"

struct nomination {
	struct list item;	      /* in node->nominations */
	struct list all;	      /* in ledger->nominations */
	struct node_ledger *node;     /* stays while it is nominated for */
	const struct ledger_pod *pod; /* whose it is */
	struct ledger_pod shadow;     /* what it will occupy: request and placement; in no table */
	int64_t expires_ns;
};

void nomination_free(struct nomination *nomination); /* accepts NULL; leaves its lists */

/* nominations_lay() - add to the node's sums what counts for this pod. nominations_lift() - take exactly that
 * out again. Nothing may change in between. */
void nominations_lay(struct node_ledger *node, const struct pod_facts *pod);
void nominations_lift(struct node_ledger *node, const struct pod_facts *pod);

/* nomination_choose() - placement_choose(), but the GPU that the pod is nominated for comes first. known:
 * the pod in the ledger, or NULL. */
int nomination_choose(const struct node_ledger *node, const struct pod_facts *pod,
	const struct ledger_pod *known, struct placement *ret_placement);

/* nomination_waits() - a pod on its node is being deleted. */
bool nomination_waits(const struct nomination *nomination);

/* nominations_expire() - ends those whose time is over; returns how many. */
size_t nominations_expire(struct ledger *ledger, int64_t now_ns);

/* ledger_nominate() - others are evicted from these GPUs for the pod (see above): while it waits they
 * count as its own for pods of its priority and below, whether or not they are free yet. Ends with the pod's
 * binding, end or removal, and at expires_ns (monotonic; NOMINATION_LASTS: not by time); a new one replaces
 * it. It survives holds and refused Bindings. -EBUSY for a pod that is reserved, bound or finished, -ENOENT
 * for an unknown node, -EINVAL if the placement is not one of this request, -ENOMEM; on failure an earlier
 * one stays.
 *
 * ledger_restore_nomination() - for ledger_restore_pod(): without a question. image: node, shadow.placement
 * and expires_ns count. ledger_nomination_set_end() - changes when it ends. ledger_drop_nomination() - ends
 * it now. */
#define NOMINATION_LASTS INT64_MAX
int ledger_nominate(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement, int64_t expires_ns);
int ledger_restore_nomination(struct ledger *ledger, struct ledger_pod *pod, const struct nomination *image);
void ledger_nomination_set_end(struct ledger *ledger, const char *uid, int64_t expires_ns);
void ledger_drop_nomination(struct ledger *ledger, const char *uid);
