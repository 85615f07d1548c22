/* metrics.h - the counters of ration-scheduler. */
#pragma once

#include <stdint.h>

#include "base/metrics.h"
#include "core/bind.h"
#include "core/evictions.h"
#include "core/filter.h"
#include "core/placement/choose.h"
#include "core/preempt.h"

struct scheduler_metrics {
	struct histogram filter, prioritize, bind, preempt;
	uint64_t preempt_results[PREEMPT_RESULT_MAX];
	uint64_t eviction_searches[SEARCH_RESULT_MAX];
	uint64_t evictions[EVICTION_RESULT_MAX];
	uint64_t eviction_attempts[ATTEMPT_RESULT_MAX];
	uint64_t filter_results[FILTER_RESULT_MAX];
	uint64_t filter_reject_reasons[REJECT_MAX]; /* by reason: nodes that filter rejected */
	uint64_t prioritize_bad_requests;
	uint64_t bind_results[BIND_RESULT_MAX];
	uint64_t requeues;   /* waiting pods that were requeued */
	uint64_t resizes[2]; /* answers to requests for another size: refused, applied */
};
