/* placement.h - which GPU each container of a pod gets. "Why did my pod land on GPU 2" is answered in
 * placement.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;
struct node_ledger;

#define GPU_UUID_SIZE 64 /* "GPU-" and 36 characters, MIG names are longer; with the NUL */

struct gpu_share {
	char uuid[GPU_UUID_SIZE];
	uint32_t units;
	uint32_t core;
};

struct container_placement {
	char *name;
	struct gpu_share *gpus;
	size_t n_gpus;
};

struct placement {
	uint32_t unit_mib; /* the node's unit when the pod was placed */
	uint32_t resizes;  /* how often the pod got another size since (resize.h) */
	struct container_placement *containers;
	size_t n_containers;
	/* Of whole GPUs of a pod of a job: all GPUs of the job's pods on the node, its own included, that
	 * its containers see; none where it sees only its own. Not part of what it occupies. */
	char (*visible)[GPU_UUID_SIZE];
	size_t n_visible;
};

void placement_init(struct placement *placement);
void placement_release(struct placement *placement); /* accepts NULL */
#define _cleanup_placement_ _cleanup_(placement_release)
int placement_copy(const struct placement *from, struct placement *ret_placement);
bool placement_equal(const struct placement *a, const struct placement *b);

/* placement_add() - one share of one GPU for one container; a container may be named again for a further
 * GPU. */
int placement_add(
	struct placement *placement, const char *container, const char *uuid, uint32_t units, uint32_t core);

const struct container_placement *placement_find(const struct placement *placement, const char *container);

/* placement_gpus() - all its GPUs, each once, into ret_gpus, which has room for NODE_GPUS_MAX; returns how
 * many. Containers that share GPUs are all on the same ones; of whole GPUs each has its own. */
size_t placement_gpus(const struct placement *placement, const struct gpu_share **ret_gpus);

/* placement_add_visible() - one more GPU that is seen; -EINVAL for a name that is none, -E2BIG, -ENOMEM. */
int placement_add_visible(struct placement *placement, const char *uuid);

/* container_share() - its share of this GPU; NULL if it is not on it. */
const struct gpu_share *container_share(const struct container_placement *container, const char *uuid);

/* placement_matches() - every container of the request is placed, with exactly what it asks for, and nobody
 * else; all on the same GPU, or on the same request_gpus() GPUs with an equal part on each. Of whole
 * GPUs: each on as many as it asks for, containers that run at the same time on different ones, on
 * request_gpus() together. What a hand-written or torn annotation fails. */
bool placement_matches(const struct placement *placement, const struct request *request);

/* placement_units_on() - what a pod with this placement, which matches its request, occupies on one GPU; 0
 * if it is not on that GPU. The parts of its effective request are equal: more than its main containers'
 * shares where an init container needs more. With one container it is what the placement says, equal or not.
 */
uint32_t placement_units_on(
	const struct placement *placement, const struct request *request, const char *uuid);

/* placement_core_on() - likewise the percentage of that GPU. */
uint32_t placement_core_on(
	const struct placement *placement, const struct request *request, const char *uuid);

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
	REJECT_LEVEL,	    /* it would fit, but its ResourcePolicy has another level for it, or none */
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
struct gpu_ledger;
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
