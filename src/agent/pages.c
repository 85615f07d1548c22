/* pages.c - the agent's pages: /metrics and /use, /healthz and /readyz. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/container/delivery.h"
#include "agent/door.h"
#include "agent/dra/dra.h"
#include "agent/gpu/looks.h"
#include "agent/gpu/power.h"
#include "agent/gpu/watchdog.h"
#include "agent/kubelet/kubelet.h"
#include "agent/pages.h"
#include "kube/kube-metrics.h"
#include "node/ids.h"

/* More containers than a node runs. The limit bounds the page, to which other programs contribute. */
#define CONTAINERS_MAX 1024

static const char *const allocate_results[ALLOCATE_OUTCOME_MAX] = {
	[ALLOCATE_GRANTED] = "granted",
	[ALLOCATE_NOT_PLACED] = "not_placed",
	[ALLOCATE_UNIDENTIFIED] = "unidentified",
	[ALLOCATE_OVER_TOTAL] = "over_total",
	[ALLOCATE_KUBELET_SILENT] = "kubelet_silent",
	[ALLOCATE_BAD_REQUEST] = "bad_request",
	[ALLOCATE_FAILED] = "failed",
};

/* ---- GPUs and their holders ---- */

struct gpu_labels {
	struct metric_label labels[3];
	char index[16];
};

/* The labels have dcgm-exporter's names, so that its series can be joined with these. */
static const struct metric_label *gpu_labels(const struct gpu *gpu, struct gpu_labels *labels)
{
	snprintf(labels->index, sizeof(labels->index), "%d", gpu->facts.index);
	labels->labels[0] = (struct metric_label){"gpu", labels->index};
	labels->labels[1] = (struct metric_label){"UUID", gpu->facts.uuid};
	labels->labels[2] = (struct metric_label){"modelName", gpu->details.model};
	return labels->labels;
}

enum gpu_value { GPU_BYTES, GPU_UNITS, GPU_HELD, GPU_HEALTHY, GPU_USED };

static void add_gpus(struct metrics *page, const struct agent *agent, enum gpu_value what)
{
	for (size_t i = 0; i < agent->node.inventory.n_gpus; i++) {
		const struct gpu *gpu = &agent->node.inventory.gpus[i];
		struct gpu_labels labels;
		uint64_t value = 0;

		switch (what) {
		case GPU_BYTES:
			value = gpu->facts.mib << 20;
			break;
		case GPU_UNITS:
			value = gpu_mode_units(
				agent->node.in_force, gpu->facts.mib, agent->node.inventory.unit_mib);
			break;
		case GPU_HELD:
			value = ids_held(IDS_OF_UNITS, &agent->node.pods, gpu->facts.uuid);
			break;
		case GPU_HEALTHY:
			value = gpu->facts.healthy;
			break;
		case GPU_USED:
			if (!looks_used_bytes(agent->looks, gpu->facts.uuid, &value))
				continue;
			break;
		}
		metrics_count(page, gpu_labels(gpu, &labels), ARRAY_SIZE(labels.labels), value);
	}
}

static void add_all_gpus(struct metrics *page, const struct agent *agent)
{
	metrics_family(page, "ration_gpu_memory_bytes", "gauge", "Memory of the GPU.");
	add_gpus(page, agent, GPU_BYTES);
	metrics_family(page, "ration_gpu_units", "gauge", "Units that pods can have of the GPU.");
	add_gpus(page, agent, GPU_UNITS);
	metrics_family(page, "ration_gpu_granted_units", "gauge",
		"Units of the GPU that this node's pods have by their placements.");
	add_gpus(page, agent, GPU_HELD);
	metrics_family(page, "ration_gpu_healthy", "gauge", "1 while the GPU is healthy.");
	add_gpus(page, agent, GPU_HEALTHY);
	metrics_family(page, "ration_gpu_used_bytes", "gauge",
		"Memory that all processes have of a GPU, as the driver counts it, on nodes that share memory.");
	add_gpus(page, agent, GPU_USED);
}

static void add_containers(struct metrics *page, const struct agent *agent)
{
	uint64_t shown = 0, hidden = 0;

	metrics_family(
		page, "ration_container_granted_units", "gauge", "Units that Allocate gave the container.");
	list_for_each (item, &agent->node.served.entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);
		const struct node_pod *pod = node_pods_by_uid(&agent->node.pods, entry->uid);
		const struct container_placement *container = NULL;

		if (pod && pod->facts.has_placement && !pod->facts.finished)
			container = placement_find(&pod->facts.placement, entry->container);
		if (!container)
			continue;
		if (shown++ < CONTAINERS_MAX) {
			for (size_t i = 0; i < container->n_gpus; i++) {
				const struct gpu *gpu = inventory_find(
					&agent->node.inventory, container->gpus[i].uuid);
				char index[16] = "";
				struct metric_label labels[] = {{"namespace", pod->facts.namespace_},
					{"pod", pod->facts.name}, {"container", container->name},
					{"gpu", index}, {"UUID", container->gpus[i].uuid}};

				if (gpu)
					snprintf(index, sizeof(index), "%d", gpu->facts.index);
				metrics_count(page, labels, ARRAY_SIZE(labels), container->gpus[i].units);
			}
		} else {
			hidden++;
		}
	}
	metrics_one(page, "ration_containers_not_shown", "gauge",
		"Containers without a ration_container_granted_units, which shows at most 1,024.", hidden);
}

/* ---- the kubelet ---- */

static void add_mode(struct metrics *page, const struct agent *agent)
{
	const char *texts[GPU_MODE_MAX];
	uint64_t values[GPU_MODE_MAX];

	for (int mode = 0; mode < GPU_MODE_MAX; mode++) {
		texts[mode] = mode == GPU_MODE_NONE ? "none" : gpu_mode_text((enum gpu_mode)mode);
		values[mode] = agent->node.in_force == (enum gpu_mode)mode;
	}
	metrics_family(page, "ration_mode", "gauge", "1 for the GPU mode in force.");
	metrics_each(page, "mode", texts, values, GPU_MODE_MAX);
	metrics_one(page, "ration_mode_open", "gauge",
		"0 while the node takes no new GPU pods, because a change of mode waits for its pods to end.",
		agent->node.open);
	metrics_one(page, "ration_unit_bytes", "gauge", "The unit of aliyun.com/gpu-mem on this node.",
		(uint64_t)agent->node.inventory.unit_mib << 20);
}

static void add_calls(struct metrics *page, const struct kubelet_counts *counted)
{
	static const char *const verdicts[] = {"accepted", "refused"};
	/* enum answered */
	static const char *const answers[] = {"unknown", "own", "corrected", "refused"};
	uint64_t prestarts[] = {counted->prestart_accepted, counted->prestart_refused};

	metrics_family(page, "ration_allocate_duration_seconds", "histogram",
		"Time to answer Allocate, with the requests to the kubelet and the API server that this needs.");
	metrics_histogram(page, &counted->allocate);
	metrics_family(page, "ration_allocate_results_total", "counter", "Answers of Allocate.");
	metrics_each(page, "result", allocate_results, counted->allocate_results, ALLOCATE_OUTCOME_MAX);
	metrics_one(page, "ration_allocate_abandoned_total", "counter",
		"Calls of Allocate that the kubelet cancelled before the answer.",
		counted->allocate_abandoned);
	metrics_one(page, "ration_ids_disagreed_total", "counter",
		"Device ids in granted Allocate calls that stand for another GPU than the pod's placement. Harmless: the placement decides.",
		counted->ids_disagreed);
	metrics_family(page, "ration_prestart_results_total", "counter",
		"Answers of PreStartContainer; each refusal is a container that could not start.");
	metrics_each(page, "result", verdicts, prestarts, ARRAY_SIZE(verdicts));
	metrics_family(page, "ration_answers_checked_total", "counter",
		"What the kubelet's checkpoint said at PreStartContainer about the answer of Allocate.");
	metrics_each(page, "result", answers, counted->answers_checked, ARRAY_SIZE(answers));
}

static void add_claims(struct metrics *page, const struct agent *agent)
{
	static const char *const results[] = {"prepared", "refused", "unprepared"};
	const struct dra_counts *counted = dra_counts(agent->dra);
	uint64_t values[] = {counted->prepared, counted->refused, counted->unprepared};

	metrics_one(page, "ration_claims_prepared", "gauge", "ResourceClaims that are prepared on this node.",
		agent->node.claims.count);
	metrics_family(page, "ration_claim_results_total", "counter",
		"Answers to NodePrepareResources and NodeUnprepareResources, by claims.");
	metrics_each(page, "result", results, values, ARRAY_SIZE(results));
}

static void add_registration(struct metrics *page, const struct agent *agent)
{
	const struct kubelet_counts *counted = kubelet_counts(agent->kubelet);

	metrics_family(page, "ration_registration_duration_seconds", "histogram",
		"Time from the start of the kubelet or of the agent until the kubelet has answered Register.");
	metrics_histogram(page, &counted->registration);
	metrics_family(page, "ration_registration_last_duration_seconds", "gauge",
		"The last value of ration_registration_duration_seconds; 0 before the first.");
	metrics_seconds(page, NULL, 0, counted->last_registration_ns);
	metrics_one(page, "ration_registration_failures_total", "counter",
		"Register calls that failed; a few at each start of the kubelet are usual.",
		counted->registration_failures);
	metrics_one(page, "ration_worker_respawns_total", "counter",
		"Times that the supervisor started the worker again; all other counters then began at 0.",
		agent->respawns);
	metrics_one(page, "ration_kubelet_watching", "gauge", "1 while the kubelet has a ListAndWatch open.",
		kubelet_has_devices(agent->kubelet));
	metrics_one(page, "ration_driver_unknown_functions", "gauge",
		"Functions of the node's driver that this version does not know and does not limit.",
		delivery_unknown_functions(agent->delivery));
	metrics_family(page, "ration_kubelet_unregistered_seconds", "gauge",
		"How long the kubelet has lacked the devices of the mode in force; 0 while it has them.");
	metrics_seconds(page, NULL, 0, kubelet_unregistered_ns(agent->kubelet));
}

static char *page_text(const struct agent *agent)
{
	const struct kube_watch_metric watches[] = {{"nodes", agent->node_watch}, {"pods", agent->pod_watch}};
	_cleanup_metrics_ struct metrics page;

	metrics_init(&page);
	metrics_build_info(&page);
	metrics_clock(&page);
	add_mode(&page, agent);
	add_all_gpus(&page, agent);
	add_containers(&page, agent);
	looks_metrics(agent->looks, &agent->node, &page);
	watchdog_metrics(agent->watchdog, &page);
	power_metrics(agent->power, looks_set(agent->looks), &agent->node.inventory, &page);
	add_calls(&page, kubelet_counts(agent->kubelet));
	add_claims(&page, agent);
	add_registration(&page, agent);
	kube_metrics(&page, agent->client);
	kube_watch_metrics(&page, watches, ARRAY_SIZE(watches));
	metrics_process(&page);
	return metrics_take(&page);
}

/* ---- the HTTP server ---- */

static void on_scrape(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	const struct agent *agent = userdata;

	if (strcmp(method, "GET") == 0 && strcmp(path, "/metrics") == 0)
		http_call_reply(call, 200, METRICS_CONTENT_TYPE, page_text(agent));
	else if (strcmp(method, "GET") == 0 && strcmp(path, "/use") == 0)
		http_call_reply(call, 200, "application/json", looks_use_page(agent->looks, &agent->node));
	else
		http_call_reply(call, 404, "text/plain; charset=utf-8", strdup("GET /metrics or /use\n"));
}

int metrics_page_new(struct agent *agent, struct door **ret_page)
{
	return door_new(agent->loop, "metrics", &agent->options.metrics, on_scrape, agent, ret_page);
}

/* ---- /healthz and /readyz ---- */

/* Why the agent is not ready; NULL if it is. */
static const char *not_ready(const struct agent *agent)
{
	if (agent->node.leaving)
		return "stopping";
	if (!agent->node.settled)
		return "the node, its pods and the cluster's settings are not read yet";
	if (!agent->node.serves || kubelet_has_devices(agent->kubelet))
		return NULL;
	return *agent->node.problems.unregistered ? agent->node.problems.unregistered
						  : "the kubelet does not have the devices of this node yet";
}

static void reply(struct http_call *call, unsigned status, const char *text)
{
	char *body;

	http_call_reply(
		call, status, "text/plain; charset=utf-8", asprintf(&body, "%s\n", text) < 0 ? NULL : body);
}

static void on_probe(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	const struct agent *agent = userdata;
	const char *reason = not_ready(agent);

	if (strcmp(path, "/healthz") == 0)
		reply(call, 200, "ok");
	else if (strcmp(path, "/readyz") != 0)
		reply(call, 404, "GET /healthz, /readyz");
	else
		reply(call, reason ? 503 : 200, reason ? reason : "ok");
}

int probes_new(struct agent *agent, struct door **ret_door)
{
	return door_new(agent->loop, "probes", &agent->options.probes, on_probe, agent, ret_door);
}
