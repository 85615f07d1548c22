/* evicting.h - evictions of our own, for a node where the sum of free gpu-mem suffices and no GPU does. Pure:
 * the requests to the API server are the caller's, and what it has to do next comes out as orders.
 *
 * kube-scheduler sees only the sum and finds no pod to preempt there (preemption.go "expected at least one
 * victim", 1.36.3). So when filter rejects a pod of higher priority everywhere, and kube-scheduler does not
 * preempt for it within a moment, the core chooses node, GPU and victims by the same order and has them
 * evicted through the eviction API: one at a time, with their uid as precondition, those that a
 * PodDisruptionBudget guards first, since only they can be refused. Meanwhile the GPU is kept for the pod.
 * Then the pod is nominated for the node.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/evictions.h"

struct core;

/* core_filter_is_answered() - the answer to the last core_filter() is there: at most one tenth of the time is
 * spent on searches for victims. */
void core_filter_is_answered(struct core *core, int64_t now_ns);

/* core_continue_evictions() - goes on with each attempt. The caller arms a timer for evictions.due_ns. */
void core_continue_evictions(struct core *core, int64_t now_ns);

/* core_next_eviction_order() - the oldest order that is not carried out, which the caller now does; NULL:
 * none. The attempt stays valid until the answer is told by one of the functions below. */
struct eviction_attempt *core_next_eviction_order(struct core *core);

/* eviction_outcome() - result: 0 if there was an answer, else a negative errno; status: HTTP; accepted:
 * whether the answer says so. core_eviction_answered() - why: what the API server said. */
enum eviction_outcome eviction_outcome(int result, long status, bool accepted);
void core_eviction_answered(struct core *core, struct eviction_attempt *attempt,
	enum eviction_outcome outcome, const char *why, int64_t now_ns);

/* core_victim_is_marked(), core_nomination_is_cleared() - whether or not it worked: without the condition
 * kube-scheduler might look for more victims, and it clears the nomination itself as soon as it sees that the
 * pod does not fit there. core_nomination_answered() - written: the pod's status has it. */
void core_victim_is_marked(struct core *core, struct eviction_attempt *attempt);
void core_nomination_answered(struct core *core, struct eviction_attempt *attempt, bool written);
void core_nomination_is_cleared(struct core *core, struct eviction_attempt *attempt);

/* core_eviction_not_asked() - the request of the last order could not be started. */
void core_eviction_not_asked(struct core *core, struct eviction_attempt *attempt);
