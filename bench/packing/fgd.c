/* Fragmentation gradient descent, written from the paper (Weng et al., "Beware of Fragmentation", USENIX ATC
 * 2023, section 4). A node's fragmentation for one kind of pod is what is free on GPUs that this pod cannot
 * use: all that is free where the pod does not fit, else the GPUs that have less left than the pod's part.
 * The expected fragmentation weighs the kinds by how often they are in the workload. The pod goes where the
 * expected fragmentation grows least.
 *
 * The published figures come from a scheduler plugin, whose score is a whole number from 0 to 100: the
 * sigmoid of the decrease in GPUs. Nodes that differ by less are equal, and the first of them is taken; this
 * is done here, too.
 */
#include "packing/packing.h"

#include <math.h>
#include <stdlib.h>

struct fgd_population {
	const struct packing_trace *trace;
	double *parts; /* of each kind */
};

struct fgd_population *fgd_learn(const struct packing_trace *trace)
{
	struct fgd_population *population = malloc(sizeof(*population));

	if (!population || !(population->parts = malloc(trace->n_kinds * sizeof(double))))
		abort();
	population->trace = trace;
	for (size_t i = 0; i < trace->n_kinds; i++)
		population->parts[i] = (double)trace->counts[i] / (double)trace->n_pods;
	return population;
}

void fgd_free(struct fgd_population *population)
{
	free(population->parts);
	free(population);
}

double fgd_stranded(const struct fgd_population *population, const struct packing_node *node)
{
	double stranded = 0;

	for (size_t k = 0; k < population->trace->n_kinds; k++) {
		const struct packing_pod *pod = &population->trace->kinds[k];
		uint32_t left = 0;

		if (!pod->gpus || !packing_fits(node, pod)) {
			stranded += population->parts[k] * node->left;
			continue;
		}
		for (uint32_t i = 0; i < node->gpus; i++)
			left += node->gpu_left[i] < pod->gpu_milli ? node->gpu_left[i] : 0;
		stranded += population->parts[k] * left;
	}
	return stranded;
}

static double stranded_after(const struct packing_state *state, const struct packing_node *node,
	const struct packing_pod *pod, int gpu)
{
	struct packing_node after = *node;

	packing_place(&after, pod, gpu);
	return fgd_stranded(state->fgd, &after);
}

/* Which GPU, too, is chosen by the fragmentation that it leaves. */
double fgd_score(const struct packing_state *state, const struct packing_node *node,
	const struct packing_pod *pod, int *ret_gpu)
{
	double best = INFINITY;

	if (pod->gpus != 1)
		best = stranded_after(state, node, pod, -1);
	for (uint32_t i = 0; pod->gpus == 1 && i < node->gpus; i++) {
		bool seen = node->gpu_left[i] < pod->gpu_milli;
		double stranded;

		for (uint32_t j = 0; j < i && !seen; j++)
			seen = node->gpu_left[j] == node->gpu_left[i];
		if (seen)
			continue;
		stranded = stranded_after(state, node, pod, (int)i);
		if (stranded < best) {
			best = stranded;
			*ret_gpu = (int)i;
		}
	}
	return floor(100 / (1 + exp((best - fgd_stranded(state->fgd, node)) / GPU_MILLI)));
}
