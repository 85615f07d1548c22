/* scheduler/ - ration-scheduler: the extender beside kube-scheduler. One thread, one ledger, no writes to
 * nodes. main.c options and wiring   sync.c watch events into the ledger   extender.c the verbs filter and
 * prioritize bind.c Bindings in flight   waiting.c pods we rejected, nudged when they may fit   inspect.c the
 * status page   recorder.c the last decisions   record.c what the verbs tell it   why.c both as JSON
   preempt.c
 * the verb preempt, nominations   evict.c evictions of our own   sync-budgets.c PodDisruptionBudgets
 * resize.c another size for a pod that runs   gangs.c pods that are placed all or none, bind-gang.c at bind,
 * gang-groups.c PodGroups
 *
 * levels*.c ResourcePolicies   simulate.c filter for programs that simulate scheduling
 *
 * webhook.c the mutating webhook   certificates.c its certificate   admission.c its answers
 *
 * scheduler.h: the state that these share.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/preemption/budget.h"
#include "core/registry/ledger.h"
#include "scheduler/metrics.h"
#include "scheduler/takeover.h"

struct bind_queue;
struct budget_sync;
struct evictions;
struct gang_controller;
struct kube_client;
struct journal;
struct ledger_lease;
struct levels;
struct loop;
struct recorder;
struct resizes;
struct sync;
struct waiting_room;
struct webhook;

struct scheduler {
	struct loop *loop;
	struct kube_client *client;
	struct ledger ledger;
	struct sync *sync;
	struct ledger_lease *lease;
	struct takeover takeover;
	struct waiting_room *waiting;
	struct bind_queue *binds;
	struct resizes *resizes;
	struct recorder *recorder;
	struct journal *journal;
	struct budgets budgets;
	struct budget_sync *budget_sync;
	struct evictions *evictions;
	struct gang_controller *gangs;
	struct levels *levels;
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
