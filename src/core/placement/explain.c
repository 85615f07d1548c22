#include "core/placement/explain.h"

#include "core/placement/choose.h"
#include "core/registry/node-ledger.h"

static size_t turn_of(const struct gpu_ledger *gpu, const struct gpu_ledger *const *ranked, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ranked[i] == gpu)
			return i + 1;
	return 0;
}

void node_explain(const struct node_ledger *node, const struct request *request, const char *owner,
	struct node_explanation *ret_explanation)
{
	const struct gpu_ledger *ranked[NODE_GPUS_MAX];
	size_t n_ranked = placement_rank_gpus(node, request, owner, ranked);

	ret_explanation->reject_reason = (enum reject_reason)placement_choose(node, request, owner, NULL);
	ret_explanation->n_gpus = node->facts.n_gpus;
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &node->gpus[i];

		ret_explanation->gpus[i] = (struct gpu_explanation){
			.gpu = gpu,
			.reject_reason = gpu_reject_reason(gpu, request),
			.units_free = gpu_free_units(gpu),
			.core_free = gpu_free_core(gpu),
			.turn = turn_of(gpu, ranked, n_ranked),
		};
	}
}

const char *gpu_reject_reason_text(enum gpu_reject_reason reject_reason)
{
	static const char *const texts[GPU_REJECT_MAX] = {
		[GPU_FITS] = "fits",
		[GPU_UNHEALTHY] = "GPU is unhealthy",
		[GPU_TOO_SMALL] = "GPU is not that large",
		[GPU_FULL] = "not enough units free",
		[GPU_CORE] = "not enough computing power free",
		[GPU_INSTANCES] = "GPU has its maximum of containers",
	};

	return reject_reason < GPU_REJECT_MAX ? texts[reject_reason] : "unknown";
}
