#include "core/placement/rank.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/links.h"
#include "core/placement/node-room.h"
#include "core/registry/ledger.h"
#include "core/registry/node-ledger.h"
#include "core/registry/owners.h"

/* What the order depends on, read once per node. The struct is small, because with thousands of nodes these
 * are most of the moved data. */
struct rank_key {
	const struct node_ledger *node;
	int64_t cost;	  /* the smaller the better */
	int64_t scarcity; /* the part of it that is due to the scarcity of the node's GPU model */
	/* For whole GPUs: whether other pods of its job are there, and how well it would be connected
	 * together with them; the larger the better. */
	uint64_t links;
	uint32_t owned;
	enum gpu_policy policy;
};

/* How binpack nodes are compared. */
struct rank_rule {
	enum node_order order;
	struct gpu_mean mean;
	uint32_t cluster_taken; /* of all GPUs, in thousandths */
	const struct demand *demand;
	const struct pod_demand *own; /* the pod itself does not count; NULL: unknown to the ledger */
	uint32_t node_scarcity[NODE_GPUS_MAX + 1]; /* by the GPUs of a node */
};

static struct rank_rule rank_rule(const struct ledger *ledger, const struct pod_demand *own)
{
	struct rank_rule rule = {.order = ledger->node_order,
		.mean = ledger_gpu_mean(ledger),
		.cluster_taken = ledger_gpus_taken(ledger),
		.demand = &ledger->demand,
		.own = own};

	for (size_t gpus = 0; gpus <= NODE_GPUS_MAX; gpus++)
		rule.node_scarcity[gpus] = demand_node_scarcity(rule.demand, rule.own, gpus);
	return rule;
}

#define NEAR (UINT64_C(1) << 63)

/* 100 CPUs that stay free cost a thousandth of a GPU. */
#define CPU_MILLI_PER_COST 100

static void rank_links(struct rank_key *key, const struct request *request, struct links_memo *memo)
{
	struct links_ask ask = node_ledger_links_ask(key->node, request);
	struct links_score score = {0};

	if (key->node->links)
		score = links_memo_plan_score(memo, key->node->links, &ask);
	key->links = (uint64_t)(score.ring & INT32_MAX) << 32 | score.sum | (ask.near ? NEAR : 0);
}

static struct rank_key rank_key(const struct node_ledger *node, const struct table *owned,
	const struct pod_facts *pod, const struct rank_rule *rule, struct links_memo *memo)
{
	struct rank_key key = {.node = node, .policy = node->facts.policy};

	if (key.policy == GPU_POLICY_BINPACK && rule->order == NODE_ORDER_BALANCED) {
		struct node_order_ask ask = node_room_ask(node, pod);

		ask.cluster_taken = rule->cluster_taken;
		ask.scarcity = demand_scarcity(rule->demand, rule->own, node->model);
		ask.node_scarcity = rule->node_scarcity[node->facts.n_gpus];
		key.cost = node_order_cost(&ask, &rule->mean);
		key.scarcity = node_order_scarcity(&ask);
	} else {
		key.cost = (int64_t)(node_free_units(node) * node->facts.unit_mib);
		if (key.policy == GPU_POLICY_SPREAD)
			key.cost = -key.cost;
	}
	if (owned && key.policy == GPU_POLICY_SPREAD)
		key.owned = (uint32_t)owners_count(owned, node->facts.name);
	if (pod->request.whole)
		rank_links(&key, &pod->request, memo);
	return key;
}

static int rank_compare(const void *pa, const void *pb)
{
	const struct rank_key *a = pa, *b = pb;

	if (a->links != b->links)
		return a->links > b->links ? -1 : 1;
	if (a->policy != b->policy)
		return a->policy == GPU_POLICY_BINPACK ? -1 : 1;
	if (a->owned != b->owned)
		return a->owned < b->owned ? -1 : 1;
	if (a->cost != b->cost)
		return a->cost < b->cost ? -1 : 1;
	return strcmp(a->node->facts.name, b->node->facts.name);
}

static void rank_swap(struct rank_key *a, struct rank_key *b)
{
	struct rank_key other = *a;

	*a = *b;
	*b = other;
}

/* keys[0..n) is a heap with the worst on top, except that the top itself may be out of place. */
static void heap_sink(struct rank_key *keys, size_t n)
{
	for (size_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && rank_compare(&keys[child + 1], &keys[child]) > 0)
			child++;
		if (rank_compare(&keys[i], &keys[child]) >= 0)
			return;
		rank_swap(&keys[i], &keys[child]);
	}
}

/* Moves the best to the front, in any order. With thousands of nodes and few wanted, nearly every node is
 * compared only once, with the worst of the best so far. Sorting all would be most of a filter call. */
static void select_best(struct rank_key *keys, size_t n, size_t best)
{
	qsort(keys, best, sizeof(*keys), rank_compare);
	for (size_t i = 0; i < best / 2; i++) /* an array with the worst first is a heap */
		rank_swap(&keys[i], &keys[best - 1 - i]);
	for (size_t i = best; i < n; i++) {
		if (rank_compare(&keys[i], &keys[0]) >= 0)
			continue;
		rank_swap(&keys[i], &keys[0]);
		heap_sink(keys, best);
	}
}

/* The node that would be first if no model were scarce. */
static const struct node_ledger *first_if_plenty(const struct rank_key *keys, size_t n)
{
	struct rank_key first = keys[0];

	first.cost -= first.scarcity;
	for (size_t i = 1; i < n; i++) {
		struct rank_key key = keys[i];

		key.cost -= key.scarcity;
		if (rank_compare(&key, &first) < 0)
			first = key;
	}
	return first.node;
}

int rank_nodes(const struct ledger *ledger, const struct node_ledger **nodes, size_t n, size_t best,
	const struct pod_facts *pod)
{
	return rank_nodes_sparing(ledger, nodes, n, best, pod, NULL);
}

int rank_nodes_sparing(const struct ledger *ledger, const struct node_ledger **nodes, size_t n, size_t best,
	const struct pod_facts *pod, const struct node_ledger **ret_spared)
{
	const struct node_ledger *plenty = NULL;
	const struct ledger_pod *known = pod->uid ? ledger_pod(ledger, pod->uid) : NULL;
	/* Only some replicas may have seen the pod already. */
	struct rank_rule rule = rank_rule(ledger, known ? &known->demand : NULL);
	const struct table *owned = owners_nodes(&ledger->owners, pod->owner ? pod->owner : "");
	_cleanup_free_ struct rank_key *keys = NULL;
	struct links_memo *memo;
	bool scarce = false;

	if (ret_spared)
		*ret_spared = NULL;
	if (n < 2 || best == 0)
		return 0;
	keys = calloc(n, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	memo = pod->request.whole ? links_memo_new() : NULL; /* without it, the function is only slower */
	for (size_t i = 0; i < n; i++) {
		keys[i] = rank_key(nodes[i], owned, pod, &rule, memo);
		scarce |= ret_spared && keys[i].scarcity > 0;
	}
	links_memo_free(memo);
	if (scarce)
		plenty = first_if_plenty(keys, n);
	if (best < n)
		select_best(keys, n, best);
	qsort(keys, best < n ? best : n, sizeof(*keys), rank_compare);
	for (size_t i = 0; i < n; i++)
		nodes[i] = keys[i].node;
	if (scarce)
		*ret_spared = plenty == nodes[0] ? NULL : plenty;
	return 0;
}

/* Of nodes that cost the same, the one with the least CPU comes first, so that large pods find room on the
 * others. Between nodes without GPUs kube-scheduler decides. */
static int64_t host_pod_cost(
	const struct node_ledger *node, const struct pod_facts *pod, const struct rank_rule *rule)
{
	struct node_order_ask ask = node_room_ask(node, pod);
	int64_t cost;

	ask.cluster_taken = rule->cluster_taken;
	ask.node_scarcity = rule->node_scarcity[node->facts.n_gpus];
	cost = node_order_cost(&ask, &rule->mean);

	return node->facts.n_gpus ? cost + (int64_t)ask.after.cpu_milli / CPU_MILLI_PER_COST : cost;
}

void rank_host_pod(const struct ledger *ledger, const struct node_ledger *const *nodes, size_t n,
	const struct pod_facts *pod, int *ret_scores)
{
	struct rank_rule rule = rank_rule(ledger, NULL);
	int64_t lowest[RANK_SCORE_MAX]; /* costs, without repetition, the lowest first */
	int n_lowest = 0;

	memset(ret_scores, 0, n * sizeof(*ret_scores));
	for (int pass = 0; pass < 2 && ledger->node_order == NODE_ORDER_BALANCED; pass++)
		for (size_t i = 0; i < n; i++) {
			int64_t cost;
			int at = 0;

			if (!nodes[i])
				continue;
			cost = host_pod_cost(nodes[i], pod, &rule);
			while (at < n_lowest && lowest[at] < cost)
				at++;
			if (at < RANK_SCORE_MAX && pass)
				ret_scores[i] = RANK_SCORE_MAX - at;
			if (at == RANK_SCORE_MAX || pass || (at < n_lowest && lowest[at] == cost))
				continue;
			n_lowest += n_lowest < RANK_SCORE_MAX;
			memmove(&lowest[at + 1], &lowest[at], (size_t)(n_lowest - at - 1) * sizeof(*lowest));
			lowest[at] = cost;
		}
}
