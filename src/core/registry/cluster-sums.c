/* cluster-sums.c - running sums over all nodes: the CPU and memory behind the GPUs, and the GPUs of each
 * model.
 */
#include <string.h>

#include "core/registry/host-pods.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/ledger.h"

void ledger_count_host(struct ledger *ledger, const struct node_ledger *node, bool leaves)
{
	if (!node->facts.n_gpus || !node->facts.host.cpu_milli)
		return;
	if (leaves)
		host_sum_remove(&ledger->hosts, node->facts.host);
	else
		host_sum_add(&ledger->hosts, node->facts.host);
	ledger->hosts_gpus += leaves ? -(uint64_t)node->facts.n_gpus : node->facts.n_gpus;
}

struct host_sum ledger_gpu_mean(const struct ledger *ledger)
{
	if (!ledger->hosts_gpus)
		return (struct host_sum){0};
	return (struct host_sum){
		ledger->hosts.cpu_milli / ledger->hosts_gpus, ledger->hosts.memory_mib / ledger->hosts_gpus};
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
