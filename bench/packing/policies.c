#include "packing/packing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/placement/node-order.h"
#include "core/registry/ledger.h"

#define NO_ROOM (-INFINITY)

/* The least of CPU and GPUs left, both in parts of the largest node: as in the paper, without memory. */
static double best_fit(const struct packing_state *state, const struct packing_node *node,
	const struct packing_pod *pod, int *ret_gpu)
{
	*ret_gpu = packing_fullest_gpu(node, pod);
	return -((double)(node->cpu_left - pod->cpu_milli) / state->largest_cpu +
		 (double)(node->left - pod->gpus * pod->gpu_milli) / GPU_MILLI / state->largest_gpus);
}

static double binpack(const struct packing_state *state, const struct packing_node *node,
	const struct packing_pod *pod, int *ret_gpu)
{
	(void)state;
	*ret_gpu = packing_fullest_gpu(node, pod);
	return -(double)node->left;
}

static double spread(const struct packing_state *state, const struct packing_node *node,
	const struct packing_pod *pod, int *ret_gpu)
{
	(void)state;
	*ret_gpu = packing_emptiest_gpu(node, pod);
	return node->left;
}

static struct node_room room_of(const struct packing_node *node)
{
	return (struct node_room){
		.cpu_milli = node->cpu_left, .memory_mib = node->memory_left, .gpu_milli = node->left};
}

/* Of the pods that arrived, those that can use only this model (and those like it): their part of all GPUs
 * asked for, over the model's part of all GPUs. */
static uint32_t scarcity(const struct packing_cluster *cluster, uint32_t model)
{
	double gpus = cluster->gpus_of[model] * GPU_MILLI / (double)cluster->trace->gpu_milli;

	return cluster->asked > 0 ? (uint32_t)(1000 * cluster->asked_of[model] / cluster->asked / gpus) : 0;
}

/* How scarce entirely free nodes with this number of GPUs are, in thousandths: what is asked for by the pods
 * that arrived and take more than half of such a node as whole GPUs. The sums are the benchmark's own and not
 * those of src/core/registry, so that a wrong one there makes the policies balanced and ration differ. */
static uint32_t node_scarcity(const struct packing_cluster *cluster, uint32_t gpus)
{
	double asked = 0, part = cluster->gpus_on[gpus] * GPU_MILLI / (double)cluster->trace->gpu_milli;

	if (gpus < 2 || cluster->asked <= 0)
		return 0;
	for (uint32_t i = gpus / 2 + 1; i <= gpus; i++)
		asked += cluster->asked_together[i];
	asked *= 1000 / cluster->asked / part;
	return asked < 1000 ? (uint32_t)asked : 1000;
}

static double balanced(const struct packing_state *state, const struct packing_node *node,
	const struct packing_pod *pod, int *ret_gpu)
{
	struct packing_node after = *node;
	struct node_order_ask ask = {.before = room_of(node),
		.gpus = node->gpus,
		.wanted = pod->gpus,
		.cluster_taken = state->taken,
		.node_scarcity = node_scarcity(&state->cluster, node->gpus),
		.scarcity = pod->models ? 0 : scarcity(&state->cluster, node->model),
		.host_pod_cpu_milli = pod->gpus ? 0 : node->cpu_milli};

	*ret_gpu = packing_fullest_gpu(node, pod);
	packing_place(&after, pod, *ret_gpu);
	ask.after = room_of(&after);
	for (uint32_t i = 0; i < node->gpus; i++) {
		ask.whole += node->gpu_left[i] == GPU_MILLI;
		ask.part_lost += node_order_part_lost(after.gpu_left[i]) -
				 node_order_part_lost(node->gpu_left[i]);
	}
	return -(double)node_order_cost(&ask, &state->mean_now);
}

const struct packing_policy packing_policies[] = {
	{"random", NULL, false},
	{"best-fit", best_fit, false},
	{"fgd", fgd_score, true},
	{"binpack", binpack, false},
	{"spread", spread, false},
	{"balanced", balanced, false},
	{"ration", NULL, false, true, GPU_POLICY_BINPACK, NODE_ORDER_BALANCED},
	{"ration-fullest", NULL, false, true, GPU_POLICY_BINPACK, NODE_ORDER_FULLEST},
	{"ration-spread", NULL, false, true, GPU_POLICY_SPREAD, NODE_ORDER_BALANCED},
};
const size_t packing_n_policies = sizeof(packing_policies) / sizeof(packing_policies[0]);

void packing_begin(struct packing_state *state, const struct packing_trace *trace,
	const struct packing_policy *policy, const struct fgd_population *fgd, uint64_t seed)
{
	size_t n = trace->n_kinds * trace->n_nodes;
	uint64_t cpu = 0, memory = 0;

	*state = (struct packing_state){.policy = policy, .fgd = fgd};
	packing_empty(&state->cluster, trace, seed);
	for (size_t i = 0; i < trace->n_nodes; i++) {
		const struct packing_node *node = &trace->nodes[i];

		cpu += node->cpu_milli;
		memory += node->memory_mib;
		state->largest_cpu = node->cpu_milli > state->largest_cpu ? node->cpu_milli
									  : state->largest_cpu;
		state->largest_gpus = node->gpus > state->largest_gpus ? node->gpus : state->largest_gpus;
	}
	state->mean.cpu_milli = cpu * GPU_MILLI / trace->gpu_milli;
	state->mean.memory_mib = memory * GPU_MILLI / trace->gpu_milli;
	if (policy->core)
		state->core = packing_core_begin(trace, policy->label, policy->order);
	if (!policy->lasting)
		return;
	state->scores = malloc(n * sizeof(*state->scores));
	state->versions = malloc(n * sizeof(*state->versions));
	state->gpus = malloc(n * sizeof(*state->gpus));
	if (!state->scores || !state->versions || !state->gpus)
		abort();
	memset(state->versions, 0xff, n * sizeof(*state->versions));
}

void packing_end(struct packing_state *state)
{
	if (state->core)
		packing_core_end(state->core);
	free(state->cluster.nodes);
	free(state->scores);
	free(state->versions);
	free(state->gpus);
}

/* Any node with room, and any of its GPUs: a part of it, where it takes one. */
static int choose_any(struct packing_state *state, const struct packing_pod *pod, int *ret_gpu)
{
	struct packing_cluster *cluster = &state->cluster;
	uint64_t seen = 0;
	int chosen = -1;

	for (size_t i = 0; i < cluster->trace->n_nodes; i++)
		if (packing_fits(&cluster->nodes[i], pod) && packing_random(&cluster->random) % ++seen == 0)
			chosen = (int)i;
	seen = 0;
	for (uint32_t i = 0; chosen >= 0 && i < cluster->nodes[chosen].gpus; i++)
		if (cluster->nodes[chosen].gpu_left[i] >= pod->gpu_milli &&
			packing_random(&cluster->random) % ++seen == 0)
			*ret_gpu = (int)i;
	return chosen;
}

/* What the policy says of the pod on a node where it has room. */
static double score_on(struct packing_state *state, size_t i, const struct packing_pod *pod, int *ret_gpu)
{
	const struct packing_node *node = &state->cluster.nodes[i];
	size_t at = pod->kind * state->cluster.trace->n_nodes + i;
	int gpu = -1;

	if (!state->policy->lasting)
		return packing_fits(node, pod) ? state->policy->score(state, node, pod, ret_gpu) : NO_ROOM;
	if (state->versions[at] != node->version) {
		state->versions[at] = node->version;
		state->scores[at] = packing_fits(node, pod)
					    ? (float)state->policy->score(state, node, pod, &gpu)
					    : NO_ROOM;
		state->gpus[at] = (int8_t)gpu;
	}
	*ret_gpu = state->gpus[at];
	return state->scores[at];
}

/* The mean of the whole cluster, or of what is left where that is less, from sums of its own, too. */
static void note_what_is_left(struct packing_state *state)
{
	uint64_t cpu = 0, memory = 0, milli = 0;

	for (size_t i = 0; i < state->cluster.trace->n_nodes; i++) {
		const struct packing_node *node = &state->cluster.nodes[i];

		cpu += node->cpu_left;
		memory += node->memory_left;
		milli += node->left;
	}
	state->taken = (uint32_t)(1000 - milli * 1000 / state->cluster.trace->gpu_milli);
	state->mean_now = gpu_mean_of(state->mean,
		milli ? (struct host_sum){cpu * GPU_MILLI / milli, memory * GPU_MILLI / milli} : state->mean);
}

int packing_choose(struct packing_state *state, const struct packing_pod *pod, int *ret_gpu,
	char ret_uid[PACKING_UID_SIZE])
{
	double best = NO_ROOM;
	int chosen = -1, gpu = -1;

	*ret_gpu = -1;
	if (state->core)
		return packing_core_choose(state->core, &state->cluster, pod, ret_uid, ret_gpu);
	if (!state->policy->score)
		return choose_any(state, pod, ret_gpu);
	note_what_is_left(state);
	for (size_t i = 0; i < state->cluster.trace->n_nodes; i++) {
		double score = score_on(state, i, pod, &gpu);

		if (score <= best)
			continue;
		best = score;
		chosen = (int)i;
		*ret_gpu = gpu;
	}
	return chosen;
}
