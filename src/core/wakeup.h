/* wakeup.h - pods that filter rejected, and who of them is to be woken when something is freed. Pure: the
 * clock is an argument, the nudge itself is the caller's (src/scheduler/waiting.c says why there is one).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"

struct ledger;
struct pod_facts;

#define WAKEUPS_PER_LOOK 16

struct wakeup_list {
	struct table pods; /* uid -> struct wakeup_pod */
	uint64_t next_order;
	uint64_t looked_at; /* ledger generation of the last complete look */
};

void wakeup_list_init(struct wakeup_list *list);
void wakeup_list_release(struct wakeup_list *list);

/* wakeup_found_waiting() - an earlier process of ours may have rejected the pod, for all we know: the next
 * look takes it as if something had been freed since. Nudged three times at most, unless we reject it
 * ourselves: it may be another scheduler's. */
int wakeup_found_waiting(struct wakeup_list *list, const struct pod_facts *pod, int64_t now_ns);

/* wakeup_rejected() - filter found no node for the pod in the ledger as it is now. -ENOMEM, -E2BIG: the pod
 * will not be woken. wakeup_leave() - bound, gone or finished; unknown uids are ignored. */
int wakeup_rejected(
	struct wakeup_list *list, const struct pod_facts *pod, const struct ledger *ledger, int64_t now_ns);
void wakeup_leave(struct wakeup_list *list, const char *uid);

/* wakeup_find() - how a pod waits; false if it does not. */
struct wakeup_state {
	int64_t first_rejected_ns, last_rejected_ns;
	int64_t not_before_ns; /* no nudge before; 0: as soon as it fits */
	uint32_t nudges;
};
bool wakeup_find(const struct wakeup_list *list, const char *uid, struct wakeup_state *ret_state);

/* wakeup_is_due() - the ledger has changed since the last look, and somebody waits. */
bool wakeup_is_due(const struct wakeup_list *list, const struct ledger *ledger);

/* wakeup_look() - who is to be nudged now, by priority, then by who waited longest; at most WAKEUPS_PER_LOOK,
 * each with a growing back-off of its own (a nudge may be in vain: in-tree filters may reject the pod). The
 * facts are valid until the pod leaves. Returns how many; *ret_again_ns is when to look again at the latest,
 * relative to now, INT64_MAX if only a change of the ledger can matter. */
size_t wakeup_look(struct wakeup_list *list, struct ledger *ledger, int64_t now_ns,
	const struct pod_facts *ret_pods[WAKEUPS_PER_LOOK], int64_t *ret_again_ns);

/* wakeup_failed() - the last nudge of the pod did not arrive: it does not count, the next one comes soon. */
void wakeup_failed(struct wakeup_list *list, const char *uid, int64_t now_ns);

/* wakeup_forget_gone() - pods that the ledger does not know although its watch had the time: they were
 * deleted just before kube-scheduler asked, and no event will tell of them again. Only while the watch is
 * open. */
void wakeup_forget_gone(struct wakeup_list *list, const struct ledger *ledger, int64_t now_ns);
