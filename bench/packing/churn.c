#include "packing/packing.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MEAN_HOURS 4	    /* that a pod runs, exponentially distributed */
#define OFFERED_PERCENT 110 /* GPUs that pods ask for at a time on average, of all */

/* A heap; the pod that ends first is on top. */
struct departures {
	struct packing_running *pods;
	size_t n, size;
};

static void departures_add(struct departures *departures, const struct packing_running *pod)
{
	size_t i = departures->n++;

	if (departures->n > departures->size) {
		departures->size = departures->size ? 2 * departures->size : 1024;
		departures->pods = realloc(departures->pods, departures->size * sizeof(*departures->pods));
		if (!departures->pods)
			abort();
	}
	for (; i > 0 && departures->pods[(i - 1) / 2].ends > pod->ends; i = (i - 1) / 2)
		departures->pods[i] = departures->pods[(i - 1) / 2];
	departures->pods[i] = *pod;
}

static struct packing_running departures_take(struct departures *departures)
{
	struct packing_running first = departures->pods[0], last = departures->pods[--departures->n];
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < departures->n; i = child) {
		if (child + 1 < departures->n &&
			departures->pods[child + 1].ends < departures->pods[child].ends)
			child++;
		if (last.ends <= departures->pods[child].ends)
			break;
		departures->pods[i] = departures->pods[child];
	}
	departures->pods[i] = last;
	return first;
}

static double exponential(uint64_t *random, double mean)
{
	return -mean * log(((double)(packing_random(random) >> 11) + 1) / 9007199254740993.0);
}

static double stranded_percent(const struct packing_state *state)
{
	double stranded = 0;

	for (size_t i = 0; i < state->cluster.trace->n_nodes; i++)
		stranded += fgd_stranded(state->fgd, &state->cluster.nodes[i]);
	return 100 * stranded / (double)state->cluster.trace->gpu_milli;
}

static void print_hour(const struct packing_policy *policy, uint64_t seed, unsigned hour, double allocated,
	const struct packing_state *state)
{
	printf("{\"policy\": \"%s\", \"seed\": %" PRIu64
	       ", \"hour\": %u, \"allocated\": %.4f, \"stranded\": %.4f}\n",
		policy->name, seed, hour, allocated, stranded_percent(state));
	fflush(stdout);
}

void packing_churn(const struct packing_trace *trace, const struct packing_policy *policy,
	const struct fgd_population *fgd, uint64_t seed, unsigned hours, size_t moves)
{
	struct packing_state state;
	struct departures departures = {0};
	uint64_t random = seed * UINT64_C(0x9E3779B97F4A7C15) + 7, placed = 0, asked = 0;
	double gap, now = 0;
	unsigned hour = 0;

	for (size_t i = 0; i < trace->n_pods; i++)
		asked += (uint64_t)trace->pods[i].gpus * trace->pods[i].gpu_milli;
	gap = MEAN_HOURS * (double)asked / (double)trace->n_pods * 100 / OFFERED_PERCENT /
	      (double)trace->gpu_milli;
	packing_begin(&state, trace, policy, fgd, seed);
	while (hour < hours) {
		struct packing_running pod = {.pod = trace->pods[packing_random(&random) % trace->n_pods]};
		int gpu;

		now += exponential(&random, gap);
		pod.ends = now + exponential(&random, MEAN_HOURS);
		for (; departures.n && departures.pods[0].ends <= now;) {
			struct packing_running gone = departures_take(&departures);

			packing_remove(&state.cluster.nodes[gone.node], &gone.pod, gone.gpus);
			placed -= (uint64_t)gone.pod.gpus * gone.pod.gpu_milli;
			if (state.core)
				packing_core_remove(state.core, gone.uid);
		}
		for (; hour < hours && now >= hour + 1; hour++)
			print_hour(policy, seed, hour + 1, 100.0 * (double)placed / (double)trace->gpu_milli,
				&state);
		packing_note_arrival(&state.cluster, &pod.pod);
		pod.node = packing_choose(&state, &pod.pod, &gpu, pod.uid);
		if (pod.node < 0)
			continue;
		pod.gpus = packing_place(&state.cluster.nodes[pod.node], &pod.pod, gpu);
		placed += (uint64_t)pod.pod.gpus * pod.pod.gpu_milli;
		departures_add(&departures, &pod);
	}
	if (moves && state.core)
		packing_moves(&state, departures.pods, departures.n, moves, seed);
	packing_end(&state);
	free(departures.pods);
}
