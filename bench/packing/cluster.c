#include "packing/packing.h"

#include <stdlib.h>
#include <string.h>

void packing_empty(struct packing_cluster *cluster, const struct packing_trace *trace, uint64_t seed)
{
	*cluster = (struct packing_cluster){.trace = trace, .random = seed};
	cluster->nodes = malloc(trace->n_nodes * sizeof(*cluster->nodes));
	if (!cluster->nodes)
		abort();
	memcpy(cluster->nodes, trace->nodes, trace->n_nodes * sizeof(*cluster->nodes));
	for (size_t i = 0; i < trace->n_nodes; i++) {
		cluster->gpus_of[trace->nodes[i].model] += trace->nodes[i].gpus;
		cluster->gpus_on[trace->nodes[i].gpus] += trace->nodes[i].gpus;
	}
}

void packing_note_arrival(struct packing_cluster *cluster, const struct packing_pod *pod)
{
	double gpus = 0, milli = (double)pod->gpus * pod->gpu_milli;

	cluster->asked += milli;
	if (pod->gpu_milli == GPU_MILLI && pod->gpus <= PACKING_GPUS_MAX)
		cluster->asked_together[pod->gpus] += milli;
	for (size_t i = 0; i < cluster->trace->n_models; i++)
		if (pod->models >> i & 1)
			gpus += cluster->gpus_of[i];
	for (size_t i = 0; i < cluster->trace->n_models; i++)
		if ((pod->models >> i & 1) && gpus > 0)
			cluster->asked_of[i] += milli * cluster->gpus_of[i] / gpus;
}

bool packing_host_fits(const struct packing_node *node, const struct packing_pod *pod)
{
	return pod->cpu_milli <= node->cpu_left && pod->memory_mib <= node->memory_left &&
	       (!pod->models || (pod->models >> node->model & 1));
}

/* The weight of the entry for pods without a GPU in the chart's configuration, and what kube-scheduler makes
 * of an extender's 0 to 10. */
#define EXTENDER_WEIGHT 1
#define KUBE_SCALE 10

/* Both scores are from 0 to 100: what is free of CPU and memory, and how equally the two are used. */
static int kube_score(const struct packing_node *node, const struct packing_pod *pod)
{
	double cpu = (double)(node->cpu_left - pod->cpu_milli) / node->cpu_milli;
	double memory = (double)(node->memory_left - pod->memory_mib) / node->memory_mib;
	double apart = cpu > memory ? cpu - memory : memory - cpu;

	return (int)((cpu + memory) / 2 * 100) + (int)((1 - apart / 2) * 100);
}

int packing_kube_choose(
	const struct packing_cluster *cluster, const struct packing_pod *pod, const int *scores)
{
	int chosen = -1, best = -1;

	for (size_t i = 0; i < cluster->trace->n_nodes; i++) {
		const struct packing_node *node = &cluster->nodes[i];
		int score = packing_host_fits(node, pod)
				    ? kube_score(node, pod) + EXTENDER_WEIGHT * KUBE_SCALE * scores[i]
				    : -1;

		if (score <= best)
			continue;
		best = score;
		chosen = (int)i;
	}
	return chosen;
}

bool packing_fits(const struct packing_node *node, const struct packing_pod *pod)
{
	uint32_t n = 0;

	if (!packing_host_fits(node, pod))
		return false;
	for (uint32_t i = 0; i < node->gpus; i++)
		n += node->gpu_left[i] >= pod->gpu_milli;
	return n >= pod->gpus;
}

uint32_t packing_place(struct packing_node *node, const struct packing_pod *pod, int gpu)
{
	uint32_t gpus = 0, missing = pod->gpus;

	node->cpu_left -= pod->cpu_milli;
	node->memory_left -= pod->memory_mib;
	for (uint32_t i = 0; missing && i < node->gpus; i++) {
		if (pod->gpus == 1 ? (int)i != gpu : node->gpu_left[i] < pod->gpu_milli)
			continue;
		node->gpu_left[i] -= pod->gpu_milli;
		node->left -= pod->gpu_milli;
		gpus |= UINT32_C(1) << i;
		missing--;
	}
	node->version++;
	return gpus;
}

void packing_remove(struct packing_node *node, const struct packing_pod *pod, uint32_t gpus)
{
	node->cpu_left += pod->cpu_milli;
	node->memory_left += pod->memory_mib;
	for (uint32_t i = 0; i < node->gpus; i++)
		if (gpus >> i & 1) {
			node->gpu_left[i] += pod->gpu_milli;
			node->left += pod->gpu_milli;
		}
	node->version++;
}

int packing_fullest_gpu(const struct packing_node *node, const struct packing_pod *pod)
{
	int best = -1;

	for (uint32_t i = 0; i < node->gpus; i++)
		if (node->gpu_left[i] >= pod->gpu_milli &&
			(best < 0 || node->gpu_left[i] < node->gpu_left[best]))
			best = (int)i;
	return best;
}

int packing_emptiest_gpu(const struct packing_node *node, const struct packing_pod *pod)
{
	int best = -1;

	for (uint32_t i = 0; i < node->gpus; i++)
		if (node->gpu_left[i] >= pod->gpu_milli &&
			(best < 0 || node->gpu_left[i] > node->gpu_left[best]))
			best = (int)i;
	return best;
}
