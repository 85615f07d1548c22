/* nomination.h - GPUs that are being freed for one waiting pod.
 *
 * The victims still occupy their units until they are gone. From then on the units are free only for the
 * nominated pod and for pods above its priority. So a nomination is not part of the node's sums. While the
 * ledger searches a GPU for a pod of the same or a lower priority, it adds the nomination to the sums, and
 * removes it afterwards. kube-scheduler 1.36.3 counts nominated pods for the same pods (addGENominatedPods).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/registry/registry.h"

struct nomination {
	struct list item;	      /* in node->nominations */
	struct list all;	      /* in ledger->nominations */
	struct node_ledger *node;     /* the node stays known while a pod is nominated for it */
	const struct ledger_pod *pod; /* the nominated pod */
	struct ledger_pod shadow;     /* what it will occupy: request and placement; in no table */
	int64_t expires_ns;
};

void nomination_free(struct nomination *nomination); /* accepts NULL; leaves its lists */

/* nominations_lay() - adds to the node's sums what counts for this pod. nominations_lift() - removes exactly
 * that again. The caller must change nothing in between. */
void nominations_lay(struct node_ledger *node, const struct pod_facts *pod);
void nominations_lift(struct node_ledger *node, const struct pod_facts *pod);

/* nomination_choose() - placement_choose(), but the GPU that the pod is nominated for comes first. known:
 * the pod in the ledger, or NULL. */
int nomination_choose(const struct node_ledger *node, const struct pod_facts *pod,
	const struct ledger_pod *known, struct placement *ret_placement);

/* nomination_waits() - true while a pod on the nominated node is being deleted. */
bool nomination_waits(const struct nomination *nomination);

/* nominations_expire() - ends the nominations whose time is over; returns their number. */
size_t nominations_expire(struct ledger *ledger, int64_t now_ns);

/* ledger_nominate() - other pods are evicted from these GPUs for this pod (see above). While the pod waits,
 * the GPUs count as its own for pods of its priority and below, whether or not they are free yet. The
 * nomination ends with the pod's binding, end or removal, and at expires_ns (monotonic; NOMINATION_LASTS: not
 * by time). A new one replaces it. It survives holds and refused Bindings. -EBUSY for a pod that is reserved,
 * bound or finished, -ENOENT for an unknown node, -EINVAL if the placement is not one of this request,
 * -ENOMEM; on failure an earlier one stays.
 *
 * ledger_restore_nomination() - for ledger_restore_pod(): takes the image without checks. Of the image, node,
 * shadow.placement and expires_ns count. ledger_nomination_set_end() - changes when it ends.
 * ledger_drop_nomination() - ends it now. */
#define NOMINATION_LASTS INT64_MAX
int ledger_nominate(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement, int64_t expires_ns);
int ledger_restore_nomination(struct ledger *ledger, struct ledger_pod *pod, const struct nomination *image);
void ledger_nomination_set_end(struct ledger *ledger, const char *uid, int64_t expires_ns);
void ledger_drop_nomination(struct ledger *ledger, const char *uid);
