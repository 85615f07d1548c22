#include "core/placement/node-order.h"

#include <stdbool.h>

/* The weights, in millionths of a GPU. */
#define STRANDED_WEIGHT 4	   /* per millionth of a GPU that the pod strands */
#define FREE_WEIGHT 100		   /* per thousandth of a GPU that stays free: a tenth of a GPU for a GPU */
#define FULL_CLUSTER_WEIGHT 900	   /* in addition, once no GPU of the cluster is free */
#define PART_LOST_WEIGHT 2	   /* per millionth of a GPU that is lost in free parts that are too small */
#define EMPTY_NODE_WEIGHT 400000   /* if all GPUs of the node were free and no longer are */
#define WANTED_NODE_WEIGHT 1600000 /* in addition, if pods that need a node ask for all such nodes */
#define DRAINED_NODE_WEIGHT 7	   /* times these, per GPU whose CPU a pod without one takes there */
#define SCARCITY_WEIGHT_TENTHS 15  /* for GPUs that are wanted by pods that can use no others */

#define NEARLY_FULL 850 /* thousandths of the cluster's GPUs */

#define SHORT 40 /* thousandths: from here on a shortage counts in full */

/* Shares are in units of 1/SHARE: the third power of one, times the GPUs of a node, stays far below 64 bits.
 */
#define SHARE UINT64_C(10000)
#define GPU_MILLI_MAX 1000000u /* a thousand GPUs */
#define MILLION UINT64_C(1000000)

/* The GPUs that have the mean behind them, in millionths, at most this many thousandths. */
static uint64_t served(uint64_t left, uint64_t mean, uint64_t gpu_milli)
{
	bool enough = left >= mean * gpu_milli / 1000;

	return enough ? gpu_milli * 1000 : left * MILLION / mean;
}

/* Pods differ, so a GPU with two thirds of the mean behind it still serves most of them: what is missing
 * counts by its third power. But once the cluster has less CPU or memory than its pods ask for, each pod
 * takes it from some GPU, and the third power would take a little from all nodes, until none has enough for
 * a large pod. Then exactly the GPUs count that are not served. */
int64_t node_order_stranded(const struct node_room *room, const struct gpu_mean *mean)
{
	uint64_t gpu_milli = room->gpu_milli < GPU_MILLI_MAX ? room->gpu_milli : GPU_MILLI_MAX;
	uint64_t cpu = served(room->cpu_milli, mean->host.cpu_milli, gpu_milli);
	uint64_t memory = served(room->memory_mib, mean->host.memory_mib, gpu_milli);
	uint64_t bare = gpu_milli * 1000 - (cpu < memory ? cpu : memory);
	uint64_t missing = gpu_milli ? bare * SHARE / (gpu_milli * 1000) : 0;
	uint64_t cubed = gpu_milli * missing * missing * missing / (SHARE * SHARE * SHARE / 1000);
	uint64_t shortage = mean->shortage < SHORT ? mean->shortage : SHORT;

	return (int64_t)((cubed * (SHORT - shortage) + bare * shortage) / SHORT);
}

/* A pod that asks for more than the free part cannot use it. If pods ask for each part of a GPU equally
 * often, three tenths are too small for seven of ten pods, so 0.3 * 0.7 GPUs are lost. The most is lost where
 * half of the GPU is free. More than half counts as half: otherwise small pods would prefer to begin the GPU
 * with the most memory. */
int64_t node_order_part_lost(uint32_t free_milli)
{
	int64_t part = free_milli < 500 ? free_milli : 500;

	return free_milli < 1000 ? part * (1000 - part) : 0;
}

/* In a cluster that is nearly full, room comes only from pods that end. Then a node that is used little is
 * soon free for a pod that needs many GPUs, if no other pod comes to it: the fullest node counts more. */
static int64_t free_weight(uint32_t cluster_taken)
{
	if (cluster_taken <= NEARLY_FULL)
		return FREE_WEIGHT;
	return FREE_WEIGHT +
	       FULL_CLUSTER_WEIGHT * (int64_t)(cluster_taken - NEARLY_FULL) / (1000 - NEARLY_FULL);
}

int64_t node_order_scarcity(const struct node_order_ask *ask)
{
	int64_t taken = (int64_t)ask->before.gpu_milli - ask->after.gpu_milli;

	return (int64_t)ask->scarcity * taken * SCARCITY_WEIGHT_TENTHS / 10;
}

/* The third power keeps the cost low until pods ask for most of these nodes: if nodes are kept free although
 * few pods need them, GPUs of other nodes are stranded. */
static int64_t empty_node_cost(const struct node_order_ask *ask)
{
	int64_t scarcity = ask->node_scarcity;

	return EMPTY_NODE_WEIGHT + scarcity * scarcity * scarcity * WANTED_NODE_WEIGHT / 1000000000;
}

/* What a pod without a GPU costs on a node whose GPUs are all free. A pod that needs them all needs most of
 * the node's CPU, too, which may be more than the mean: the CPU that the pod takes counts as the GPUs that
 * have it as their part. With less than half of its CPU left the node is no longer kept for such pods. Nodes
 * with one GPU are not counted as scarce (registry/demand.h). */
static int64_t drained_node_cost(const struct node_order_ask *ask)
{
	const struct node_room *before = &ask->before;
	uint64_t taken = before->cpu_milli - ask->after.cpu_milli, all = ask->host_pod_cpu_milli;

	if (ask->gpus < 2 || before->gpu_milli < ask->gpus * 1000 || before->cpu_milli < all / 2)
		return 0;
	return DRAINED_NODE_WEIGHT * empty_node_cost(ask) * ask->gpus * (int64_t)taken / (int64_t)all;
}

int64_t node_order_cost(const struct node_order_ask *ask, const struct gpu_mean *mean)
{
	int64_t cost = STRANDED_WEIGHT *
		       (node_order_stranded(&ask->after, mean) - node_order_stranded(&ask->before, mean));

	cost += free_weight(ask->cluster_taken) * (int64_t)ask->after.gpu_milli;
	cost += PART_LOST_WEIGHT * ask->part_lost;
	if (ask->whole == ask->gpus && ask->wanted && ask->wanted < ask->gpus)
		cost += empty_node_cost(ask);
	if (ask->host_pod_cpu_milli)
		cost += drained_node_cost(ask);
	return cost + node_order_scarcity(ask);
}
