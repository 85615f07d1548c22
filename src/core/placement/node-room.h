/* node-room.h - what a node of the ledger would have left if a pod came, for the order of nodes
 * (node-order.h). Pure. */
#pragma once

#include "core/placement/node-order.h"

struct node_ledger;
struct pod_facts;

/* node_room_ask() - for the pod on this node, which has room for it. Computed from the node's sums, without
 * choosing GPUs. */
struct node_order_ask node_room_ask(const struct node_ledger *node, const struct pod_facts *pod);
