/* cluster-sums.c - running sums over all nodes: the CPU and memory behind the GPUs, and the GPUs of each
 * model.
 */
#include <string.h>

#include "core/registry/host-pods.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/ledger.h"
#include "core/registry/node-ledger.h"

void ledger_count_host(struct ledger *ledger, const struct node_ledger *node, bool leaves)
{
	struct host_sum left = node_host_left(node);
	uint64_t milli = node->sums.milli_free;

	if (!node->facts.n_gpus || !node->facts.host.cpu_milli)
		return;
	if (leaves)
		host_sum_remove(&ledger->hosts, node->facts.host);
	else
		host_sum_add(&ledger->hosts, node->facts.host);
	ledger->hosts_gpus += leaves ? -(uint64_t)node->facts.n_gpus : node->facts.n_gpus;
	ledger->hosts_left.cpu_milli += leaves ? -left.cpu_milli : left.cpu_milli;
	ledger->hosts_left.memory_mib += leaves ? -left.memory_mib : left.memory_mib;
	ledger->hosts_milli_left += leaves ? -milli : milli;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

struct host_sum ledger_gpu_mean(const struct ledger *ledger)
{
	const struct host_sum *all = &ledger->hosts, *left = &ledger->hosts_left;
	uint64_t gpus = ledger->hosts_gpus, milli = ledger->hosts_milli_left;
	struct host_sum mean = {0};

	if (gpus)
		mean = (struct host_sum){all->cpu_milli / gpus, all->memory_mib / gpus};
	if (milli)
		mean = (struct host_sum){lesser(mean.cpu_milli, left->cpu_milli * 1000 / milli),
			lesser(mean.memory_mib, left->memory_mib * 1000 / milli)};
	return mean;
}

/* If memory runs out here, the model is unknown until the node is shown again. */
void ledger_count_models(struct ledger *ledger, struct node_ledger *node, const char *names)
{
	const char *known = node->model ? node->model->names : "";
	struct gpu_supply supply = {.gpus = node->facts.n_gpus};
	struct gpu_model *model;

	for (size_t i = 0; i < node->facts.n_gpus; i++)
		supply.mib += node->gpus[i].facts.mib < GPU_MIB_MAX ? node->gpus[i].facts.mib : GPU_MIB_MAX;
	if (node->supply.gpus == supply.gpus && node->supply.mib == supply.mib &&
		strcmp(known, names ? names : "") == 0)
		return;
	if (demand_enter(&ledger->demand, names, supply, &model) < 0)
		demand_enter(&ledger->demand, NULL, supply, &model);
	demand_leave(&ledger->demand, node->model, node->supply);
	node->model = model;
	node->supply = supply;
}
