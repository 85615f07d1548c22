/* cluster-sums.c - running sums over all nodes: the CPU and memory behind the GPUs, and the GPUs of each
 * model. */
#include <string.h>

#include "core/registry/host-pods.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/ledger.h"
#include "core/registry/node-ledger.h"

/* sign: 1, or -1 as an unsigned number. */
static void count(struct gpu_hosts *hosts, const struct node_ledger *node, uint64_t sign)
{
	struct host_sum left = node_host_left(node);

	if (!node->facts.n_gpus || !node->facts.host.cpu_milli)
		return;
	hosts->all.cpu_milli += sign * node->facts.host.cpu_milli;
	hosts->all.memory_mib += sign * node->facts.host.memory_mib;
	hosts->left.cpu_milli += sign * left.cpu_milli;
	hosts->left.memory_mib += sign * left.memory_mib;
	hosts->gpus += sign * node->facts.n_gpus;
	hosts->milli_left += sign * node->sums.milli_free;
}

void gpu_hosts_add(struct gpu_hosts *hosts, const struct node_ledger *node)
{
	count(hosts, node, 1);
}

void gpu_hosts_remove(struct gpu_hosts *hosts, const struct node_ledger *node)
{
	count(hosts, node, UINT64_MAX);
}

static uint32_t shortage(uint64_t all, uint64_t left)
{
	return left < all ? (uint32_t)((all - left) * 1000 / all) : 0;
}

struct gpu_mean gpu_mean_of(struct host_sum all, struct host_sum left)
{
	uint32_t cpu = shortage(all.cpu_milli, left.cpu_milli);
	uint32_t memory = shortage(all.memory_mib, left.memory_mib);

	return (struct gpu_mean){.host = {all.cpu_milli < left.cpu_milli ? all.cpu_milli : left.cpu_milli,
					 all.memory_mib < left.memory_mib ? all.memory_mib : left.memory_mib},
		.shortage = cpu > memory ? cpu : memory};
}

struct gpu_mean ledger_gpu_mean(const struct ledger *ledger)
{
	const struct gpu_hosts *hosts = &ledger->hosts;
	struct host_sum all = {0}, left;

	if (hosts->gpus)
		all = (struct host_sum){
			hosts->all.cpu_milli / hosts->gpus, hosts->all.memory_mib / hosts->gpus};
	left = all;
	if (hosts->milli_left)
		left = (struct host_sum){hosts->left.cpu_milli * 1000 / hosts->milli_left,
			hosts->left.memory_mib * 1000 / hosts->milli_left};
	return gpu_mean_of(all, left);
}

uint32_t ledger_gpus_taken(const struct ledger *ledger)
{
	const struct gpu_hosts *hosts = &ledger->hosts;

	return hosts->gpus ? (uint32_t)(1000 - hosts->milli_left / hosts->gpus) : 0;
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
