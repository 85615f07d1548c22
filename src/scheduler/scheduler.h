/* scheduler.h - the state that the files of ration-scheduler share. Which file does what: README.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/preemption/budget.h"
#include "core/registry/ledger.h"
#include "core/requeue.h"
#include "scheduler/leadership.h"
#include "scheduler/metrics.h"

struct bind_queue;
struct budget_sync;
struct evictions;
struct gang_controller;
struct journal;
struct kube_client;
struct ledger_lease;
struct loop;
struct policies;
struct recorder;
struct resizes;
struct sync;
struct requeuer;
struct webhook;

struct scheduler {
	struct loop *loop;
	struct kube_client *client;
	struct ledger ledger;
	struct sync *sync;
	struct ledger_lease *lease;
	struct leadership leadership;
	struct requeue_list requeues; /* inited and released by the requeuer */
	struct requeuer *requeuer;
	struct bind_queue *binds;
	struct resizes *resizes;
	struct recorder *recorder;
	struct journal *journal;
	struct budgets budgets;
	struct budget_sync *budget_sync;
	struct evictions *evictions;
	struct gang_controller *gangs;
	struct policies *policies;
	struct webhook *webhook;   /* NULL without --webhook */
	size_t best_nodes;	   /* K of filter's answer; 0: all */
	uint32_t max_pods_per_gpu; /* on isolated nodes; 0: the contract's */
	bool job_mixing;	   /* pods with and without a percentage on one core_mem node */
	bool nodes_synced, pods_synced;
	struct scheduler_metrics metrics;
};

/* scheduler_is_ready() - the first LISTs are in the ledger. Stays true through an outage of the API server:
 * the ledger then lags, but no pod can be bound behind its back by us. */
static inline bool scheduler_is_ready(const struct scheduler *scheduler)
{
	return scheduler->nodes_synced && scheduler->pods_synced;
}
