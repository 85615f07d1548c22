#include "packing/packing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 512
#define ITEMS_MAX 200000 /* of a list */

static void *grow(void *items, size_t n, size_t size)
{
	/* Each power of two. */
	if (n & (n - 1))
		return items;
	items = realloc(items, (n ? 2 * n : 1) * size);
	if (!items || n > ITEMS_MAX) {
		fprintf(stderr, "bench-packing: out of memory, or a list of more than %d lines\n", ITEMS_MAX);
		exit(1);
	}
	return items;
}

void packing_add_node(struct packing_trace *trace, const struct packing_node *node)
{
	struct packing_node *added;

	trace->nodes = grow(trace->nodes, trace->n_nodes, sizeof(*trace->nodes));
	added = &trace->nodes[trace->n_nodes++];
	*added = *node;
	added->cpu_left = node->cpu_milli;
	added->memory_left = node->memory_mib;
	added->left = node->gpus * GPU_MILLI;
	for (uint32_t i = 0; i < node->gpus; i++)
		added->gpu_left[i] = GPU_MILLI;
}

static bool is_same_kind(const struct packing_pod *a, const struct packing_pod *b)
{
	return a->cpu_milli == b->cpu_milli && a->memory_mib == b->memory_mib && a->gpus == b->gpus &&
	       a->gpu_milli == b->gpu_milli && a->models == b->models;
}

void packing_add_pod(struct packing_trace *trace, struct packing_pod pod)
{
	for (pod.kind = 0; pod.kind < trace->n_kinds; pod.kind++)
		if (is_same_kind(&trace->kinds[pod.kind], &pod))
			break;
	if (pod.kind == trace->n_kinds) {
		trace->kinds = grow(trace->kinds, trace->n_kinds, sizeof(*trace->kinds));
		trace->counts = grow(trace->counts, trace->n_kinds, sizeof(*trace->counts));
		trace->counts[trace->n_kinds] = 0;
		trace->kinds[trace->n_kinds++] = pod;
	}
	trace->counts[pod.kind]++;
	trace->pods = grow(trace->pods, trace->n_pods, sizeof(*trace->pods));
	trace->pods[trace->n_pods++] = pod;
}

uint32_t packing_model(struct packing_trace *trace, const char *name)
{
	uint32_t i;

	for (i = 0; i < trace->n_models; i++)
		if (strcmp(trace->models[i], name) == 0)
			return i;
	if (i == PACKING_MODELS_MAX) {
		fprintf(stderr, "bench-packing: more than %d GPU models\n", PACKING_MODELS_MAX);
		exit(1);
	}
	snprintf(trace->models[i], sizeof(trace->models[i]), "%s", name);
	trace->n_models++;
	return i;
}

void packing_finish(struct packing_trace *trace)
{
	trace->gpu_milli = 0;
	for (size_t i = 0; i < trace->n_nodes; i++)
		trace->gpu_milli += (uint64_t)trace->nodes[i].gpus * GPU_MILLI;
	if (!trace->gpu_milli || !trace->n_pods) {
		fprintf(stderr, "bench-packing: there are no GPUs, or no pods\n");
		exit(1);
	}
}

void packing_release(struct packing_trace *trace)
{
	free(trace->nodes);
	free(trace->pods);
	free(trace->kinds);
	free(trace->counts);
}

static void read_node(struct packing_trace *trace, char *line, const char *where)
{
	struct packing_node node = {0};
	char model[PACKING_NAME_SIZE];

	if (sscanf(line, "%39[^,],%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%39[^,\r\n]", node.name,
		    &node.cpu_milli, &node.memory_mib, &node.gpus, model) != 5 ||
		!node.gpus || node.gpus > PACKING_GPUS_MAX) {
		fprintf(stderr, "bench-packing: %s: not a node with 1 to %d GPUs: %s", where,
			PACKING_GPUS_MAX, line);
		exit(1);
	}
	node.model = packing_model(trace, model);
	packing_add_node(trace, &node);
}

static void read_pod(struct packing_trace *trace, char *line, const char *where)
{
	struct packing_pod pod = {0};
	char models[256] = "", *rest;

	if (sscanf(line, "%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%255[^,\r\n]", &pod.cpu_milli,
		    &pod.memory_mib, &pod.gpus, &pod.gpu_milli, models) < 4 ||
		pod.gpus > PACKING_GPUS_MAX || pod.gpu_milli > GPU_MILLI) {
		fprintf(stderr, "bench-packing: %s: not a pod: %s", where, line);
		exit(1);
	}
	for (char *name = strtok_r(models, "|", &rest); name; name = strtok_r(NULL, "|", &rest))
		pod.models |= UINT32_C(1) << packing_model(trace, name);
	if (!pod.gpus || !pod.gpu_milli)
		pod.gpus = pod.gpu_milli = 0;
	packing_add_pod(trace, pod);
}

static void read_lines(struct packing_trace *trace, const char *path,
	void (*take)(struct packing_trace *trace, char *line, const char *where))
{
	FILE *file = fopen(path, "r");
	char line[LINE_SIZE];

	if (!file || !fgets(line, sizeof(line), file)) {
		fprintf(stderr, "bench-packing: cannot read %s: %s\n", path,
			file ? "it is empty" : strerror(errno));
		exit(1);
	}
	while (fgets(line, sizeof(line), file))
		take(trace, line, path);
	fclose(file);
}

void packing_read(struct packing_trace *trace, const char *nodes, const char *pods)
{
	*trace = (struct packing_trace){0};
	read_lines(trace, nodes, read_node);
	read_lines(trace, pods, read_pod);
	packing_finish(trace);
}

uint64_t packing_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

struct packing_pod *packing_arrivals(
	const struct packing_trace *trace, uint64_t seed, unsigned percent, size_t *ret_n)
{
	uint64_t state = seed * UINT64_C(0xD1342543DE82EF95) + 1, asked = 0;
	struct packing_pod *pods = NULL;
	size_t n = 0;

	for (; n < trace->n_pods; n++) {
		pods = grow(pods, n, sizeof(*pods));
		pods[n] = trace->pods[n];
		asked += (uint64_t)pods[n].gpus * pods[n].gpu_milli;
	}
	for (size_t i = n; i > 1; i--) {
		size_t at = packing_random(&state) % i;
		struct packing_pod other = pods[i - 1];

		pods[i - 1] = pods[at];
		pods[at] = other;
	}
	while (asked * 100 < trace->gpu_milli * percent) {
		pods = grow(pods, n, sizeof(*pods));
		pods[n] = trace->pods[packing_random(&state) % trace->n_pods];
		asked += (uint64_t)pods[n].gpus * pods[n].gpu_milli;
		n++;
	}
	*ret_n = n;
	return pods;
}
