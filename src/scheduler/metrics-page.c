/* metrics-page.c - the page /metrics. */
#include "core/registry/node-ledger.h"
#include "kube/kube-metrics.h"
#include "scheduler/event-log.h"
#include "scheduler/lease.h"
#include "scheduler/pages.h"
#include "scheduler/policies.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"
#include "scheduler/webhook.h"

static const char *const filter_results[FILTER_RESULT_MAX] = {
	[FILTER_FITS] = "fits",
	[FILTER_NO_NODE] = "no_node",
	[FILTER_GANG] = "gang",
	[FILTER_NOT_OURS] = "not_ours",
	[FILTER_IN_DOUBT] = "in_doubt",
	[FILTER_NOT_OWNER] = "not_owner",
	[FILTER_NOT_READY] = "not_ready",
	[FILTER_BAD_REQUEST] = "bad_request",
	[FILTER_FAILED] = "failed",
};

static const char *const bind_results[BIND_RESULT_MAX] = {
	[BIND_BOUND] = "bound",
	[BIND_NO_GPU] = "no_card",
	[BIND_REFUSED] = "refused",
	[BIND_IN_DOUBT] = "in_doubt",
	[BIND_POD_UNREADABLE] = "pod_unreadable",
	[BIND_POD_REPLACED] = "pod_replaced",
	[BIND_GANG] = "gang",
	[BIND_LATE] = "late",
	[BIND_ABANDONED] = "abandoned",
	[BIND_NOT_OWNER] = "not_owner",
	[BIND_NOT_READY] = "not_ready",
	[BIND_BAD_REQUEST] = "bad_request",
	[BIND_FAILED] = "failed",
};

static const char *const preempt_results[PREEMPT_RESULT_MAX] = {
	[PREEMPT_NODE] = "node",
	[PREEMPT_NO_NODE] = "no_node",
	[PREEMPT_GANG] = "gang",
	[PREEMPT_OWN] = "own_eviction",
	[PREEMPT_NOT_OURS] = "not_ours",
	[PREEMPT_NOT_OWNER] = "not_owner",
	[PREEMPT_NOT_READY] = "not_ready",
	[PREEMPT_BAD_REQUEST] = "bad_request",
	[PREEMPT_FAILED] = "failed",
};

static const char *const search_results[SEARCH_RESULT_MAX] = {
	[SEARCH_PLANNED] = "planned",
	[SEARCH_PROTECTED] = "protected",
	[SEARCH_NO_VICTIMS] = "no_victims",
};

static const char *const eviction_results[EVICTION_RESULT_MAX] = {
	[EVICTION_ACCEPTED] = "accepted",
	[EVICTION_GONE] = "gone",
	[EVICTION_REFUSED] = "refused",
	[EVICTION_AGAIN] = "again",
};

static const char *const attempt_results[ATTEMPT_RESULT_MAX] = {
	[ATTEMPT_BOUND] = "bound",
	[ATTEMPT_GONE] = "pod_gone",
	[ATTEMPT_REFUSED] = "refused",
	[ATTEMPT_STUCK] = "victims_stay",
	[ATTEMPT_UNUSED] = "unused",
};

static const char *const resize_results[2] = {"refused", "applied"};

static const char *const reject_reasons[REJECT_MAX] = {
	[REJECT_NO_GPU_NODE] = "no_gpu_node",
	[REJECT_MODE] = "mode",
	[REJECT_TOO_LARGE] = "too_large",
	[REJECT_FULL] = "full",
	[REJECT_NOT_SERVING] = "not_serving",
	[REJECT_TOO_FEW] = "too_few",
	[REJECT_INSTANCES] = "instances",
	[REJECT_CORE] = "core",
	[REJECT_MIXED] = "job_mixing",
	[REJECT_UNIT] = "unit",
	[REJECT_CHANGING] = "changing",
	[REJECT_HELD] = "held",
	[REJECT_POLICY_UNIT] = "level",
};
_Static_assert(REJECT_MAX == REJECT_POLICY_UNIT + 1, "a reject reason without a name here");

static void add_verbs(struct metrics *page, const struct scheduler_metrics *counted)
{
	metrics_family(
		page, "ration_filter_duration_seconds", "histogram", "Time to answer the verb filter.");
	metrics_histogram(page, &counted->filter);
	metrics_family(page, "ration_filter_results_total", "counter", "Answers of filter.");
	metrics_each(page, "result", filter_results, counted->filter_results, FILTER_RESULT_MAX);
	metrics_family(page, "ration_filter_node_rejections_total", "counter",
		"Nodes that filter rejected, by reason; one call rejects many.");
	metrics_each(page, "reason", reject_reasons + 1, counted->filter_reject_reasons + 1, REJECT_MAX - 1);
	metrics_family(page, "ration_prioritize_duration_seconds", "histogram",
		"Time to answer the verb prioritize.");
	metrics_histogram(page, &counted->prioritize);
	metrics_one(page, "ration_prioritize_bad_requests_total", "counter",
		"Calls of prioritize that could not be read.", counted->prioritize_bad_requests);
	metrics_family(page, "ration_bind_duration_seconds", "histogram",
		"Time to answer the verb bind, the API server's share included.");
	metrics_histogram(page, &counted->bind);
	metrics_family(page, "ration_bind_results_total", "counter",
		"Answers of bind; all but bound fail the pod's scheduling cycle.");
	metrics_each(page, "result", bind_results, counted->bind_results, BIND_RESULT_MAX);
}

static void add_preemption(struct metrics *page, const struct scheduler_metrics *counted)
{
	metrics_family(
		page, "ration_preempt_duration_seconds", "histogram", "Time to answer the verb preempt.");
	metrics_histogram(page, &counted->preempt);
	metrics_family(page, "ration_preempt_results_total", "counter", "Answers of preempt.");
	metrics_each(page, "result", preempt_results, counted->preempt_results, PREEMPT_RESULT_MAX);
	metrics_family(page, "ration_eviction_searches_total", "counter",
		"Searches for pods to evict where a node has enough free memory in sum and no single GPU has.");
	metrics_each(page, "result", search_results, counted->eviction_searches, SEARCH_RESULT_MAX);
	metrics_family(page, "ration_evictions_total", "counter",
		"The API server's answers to evictions by ration-scheduler.");
	metrics_each(page, "result", eviction_results, counted->evictions, EVICTION_RESULT_MAX);
	metrics_family(page, "ration_eviction_attempts_total", "counter",
		"Attempts of ration-scheduler to evict other pods for a pod, by outcome.");
	metrics_each(page, "result", attempt_results, counted->eviction_attempts, ATTEMPT_RESULT_MAX);
}

struct cluster_sums {
	uint64_t nodes[GPU_MODE_MAX], not_serving;
	uint64_t gpus, unhealthy, over;
	uint64_t total_mib, used_mib, unplaced_mib;
	uint64_t recounts;
};

static void sum_node(struct cluster_sums *sums, const struct node_ledger *node)
{
	uint32_t unit_mib;

	sums->recounts += node->recounts;
	sums->unplaced_mib += (uint64_t)node->unplaced_units * node->facts.unit_mib;
	if (!node->facts.n_gpus)
		return;
	sums->nodes[node->facts.mode]++;
	sums->not_serving += node->facts.mode != GPU_MODE_NONE && (!node->facts.serving || node->agent_lost);
	sums->gpus += node->facts.n_gpus;
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &node->gpus[i];

		sums->unhealthy += !gpu->facts.healthy;
		sums->over += gpu_is_over(gpu);
		unit_mib = node->facts.mode == GPU_MODE_TOPOLOGY ? gpu->facts.mib : node->facts.unit_mib;
		sums->total_mib += (uint64_t)gpu->units_total * unit_mib;
		sums->used_mib += (uint64_t)gpu->units_used * unit_mib;
	}
}

static void add_cluster(struct metrics *page, const struct ledger *ledger)
{
	const char *modes[GPU_MODE_MAX];
	struct cluster_sums sums = {0};
	const struct node_ledger *node;

	table_for_each (&ledger->nodes, cursor, node)
		sum_node(&sums, node);
	for (int mode = 0; mode < GPU_MODE_MAX; mode++)
		modes[mode] = mode == GPU_MODE_NONE ? "none" : gpu_mode_text((enum gpu_mode)mode);
	metrics_family(page, "ration_nodes", "gauge", "Nodes whose agent reports GPUs, by mode in force.");
	metrics_each(page, "mode", modes, sums.nodes, GPU_MODE_MAX);
	metrics_one(page, "ration_nodes_not_serving", "gauge",
		"Nodes that share GPUs and get no new pods, because their agent ends, cannot reach the kubelet or does not renew its Lease.",
		sums.not_serving);
	metrics_one(page, "ration_gpus", "gauge", "GPUs of these nodes.", sums.gpus);
	metrics_one(page, "ration_gpus_unhealthy", "gauge", "GPUs reported as unhealthy.", sums.unhealthy);
	metrics_one(page, "ration_gpus_overcommitted", "gauge",
		"GPUs of which pods have more than there is (the GPU became smaller, or an annotation was forged).",
		sums.over);
	metrics_one(page, "ration_memory_total_bytes", "gauge",
		"GPU memory that pods can have, in whole units.", sums.total_mib << 20);
	metrics_one(page, "ration_memory_used_bytes", "gauge",
		"GPU memory that pods have, or that is held for them.", sums.used_mib << 20);
	metrics_one(page, "ration_memory_unplaced_bytes", "gauge",
		"GPU memory of pods that are bound to a node without a valid placement.",
		sums.unplaced_mib << 20);
	metrics_one(page, "ration_ledger_repairs_total", "counter",
		"Sums of the ledger that would have become negative and were recomputed; any is a bug of ration.",
		sums.recounts);
}

static void add_history(struct metrics *page, const struct scheduler *scheduler)
{
	static const char *const rings[] = {"decisions", "changes"};
	uint64_t bytes[] = {recorder_bytes(scheduler->recorder), event_log_bytes(scheduler->event_log)};

	metrics_family(page, "ration_history_bytes", "gauge",
		"Memory of the records for /why and /history: decisions (at most 10,000 and 8 MiB), and changes (6 MiB of events, and two states).");
	metrics_each(page, "ring", rings, bytes, ARRAY_SIZE(rings));
}

static void add_pods(struct metrics *page, const struct scheduler *scheduler)
{
	const char *states[OCCUPANCY_MAX];
	uint64_t pods[OCCUPANCY_MAX] = {0};
	const struct ledger_pod *pod;
	uint64_t nominations = 0;

	for (int state = 0; state < OCCUPANCY_MAX; state++)
		states[state] = occupancy_text((enum occupancy)state);
	table_for_each (&scheduler->core.ledger.pods, cursor, pod) {
		pods[pod->occupancy]++;
		nominations += pod->nomination != NULL;
	}
	metrics_family(page, "ration_pods", "gauge",
		"Pods that ask for a GPU, by state in the ledger; tentative: filter has held a GPU for the pod; held: the pod is deleted and may still run.");
	metrics_each(page, "state", states, pods, OCCUPANCY_MAX);
	metrics_one(page, "ration_nominations", "gauge",
		"Pods for which GPUs are kept until the evicted pods have left them.", nominations);
	metrics_one(page, "ration_pods_rejected_waiting", "gauge",
		"Pods that filter rejected and that are requeued when a GPU may have room for them.",
		requeue_list_count(&scheduler->core.requeues, REQUEUE_ROOM));
	metrics_family(page, "ration_resizes_total", "counter",
		"Answers to requests of `ration set` for another size of a running pod.");
	metrics_each(page, "result", resize_results, scheduler->metrics.resizes, 2);
	metrics_one(page, "ration_pod_wakeups_total", "counter",
		"Patches of a waiting pod that make kube-scheduler try it again.",
		scheduler->metrics.requeues);
	metrics_one(page, "ration_binds_in_progress", "gauge", "Calls of bind that are not answered yet.",
		scheduler->core.binds.n_open);
	metrics_one(page, "ration_takeovers_total", "counter",
		"Times that this replica may have become the leader; for 5 s it then lists a node's pods before it chooses a GPU there.",
		scheduler->core.leadership.period);
	metrics_one(page, "ration_reservations_in_doubt", "gauge",
		"Reservations of GPUs for a Binding whose outcome is not known.",
		binds_doubtful(&scheduler->core.binds));
}

char *scheduler_metrics_page(const struct scheduler *scheduler)
{
	_cleanup_metrics_ struct metrics page;

	metrics_init(&page);
	metrics_build_info(&page);
	metrics_one(&page, "ration_ready", "gauge",
		"1 when ration-scheduler has read the cluster and answers filter.",
		core_is_ready(&scheduler->core));
	ledger_lease_metrics(scheduler->lease, &page);
	add_verbs(&page, &scheduler->metrics);
	add_preemption(&page, &scheduler->metrics);
	add_pods(&page, scheduler);
	policies_metrics(scheduler->policies, &page);
	webhook_metrics(scheduler->webhook, &page);
	add_cluster(&page, &scheduler->core.ledger);
	kube_metrics(&page, scheduler->client);
	sync_metrics(scheduler->sync, &page);
	add_history(&page, scheduler);
	metrics_process(&page);
	return metrics_take(&page);
}
