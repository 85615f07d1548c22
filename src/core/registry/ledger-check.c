/* ledger-check.c - compares the ledger's running sums with sums that are computed again. */
#include <string.h>

#include "core/registry/ledger-internal.h"
#include "core/registry/ledger.h"
#include "core/registry/node-ledger.h"

/* Recounts the pods of each owner and compares the result with the running counts. */
static bool owners_are_right(const struct ledger *ledger)
{
	struct owners again;
	const char *uid, *name;
	size_t at = 0;
	bool right = true;
	void *value, *pods;

	owners_init(&again);
	table_for_each (&ledger->pods, cursor, value) {
		const struct ledger_pod *pod = value;

		if (pod->node)
			right &= owners_add(&again, pod->facts.owner, pod->node) == 0;
	}
	right &= again.by_uid.count == ledger->owners.by_uid.count;
	while (table_next(&again.by_uid, &at, &uid, &value)) {
		const struct table *nodes = owners_nodes(&ledger->owners, uid);

		right &= nodes && nodes->count == ((struct table *)value)->count;
		for (size_t i = 0; table_next(value, &i, &name, &pods);)
			right &= owners_count(nodes, name) == (size_t)(uintptr_t)pods;
	}
	owners_release(&again);
	return right;
}

static bool hosts_are_right(const struct ledger *ledger)
{
	struct gpu_hosts again = {0};
	const struct node_ledger *node;

	table_for_each (&ledger->nodes, cursor, node)
		gpu_hosts_add(&again, node);
	return memcmp(&again, &ledger->hosts, sizeof(again)) == 0;
}

/* Counts the demand for GPU models again. */
static bool demand_is_right(const struct ledger *ledger)
{
	struct demand again;
	const struct node_ledger *node;
	const struct ledger_pod *pod;
	struct gpu_model *model;
	bool right = true;

	demand_init(&again);
	table_for_each (&ledger->nodes, cursor, node) {
		uint64_t mib = 0;

		for (size_t i = 0; i < node->facts.n_gpus; i++)
			mib += node->gpus[i].facts.mib < GPU_MIB_MAX ? node->gpus[i].facts.mib : GPU_MIB_MAX;
		right &= node->supply.gpus == node->facts.n_gpus && node->supply.mib == mib;
		right &= demand_enter(
				 &again, node->model ? node->model->names : NULL, node->supply, &model) == 0;
	}
	table_for_each (&ledger->pods, cursor, pod) {
		struct pod_demand recounted = {0};

		right &= demand_name(&again, &recounted, pod->facts.models) == 0;
		demand_set(&again, &recounted, &pod->facts);
	}
	right &= demand_equal(&ledger->demand, &again);
	demand_release(&again);
	return right;
}

size_t ledger_check(const struct ledger *ledger, size_t *ret_over)
{
	size_t wrong = 0, over = 0, occupying = 0, on_nodes = 0;
	void *value;

	table_for_each (&ledger->nodes, cursor, value) {
		const struct node_ledger *node = value;

		wrong += node_ledger_check(node, &over);
		list_for_each (item, &node->pods)
			on_nodes++;
	}
	table_for_each (&ledger->pods, cursor, value)
		occupying += ((const struct ledger_pod *)value)->occupancy != OCCUPANCY_WAITING;
	wrong += occupying != on_nodes;
	wrong += !owners_are_right(ledger);
	wrong += !hosts_are_right(ledger);
	wrong += !demand_is_right(ledger);
	if (ret_over)
		*ret_over = over;
	return wrong;
}
