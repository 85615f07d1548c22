/* node-order.h - how much of a cluster's GPUs is lost if a pod goes to this node and not to another one.
 * Pure, and computed in integers, so that each replica and each replay gets the same number.
 * docs/internals/packing.md explains the rule and its weights. */
#pragma once

#include <stdint.h>

#include "model/host.h"

/* What a node has left for pods. */
struct node_room {
	uint64_t cpu_milli;  /* allocatable less what its pods request, never below 0 */
	uint64_t memory_mib; /* of the host; likewise */
	uint32_t gpu_milli;  /* thousandths of a GPU that are free, over all GPUs of the node */
};

/* One pod on one node. */
struct node_order_ask {
	struct node_room before, after;
	uint32_t gpus;	 /* all GPUs of the node, free or not */
	uint32_t whole;	 /* those that are entirely free before the pod comes */
	uint32_t wanted; /* those that the pod takes, entirely or in part */
	/* The sum of node_order_part_lost() over the GPUs of the node, after less before. */
	int64_t part_lost;
	uint32_t cluster_taken; /* of all GPUs of the cluster, in thousandths (ledger_gpus_taken()) */
	/* How much of the GPUs of the node's model is wanted by pods that can use no other model, in
	 * thousandths (registry/demand.h). */
	uint32_t scarcity;
	/* How much nodes with this number of GPUs are wanted by pods that need most of one, likewise. */
	uint32_t node_scarcity;
	/* For a pod without a GPU: the node's allocatable CPU. 0: the pod asks for a GPU, or no pod can have
	 * the node's GPUs now, or not from this ledger. */
	uint64_t host_pod_cpu_milli;
};

/* node_order_stranded() - the GPUs that are free on the node and that its free CPU and memory could not
 * serve, in millionths of a GPU. No GPU counts while each free GPU has the mean of both behind it; all count
 * if one of them is used up. In between less than the missing part counts, unless CPU or memory is short in
 * the whole cluster. */
int64_t node_order_stranded(const struct node_room *room, const struct gpu_mean *mean);

/* node_order_part_lost() - how much of one GPU, of which this many thousandths are free (at most 1000), will
 * probably stay unused, in millionths of a GPU. A GPU that is entirely free, or full, loses nothing.
 */
int64_t node_order_part_lost(uint32_t free_milli);

/* node_order_cost() - the node with the lowest cost is the best one; in millionths of a GPU, may be negative.
 */
int64_t node_order_cost(const struct node_order_ask *ask, const struct gpu_mean *mean);

/* node_order_scarcity() - the part of the cost that is due to the scarcity of the node's model. */
int64_t node_order_scarcity(const struct node_order_ask *ask);
