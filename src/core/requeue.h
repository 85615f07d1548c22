/* requeue.h - the waiting pods, what each of them waits for, and which of them kube-scheduler should try
 * again now. Pure: the clock is an argument, and src/scheduler/requeue.c sends the requeue (it says why there
 * is one).
 *
 * A pod may wait for several things at once. Each of them is reported by the part that knows it:
 *
 * | waits for | since | an attempt is worth it when | |---|---|---| | REQUEUE_ROOM: a GPU | filter found no
 * node in the ledger | the ledger has changed since then, and the pod fits; its turn has come to see whether
 * evictions help by now; evictions for it may be tried again | | REQUEUE_UNIT: a unit of its ResourcePolicy |
 * the policy gave it none | something was freed in the policies of its namespace since then; the time is over
 * after which its policy answers differently | | REQUEUE_GANG: the turn of its gang | filter named no node
 * for a gang member, or its gang was planned before kube-scheduler asked for it | its gang holds a place for
 * it; filter would tell it another reason |
 *
 * A pod that waits for a GPU does not wait for a gang, and vice versa: room for one gang member alone would
 * not help.
 *
 * One rule applies to all: each evaluation requeues the pods that are worth an attempt, at most
 * REQUEUES_PER_LOOK. The order is by priority, then pods that were not requeued since kube-scheduler asked
 * for them, then pods that have waited longest. A requeue may be in vain, so each pod has a back-off, which
 * doubles with each requeue. It delays attempts that may succeed (something was freed), but not appointments:
 * the end of a time-out, and the place that a gang holds for its member. docs/internals/requeueing.md has the
 * reasons. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"

struct ledger;
struct pod_facts;

#define REQUEUES_PER_LOOK 16

enum requeue_reason { REQUEUE_ROOM, REQUEUE_UNIT, REQUEUE_GANG, REQUEUE_REASONS };

struct requeue_list {
	struct table pods; /* uid -> struct requeue_pod */
	uint64_t next_order;
	uint64_t looked_at;	/* the ledger's generation at the last complete evaluation */
	bool reported;		/* something was reported since the last evaluation */
	int64_t hope_ns;	/* when a pod that an eviction may help may be requeued next */
	int64_t found_asked_ns; /* when kube-scheduler last asked for a found pod for the first time */
};

void requeue_list_init(struct requeue_list *list);
void requeue_list_release(struct requeue_list *list);

/* For all reports below: now_ns is monotonic, in nanoseconds, over 0. Facts are copied. Functions that add a
 * pod return 0, -ENOMEM or -E2BIG; after an error the pod will not be requeued. Unknown uids are ignored.
 * After a report the caller asks requeue_list_is_due(). */

/* requeue_list_leave() - the pod is bound, gone or finished. requeue_list_stop() - the pod no longer waits
 * for this: it got it, or the part that reported it no longer knows the pod. */
void requeue_list_leave(struct requeue_list *list, const char *uid);
void requeue_list_stop(struct requeue_list *list, const char *uid, enum requeue_reason reason);

/* requeue_list_asked() - kube-scheduler asks for the pod. As long as it asks for one found pod after the
 * other, it works through its queue, and the others may be in it: they are requeued when it has asked for
 * none of them for a second.
 *
 * requeue_list_rejected() - filter found no node for the pod in the present ledger.
 * requeue_list_found_waiting() - an earlier process of ration may have rejected the pod. It is treated as if
 * something had been freed since. That happens three times at most unless kube-scheduler asks this process
 * for the pod, because it may belong to another scheduler. requeue_list_may_evict() - call after either: no
 * eviction helps the pod now, though there are pods of lower priority. After any change of the ledger one may
 * help. One such pod is requeued each second, in turn. requeue_list_eviction_due() - evictions for the pod
 * may be tried again, which filter does: an attempt is worth it now. */
void requeue_list_asked(struct requeue_list *list, const char *uid, int64_t now_ns);
int requeue_list_rejected(
	struct requeue_list *list, const struct pod_facts *pod, const struct ledger *ledger, int64_t now_ns);
int requeue_list_found_waiting(struct requeue_list *list, const struct pod_facts *pod, int64_t now_ns);
void requeue_list_may_evict(struct requeue_list *list, const char *uid);
int requeue_list_eviction_due(struct requeue_list *list, const struct pod_facts *pod, int64_t now_ns);

/* The pod needs only uid, namespace, name and priority.
 *
 * requeue_list_has_no_unit() - the pod's policy has no unit for it. freed: a number that changes whenever
 * something is freed in the policies of its namespace; its value at that time. until_ns: when the policy's
 * answer will have changed by itself; 0: it will not. requeue_list_found_without_unit() - as
 * requeue_list_found_waiting(). requeue_list_unit_freed() - that number is now `freed`, for all pods of this
 * namespace that wait for a unit. */
int requeue_list_has_no_unit(struct requeue_list *list, const struct pod_facts *pod, uint64_t freed,
	int64_t until_ns, int64_t now_ns);
int requeue_list_found_without_unit(
	struct requeue_list *list, const struct pod_facts *pod, uint64_t freed, int64_t now_ns);
void requeue_list_unit_freed(struct requeue_list *list, const char *namespace_, uint64_t freed);

/* requeue_list_waits_for_gang() - filter named no node for this gang member. requeue_list_gang_has_place() -
 * the pod's gang holds a place for it. If kube-scheduler has asked for it in vain, it is requeued at once.
 * Otherwise it is in kube-scheduler's queue, and kube-scheduler has a second to ask by itself. The requeue is
 * repeated after each back-off until kube-scheduler asks, or requeue_list_gang_has_none() says that the place
 * is lost. requeue_list_gang_tells() - filter would give another reason for the pod now, and users still see
 * the old one. */
int requeue_list_waits_for_gang(struct requeue_list *list, const struct pod_facts *pod, int64_t now_ns);
int requeue_list_gang_has_place(struct requeue_list *list, const struct pod_facts *pod, int64_t now_ns);
void requeue_list_gang_has_none(struct requeue_list *list, const char *uid);
void requeue_list_gang_tells(struct requeue_list *list, const char *uid);

/* requeue_list_find() - how a pod waits for this reason; false if it does not. requeue_list_count() - how
 * many pods wait for it. */
struct requeue_state {
	int64_t since_ns,
		asked_ns;      /* since when it waits; when kube-scheduler last asked, or the pod was found */
	int64_t not_before_ns; /* no requeue before, except for appointments; 0: as soon as an attempt is
				  worth it */
	uint32_t requeues;
};
bool requeue_list_find(const struct requeue_list *list, const char *uid, enum requeue_reason reason,
	struct requeue_state *ret_state);
size_t requeue_list_count(const struct requeue_list *list, enum requeue_reason reason);

/* requeue_list_is_due() - pods wait, and the ledger has changed since the last evaluation or something was
 * reported. */
bool requeue_list_is_due(const struct requeue_list *list, const struct ledger *ledger);

/* requeue_list_look() - returns the pods to requeue now, at most REQUEUES_PER_LOOK, and counts them as
 * requeued. The facts are valid until the pod leaves. Returns their number. *ret_again_ns is when to call
 * again at the latest, relative to now; INT64_MAX if only a change of the ledger or a report can matter. */
size_t requeue_list_look(struct requeue_list *list, struct ledger *ledger, int64_t now_ns,
	const struct pod_facts *ret_pods[REQUEUES_PER_LOOK], int64_t *ret_again_ns);

/* requeue_list_failed() - the last requeue of the pod did not arrive: it does not count, and the next one
 * comes after a second. */
void requeue_list_failed(struct requeue_list *list, const char *uid, int64_t now_ns);

/* requeue_list_forget_gone() - forgets pods that ask for a GPU and that the ledger does not know, although
 * its watch had the time to show them. They were deleted just before kube-scheduler asked, and no event will
 * tell of them again. Call only while the watch is open. */
void requeue_list_forget_gone(struct requeue_list *list, const struct ledger *ledger, int64_t now_ns);
