/* host-pods.h - pods that ask for no GPU. The ledger counts only the CPU and memory that they request on
 * their node. */
#pragma once

#include "core/registry/registry.h"

struct host_pod {
	struct list item; /* node->host_pods */
	struct node_ledger *node;
	struct host_amount host;
};

/* host_pods_set() - the pod is on this node and requests this amount. host_pods_remove() - the pod is no
 * longer there; unknown uids are ignored. host_pods_release() - forgets all such pods without changing the
 * nodes' sums. */
int host_pods_set(struct ledger *ledger, const char *uid, struct node_ledger *node, struct host_amount host);
struct node_ledger *host_pods_remove(struct ledger *ledger, const char *uid);
void host_pods_release(struct ledger *ledger);

/* host_sum_add(), host_sum_remove() - add or remove the request of one pod. host_sum_remove() returns false
 * if the sum was smaller than the request; the sum is 0 then. */
void host_sum_add(struct host_sum *sum, struct host_amount host);
bool host_sum_remove(struct host_sum *sum, struct host_amount host);
