/* rank.h - the order in which nodes that fit are offered to kube-scheduler. Pure. */
#pragma once

#include <stddef.h>

struct node_ledger;
struct pod_facts;

/* rank_nodes() - sort nodes that all fit the pod, best first. Binpack nodes come before spread nodes; among
 * binpack nodes the one with the least free memory on the whole node, among spread nodes the one with the
 * fewest pods of the same owner, then with the most free memory; ties by name. A total order. Free memory is
 * that of healthy cards, in MiB. Returns 0, or -ENOMEM with the order unchanged. */
int rank_nodes(const struct node_ledger **nodes, size_t n, const struct pod_facts *pod);
