/* rank.h - the order in which nodes that fit are offered to kube-scheduler. Pure. */
#pragma once

#include <stddef.h>

struct ledger;
struct node_ledger;
struct pod_facts;

/* rank_nodes() - of nodes that all fit the pod, the `best` best ones to the front, best first; the order of
 * the others is not defined. SIZE_MAX: all. Binpack nodes come before spread nodes; among binpack nodes the
 * one with the least free memory on the whole node, among spread nodes the one with the fewest pods of the
 * same owner, then with the most free memory; ties by name. A total order. Free memory is that of healthy
 * GPUs, in MiB. Before all that, for whole GPUs: where other pods of its
 * job are, then where the GPUs that it would get are connected best. Returns 0, or -ENOMEM with the order
 * unchanged. */
int rank_nodes(const struct ledger *ledger, const struct node_ledger **nodes, size_t n, size_t best,
	const struct pod_facts *pod);
