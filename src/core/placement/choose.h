/* choose.h - which GPU of a node a pod gets, and why a node or a GPU cannot serve it. "Why did my pod land on
 * GPU 2" is answered in choose.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/placement.h"

struct gpu_ledger;
struct node_ledger;

/* Why a node cannot serve a request; the texts are constant, because kube-scheduler requeues a pod whose
 * message changes (kube-scheduler-extender: own status patch wakes the pod). */
enum reject_reason {
	FITS,
	REJECT_NO_GPU_NODE, /* no inventory: the agent has not reported, or it is no GPU node */
	REJECT_MODE,	    /* GPU sharing mode does not fit */
	REJECT_TOO_LARGE,   /* no GPU is that large */
	REJECT_FULL,	    /* no GPU has N units free */
	REJECT_NOT_SERVING, /* its agent has said that it goes, or does not live any more */
	REJECT_TOO_FEW,	    /* GPU node has fewer than M GPUs */
	REJECT_INSTANCES,   /* GPU has its maximum of containers */
	REJECT_CORE,	    /* no GPU has N percent of computing power free */
	REJECT_MIXED,	    /* GPU node has pods with, or without gpu-core.percentage */
	REJECT_UNIT,	    /* GPU memory unit differs */
	REJECT_CHANGING,    /* GPU node changes its mode (or unit) */
	REJECT_HELD,	    /* what its agent says of orphans cannot be read */
	REJECT_POLICY_UNIT, /* it would fit, but its ResourcePolicy has another unit for it, or none */
	REJECT_MAX,
};

/* reject_reason_text() - writes the constant text for this request into buf (64 bytes are enough) and returns
 * it. */
const char *reject_reason_text(
	enum reject_reason reject_reason, const struct request *request, char *buf, size_t size);

/* reject_reason_is_occupancy() - it is other pods that are in the way, so that an eviction may help. */
bool reject_reason_is_occupancy(int reject_reason);

/* Why a single GPU of a node that serves the request is not taken. */
enum gpu_reject_reason {
	GPU_FITS,
	GPU_UNHEALTHY,
	GPU_TOO_SMALL, /* even empty */
	GPU_FULL,      /* not enough units free */
	GPU_CORE,      /* units enough, but not computing power */
	GPU_INSTANCES, /* both enough, but as many containers as it may have */
	GPU_REJECT_MAX,
};

/* placement_rank_gpus() - the GPUs of the node that have room for the request, best first (the order
 * below). ret_gpus has NODE_GPUS_MAX entries. Returns how many there are. */
size_t placement_rank_gpus(const struct node_ledger *node, const struct request *request, const char *owner,
	const struct gpu_ledger **ret_gpus);

/* placement_on_gpus() - the request on the first request_gpus() of these GPUs of the node, whether or not
 * they have room; sorts them by index. -ENOMEM. */
int placement_on_gpus(const struct node_ledger *node, const struct gpu_ledger **gpus,
	const struct request *request, struct placement *ret_placement);

/* placement_choose() - pick the GPU, or GPUs, of one node for a request.
 *
 * binpack: the GPU with the least free units that fits; spread: the GPU with the fewest pods of the same
 * owner, then the most free units. Ties by computing power in the same sense, then by lowest index, then
 * UUID: a total order, so that two replicas agree. owner may be "" (no controller): then spread looks at free
 * units only. A request for M GPUs gets the first M of that order that have its part free each; the
 * placement names them by index. Whole GPUs are those that links_plan_job() chooses among the free ones.
 *
 * Returns FITS and fills *ret_placement (the caller releases it), or the reason; -ENOMEM is the only negative
 * value. *ret_placement is untouched unless FITS. ret_placement may be NULL for a mere check. */
int placement_choose(const struct node_ledger *node, const struct request *request, const char *owner,
	struct placement *ret_placement);
