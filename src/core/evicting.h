/* evicting.h - evictions by ration, for a node where the sum of free gpu-mem suffices and no GPU does. Pure:
 * the caller sends the requests to the API server; orders tell it what to do next.
 *
 * kube-scheduler sees only the sum, so it finds no pod to preempt there (preemption.go "expected at least one
 * victim", 1.36.3). The core acts when filter rejects a pod of higher priority everywhere, and kube-scheduler
 * does not preempt for it within a moment. It chooses node, GPU and victims by the same order as
 * kube-scheduler, and has the victims evicted through the eviction API, one at a time, with their uid as
 * precondition. Victims that a PodDisruptionBudget guards come first, because only they can be refused.
 * Meanwhile the GPU is kept for the pod. Then the pod is nominated for the node. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/evictions.h"

struct core;

/* core_filter_is_answered() - the answer to the last core_filter() is sent. The core measures searches by
 * this: it spends at most one tenth of the time on searches for victims. */
void core_filter_is_answered(struct core *core, int64_t now_ns);

/* core_continue_evictions() - continues each attempt. The caller arms a timer for evictions.due_ns. */
void core_continue_evictions(struct core *core, int64_t now_ns);

/* core_next_eviction_order() - the oldest order that is not carried out yet, which the caller must carry out
 * now; NULL: none. The attempt stays valid until the caller reports the result by one of the functions below.
 */
struct eviction_attempt *core_next_eviction_order(struct core *core);

/* eviction_outcome() - result: 0 if there was an answer, else a negative errno; status: HTTP; accepted:
 * whether the answer says so. core_eviction_answered() - why: the sentence of the API server. */
enum eviction_outcome eviction_outcome(int result, long status, bool accepted);
void core_eviction_answered(struct core *core, struct eviction_attempt *attempt,
	enum eviction_outcome outcome, const char *why, int64_t now_ns);

/* core_victim_is_marked(), core_nomination_is_cleared() - whether or not the request succeeded. Without the
 * victim's condition, kube-scheduler might look for more victims. It clears the nomination itself when it
 * sees that the pod does not fit there. core_nomination_answered() - written: the pod's status has the
 * nomination. */
void core_victim_is_marked(struct core *core, struct eviction_attempt *attempt);
void core_nomination_answered(struct core *core, struct eviction_attempt *attempt, bool written);
void core_nomination_is_cleared(struct core *core, struct eviction_attempt *attempt);

/* core_eviction_not_asked() - the caller could not start the request of the last order. */
void core_eviction_not_asked(struct core *core, struct eviction_attempt *attempt);
