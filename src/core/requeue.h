/* requeue.h - pods that filter rejected, and who of them is to be woken when something is freed. Pure: the
 * clock is an argument, the requeue itself is the caller's (src/scheduler/requeue.c says why there is one).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"

struct ledger;
struct pod_facts;

#define REQUEUES_PER_LOOK 16

struct requeue_list {
	struct table pods; /* uid -> struct requeue_pod */
	uint64_t next_order;
	uint64_t looked_at; /* ledger generation of the last complete look */
};

void requeue_list_init(struct requeue_list *list);
void requeue_list_release(struct requeue_list *list);

/* requeue_list_found_waiting() - an earlier process of ours may have rejected the pod, for all we know: the
 * next look takes it as if something had been freed since. Requeued three times at most, unless we reject it
 * ourselves: it may be another scheduler's. */
int requeue_list_found_waiting(struct requeue_list *list, const struct pod_facts *pod, int64_t now_ns);

/* requeue_list_rejected() - filter found no node for the pod in the ledger as it is now. -ENOMEM, -E2BIG: the
 * pod will not be woken. requeue_list_leave() - bound, gone or finished; unknown uids are ignored. */
int requeue_list_rejected(
	struct requeue_list *list, const struct pod_facts *pod, const struct ledger *ledger, int64_t now_ns);
void requeue_list_leave(struct requeue_list *list, const char *uid);

/* requeue_list_find() - how a pod waits; false if it does not. */
struct requeue_state {
	int64_t first_rejected_ns, last_rejected_ns;
	int64_t not_before_ns; /* no requeue before; 0: as soon as it fits */
	uint32_t requeues;
};
bool requeue_list_find(const struct requeue_list *list, const char *uid, struct requeue_state *ret_state);

/* requeue_list_is_due() - the ledger has changed since the last look, and somebody waits. */
bool requeue_list_is_due(const struct requeue_list *list, const struct ledger *ledger);

/* requeue_list_look() - who is to be requeued now, by priority, then by who waited longest; at most
 * REQUEUES_PER_LOOK, each with a growing back-off of its own (a requeue may be in vain: in-tree filters may
 * reject the pod). The facts are valid until the pod leaves. Returns how many; *ret_again_ns is when to look
 * again at the latest, relative to now, INT64_MAX if only a change of the ledger can matter. */
size_t requeue_list_look(struct requeue_list *list, struct ledger *ledger, int64_t now_ns,
	const struct pod_facts *ret_pods[REQUEUES_PER_LOOK], int64_t *ret_again_ns);

/* requeue_list_failed() - the last requeue of the pod did not arrive: it does not count, the next one comes
 * soon. */
void requeue_list_failed(struct requeue_list *list, const char *uid, int64_t now_ns);

/* requeue_list_forget_gone() - pods that the ledger does not know although its watch had the time: they were
 * deleted just before kube-scheduler asked, and no event will tell of them again. Only while the watch is
 * open. */
void requeue_list_forget_gone(struct requeue_list *list, const struct ledger *ledger, int64_t now_ns);
