#include "model/rank.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/node-ledger.h"

/* What the order depends on, read once per node: the count over its pods is not for a comparison. */
struct rank_key {
	const struct node_ledger *node;
	enum gpu_policy policy;
	size_t owned;
	uint64_t free_mib;
};

static struct rank_key rank_key(const struct node_ledger *node, const char *owner)
{
	struct rank_key key = {
		.node = node,
		.policy = node->facts.policy,
		.free_mib = node_free_units(node) * node->facts.unit_mib,
	};

	if (key.policy == GPU_POLICY_SPREAD && *owner)
		key.owned = node_ledger_count_owner(node, owner, (uint32_t[NODE_GPUS_MAX]){0});
	return key;
}

static int rank_compare(const void *pa, const void *pb)
{
	const struct rank_key *a = pa, *b = pb;

	if (a->policy != b->policy)
		return a->policy == GPU_POLICY_BINPACK ? -1 : 1;
	if (a->owned != b->owned)
		return a->owned < b->owned ? -1 : 1;
	if (a->free_mib != b->free_mib)
		return (a->free_mib < b->free_mib) == (a->policy == GPU_POLICY_BINPACK) ? -1 : 1;
	return strcmp(a->node->facts.name, b->node->facts.name);
}

int rank_nodes(const struct node_ledger **nodes, size_t n, const struct pod_facts *pod)
{
	_cleanup_free_ struct rank_key *keys = NULL;

	if (n < 2)
		return 0;
	keys = calloc(n, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		keys[i] = rank_key(nodes[i], pod->owner ? pod->owner : "");
	qsort(keys, n, sizeof(*keys), rank_compare);
	for (size_t i = 0; i < n; i++)
		nodes[i] = keys[i].node;
	return 0;
}
