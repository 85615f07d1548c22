/* rank.h - the order in which nodes that fit are offered to kube-scheduler. Pure. */
#pragma once

#include <stddef.h>

#include "core/registry/registry.h"

/* rank_nodes() - moves the `best` best nodes to the front, best first; all nodes must fit the pod. The order
 * of the others is not defined. SIZE_MAX: sorts all. Returns 0, or -ENOMEM with the order unchanged.
 *
 * Binpack nodes come before spread nodes. Among binpack nodes, the one with the lowest cost (node-order.h) is
 * best, or, with NODE_ORDER_FULLEST, the one with the least free memory on the whole node. Among spread nodes
 * it is the one with the fewest pods of the same owner, then with the most free memory. Ties are broken by
 * name, so this is a total order. Free memory is that of healthy GPUs, in MiB. For whole GPUs, two rules come
 * before all others: where other pods of the job are, then where the GPUs that the pod would get are
 * connected best. */
int rank_nodes(const struct ledger *ledger, const struct node_ledger **nodes, size_t n, size_t best,
	const struct pod_facts *pod);

/* rank_nodes_sparing() - the same. *ret_spared: the node that would come first if no GPU model were scarce
 * (registry/demand.h); NULL if it comes first anyway. It is not searched for if ret_spared is NULL. */
int rank_nodes_sparing(const struct ledger *ledger, const struct node_ledger **nodes, size_t n, size_t best,
	const struct pod_facts *pod, const struct node_ledger **ret_spared);

/* rank_host_pod() - scores for a pod that asks for no GPU, one for each node (NULL: unknown, 0). Nodes with
 * the lowest cost get 10, those with the next one 9, and so on; 0 after the tenth. Nodes without GPUs cost
 * nothing; kube-scheduler decides between them by its own scores. Of nodes with GPUs that cost the same, the
 * one with the least free CPU counts as cheaper. With NODE_ORDER_FULLEST all scores are 0. */
#define RANK_SCORE_MAX 10
void rank_host_pod(const struct ledger *ledger, const struct node_ledger *const *nodes, size_t n,
	const struct pod_facts *pod, int *ret_scores);
