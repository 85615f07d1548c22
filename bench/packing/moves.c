/* What a plan of moves (src/plan/relocate.h) wins back, when pods have come and gone for a while. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/core.h"
#include "kube/json.h"
#include "kube/names.h"
#include "packing/packing.h"
#include "plan/relocate.h"

#define LABEL_MODEL "model"
#define NO_LIMIT "100000" /* the trace limits no number of pods */

static struct json_object *parse(const char *text)
{
	struct json_object *object = NULL;

	if (json_parse(text, strlen(text), &object, NULL) < 0)
		abort();
	return object;
}

static struct json_object *node_object(const struct packing_trace *trace, const struct packing_node *node)
{
	char text[512];

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"name\":\"%s\",\"labels\":{\"" LABEL_MODEL
		"\":\"%s\"}},\"spec\":{},\"status\":{\"allocatable\":{\"cpu\":\"%um\",\"memory\":\"%uMi\",\"pods\":\"" NO_LIMIT
		"\",\"" RESOURCE_GPU_MEM "\":\"%u\"}}}",
		node->name, trace->models[node->model], node->cpu_milli, node->memory_mib,
		node->gpus * GPU_MILLI);
	return parse(text);
}

/* The required node affinity that lets the pod use its models; "": all. */
static void write_models(const struct packing_trace *trace, uint32_t models, char *text, size_t size)
{
	size_t len;

	*text = '\0';
	if (!models)
		return;
	snprintf(text, size,
		"\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"" LABEL_MODEL
		"\",\"operator\":\"In\",\"values\":[");
	for (size_t i = 0, n = 0; i < trace->n_models; i++) {
		len = strlen(text);
		if (models >> i & 1)
			snprintf(text + len, size - len, "%s\"%s\"", n++ ? "," : "", trace->models[i]);
	}
	len = strlen(text);
	snprintf(text + len, size - len, "]}]}]}}},");
}

static struct json_object *pod_object(
	const struct packing_trace *trace, const struct packing_running *running)
{
	const struct packing_pod *pod = &running->pod;
	char models[2048], memory[96] = "", count[16], text[4096];
	struct json_object *object, *labels = json_object_new_object();

	write_models(trace, pod->models, models, sizeof(models));
	if (pod->gpus)
		snprintf(memory, sizeof(memory), ",\"" RESOURCE_GPU_MEM "\":\"%u\"",
			pod->gpus * pod->gpu_milli);
	snprintf(text, sizeof(text),
		"{\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\",\"uid\":\"%s\","
		"\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":\"%s\",\"uid\":\"%s\",\"controller\":true}]},"
		"\"spec\":{\"nodeName\":\"%s\",%s\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{%s},"
		"\"requests\":{\"cpu\":\"%um\",\"memory\":\"%uMi\"%s}}}]},\"status\":{\"phase\":\"Running\"}}",
		running->uid, running->uid, running->uid, running->uid, trace->nodes[running->node].name,
		models, *memory ? memory + 1 : "", pod->cpu_milli, pod->memory_mib, memory);
	object = parse(text);
	snprintf(count, sizeof(count), "%u", pod->gpus);
	if ((pod->gpus > 1 && json_set_text(labels, LABEL_GPU_COUNT, count) < 0) ||
		json_set(json_member(object, "metadata"), "labels", labels) < 0)
		abort();
	return object;
}

static void see_all(
	const struct packing_trace *trace, struct json_object *const *pods, size_t n, struct kube_nodes *kube)
{
	kube_nodes_init(kube);
	for (size_t i = 0; i < trace->n_nodes; i++) {
		_cleanup_json_ struct json_object *node = node_object(trace, &trace->nodes[i]);

		if (kube_nodes_see_node(kube, node) < 0)
			abort();
	}
	for (size_t i = 0; i < n; i++)
		if (kube_nodes_see_pod(kube, pods[i]) < 0)
			abort();
}

static uint64_t free_milli(const struct packing_cluster *cluster)
{
	uint64_t milli = 0;

	for (size_t i = 0; i < cluster->trace->n_nodes; i++)
		milli += cluster->nodes[i].left;
	return milli;
}

void packing_moves(struct packing_state *state, const struct packing_running *running, size_t n, size_t max,
	uint64_t seed)
{
	struct kube_nodes kube;
	struct plan_world world = {.core = packing_core_of(state->core), .kube = &kube};
	struct json_object **pods = calloc(n + 1, sizeof(*pods));
	struct relocations moves = {0};
	int64_t start = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct error err = {""};

	if (!pods)
		abort();
	for (size_t i = 0; i < n; i++)
		pods[i] = pod_object(state->cluster.trace, &running[i]);
	see_all(state->cluster.trace, pods, n, &kube);
	if (plan_relocate(&world, pods, n, max, NULL, NULL, &moves, &err) < 0) {
		fprintf(stderr, "bench-packing: %s\n", err.text);
		exit(1);
	}
	printf("{\"policy\": \"%s\", \"seed\": %" PRIu64
	       ", \"pods\": %zu, \"max\": %zu, \"moves\": %zu, \"free\": %.3f, \"whole_before\": %" PRId64
	       ", \"whole_after\": %" PRId64 ", \"tried\": %zu, \"tries_ended\": %s, \"seconds\": %.1f}\n",
		state->policy->name, seed, n, max, moves.n, (double)free_milli(&state->cluster) / GPU_MILLI,
		moves.whole_before, moves.whole, moves.tried, moves.tries_ended ? "true" : "false",
		(double)(clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / NS_PER_S);
	fflush(stdout);
	relocations_release(&moves);
	kube_nodes_release(&kube);
	for (size_t i = 0; i < n; i++)
		json_object_put(pods[i]);
	free(pods);
}
