/* eviction-attempt.h - one pod's attempt to have a GPU freed: its memory, its orders, the choice of victims
 * and its end. evicting.c decides when each step happens. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/evictions.h"

struct core;

/* attempt_new() - adds an attempt to evictions->attempts; NULL: out of memory. attempt_free() - call after it
 * was removed there. Accepts NULL. */
struct eviction_attempt *attempt_new(
	struct evictions *evictions, const struct pod_facts *pod, int64_t now_ns);
void attempt_free(struct eviction_attempt *attempt);

void attempt_report(const struct eviction_attempt *attempt, struct eviction_report what);

/* attempt_order() - gives the caller an order. attempt_set_busy() - false: the answer to the last order has
 * come. */
void attempt_order(struct core *core, struct eviction_attempt *attempt, enum eviction_order order);
void attempt_set_busy(struct eviction_attempt *attempt, bool busy);

/* attempt_plan_on() - preemption_plan_node() for the attempt's present state. attempt_begin() - plans again
 * on the best node that is left. From then on victims are evicted. */
enum eviction_scope {
	EVICTION_ALLOWED,   /* pods that may be evicted */
	EVICTION_PROTECTED, /* and pods that PodDisruptionBudgets protect */
	EVICTION_UNBOUND,   /* and pods that are about to be bound */
};
int attempt_plan_on(struct core *core, const struct eviction_attempt *attempt, const char *node,
	enum eviction_scope scope, struct preemption_plan *ret_plan);
void attempt_begin(struct core *core, struct eviction_attempt *attempt, int64_t now_ns);

/* attempt_fail() - the attempt rests, and what was kept for the pod is free for others. attempt_end() - the
 * same after victims were planned; reports the sentence. attempt_report_end() - only reports.
 * attempt_back_off() - the next rest, or the next requeue during one, lasts twice as long. */
void attempt_fail(struct core *core, struct eviction_attempt *attempt, int64_t now_ns);
void attempt_end(struct core *core, struct eviction_attempt *attempt, enum attempt_outcome outcome,
	const char *why, int64_t now_ns);
void attempt_back_off(struct eviction_attempt *attempt);
void attempt_report_end(
	const struct eviction_attempt *attempt, enum attempt_outcome outcome, const char *why);
