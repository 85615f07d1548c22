/* scheduler.h - the state that the files of ration-scheduler share. Which file does what: README.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/metrics.h"
#include "core/bind.h"
#include "core/core.h"
#include "core/events.h"
#include "core/evicting.h"
#include "core/evictions.h"
#include "core/filter.h"
#include "core/placement/choose.h"
#include "core/policies.h"
#include "core/preempt.h"
#include "core/resizing.h"

struct actuator;
struct budget_sync;
struct event_log;
struct gang_controller;
struct kube_client;
struct ledger_lease;
struct loop;
struct policies;
struct recorder;
struct sync;
struct requeuer;
struct webhook;

/* The counters for /metrics. */
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

struct scheduler {
	struct loop *loop;
	struct kube_client *client;
	struct core core;
	struct actuator *actuator;
	struct sync *sync;
	int64_t verify_at_ns; /* when to ask the API server for pods that the watch has not shown
				 (leadership.h); 0: the watch has shown all */
	struct ledger_lease *lease;
	struct requeuer *requeuer;
	struct recorder *recorder;
	struct event_log *event_log;
	struct budget_sync *budget_sync;
	struct gang_controller *gangs;
	struct policies *policies;
	struct webhook *webhook;   /* NULL without --webhook */
	size_t best_nodes;	   /* K of filter's answer; 0: all */
	uint32_t max_pods_per_gpu; /* on isolated nodes; 0: the contract's number */
	bool job_mixing;	   /* pods with and without a percentage may share a core_mem node */
	struct scheduler_metrics metrics;
};
