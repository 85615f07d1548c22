#include "node/registry.h"

#include "node/claims.h"

void node_registry_init(struct node_registry *node, const char *name)
{
	*node = (struct node_registry){.name = name, .open = true};
	node_pods_init(&node->pods);
	table_init(&node->claims);
	served_init(&node->served);
	table_init(&node->spent);
	turn_init(&node->turn);
}

void node_registry_release(struct node_registry *node)
{
	void *claim;

	table_for_each (&node->claims, cursor, claim)
		node_claim_free(claim);
	table_release(&node->claims);
	served_release(&node->served);
	table_release(&node->spent);
	turn_release(&node->turn);
	node_pods_release(&node->pods);
}

struct terms node_registry_in_force(const struct node_registry *node)
{
	return (struct terms){node->in_force, node->inventory.unit_mib};
}

bool node_pod_holds(const struct pod_facts *pod)
{
	return !request_is_empty(&pod->request) && !pod->finished;
}

size_t node_registry_count_holders(const struct node_registry *node)
{
	const struct node_pod *pod;
	size_t n = node->claims.count;

	table_for_each (&node->pods.by_uid, cursor, pod)
		n += node_pod_holds(&pod->facts);
	return node->in_force == GPU_MODE_DRA ? n + node_claims_pending(node) : n;
}

const struct pod_facts *node_registry_holder(const struct node_registry *node)
{
	const struct node_pod *pod;

	table_for_each (&node->pods.by_uid, cursor, pod)
		if (node_pod_holds(&pod->facts))
			return &pod->facts;
	return NULL;
}

void node_registry_decide(struct node_registry *node, size_t n_orphans)
{
	node->serves = gpu_mode_is_served(node->in_force) && node->inventory.n_gpus;
	if (!node->serves || !node->problems.isolation[0])
		return;
	/* If the agent withdrew its devices, a restarting kubelet would refuse the pods that hold them. Until
	 * the pods are listed, there may be some. */
	node->serves = !node->settled || node_registry_count_holders(node) || n_orphans;
}

bool node_registry_offers(const struct node_registry *node, enum ids_of of)
{
	switch (of) {
	case IDS_OF_UNITS:
		return node->serves && node->in_force != GPU_MODE_TOPOLOGY && node->in_force != GPU_MODE_DRA;
	case IDS_OF_CORE:
		return node->serves && node->in_force == GPU_MODE_CORE_MEM;
	case IDS_OF_GPUS:
		return node->serves && node->in_force == GPU_MODE_TOPOLOGY;
	}
	return false;
}
