/* request.h - what a pod asks for, computed from its spec as Kubernetes computes effective requests. These
 * are the maximum over init steps of that step plus the sidecars started before it, then all sidecars and
 * main containers together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

/* request.unit_mib of a pod whose stamp is not a number: no node has this unit. */
#define UNIT_MIB_NONE UINT32_MAX

#define REQUEST_CONTAINERS_MAX 256
#define CORE_PER_GPU 100
#define REQUEST_GPUS_MAX 64 /* more than any node has (NODE_GPUS_MAX) */
/* Containers x GPUs of a pod: its placement must fit into an annotation. */
#define REQUEST_SHARES_MAX 512

enum container_kind {
	CONTAINER_INIT,	   /* ends before the next container starts */
	CONTAINER_SIDECAR, /* init container with restartPolicy Always */
	CONTAINER_MAIN,
};

struct container_request {
	char *name;
	enum container_kind kind;
	int index;	/* in its own list of the spec: containers or initContainers */
	uint32_t units; /* the gpu-mem that it has: `asked` until it is resized; at most UNITS_MAX */
	uint32_t asked; /* the gpu-mem in its spec, which the kubelet counts */
	uint32_t core;	/* gpu-core.percentage; 0: not set */
};

struct request {
	struct container_request
		*containers; /* only containers that ask for a GPU; init containers first, in spec order */
	size_t n_containers;
	uint32_t units; /* what the pod occupies, over all its GPUs */
	uint32_t asked; /* the same by its spec: the kubelet gives it this many device ids */
	uint32_t core;
	uint32_t instances; /* GPU containers that may run at the same time */
	uint32_t gpus;	    /* GPUs of one node, each with an equal part; 0 means 1: see request_gpus() */
	uint32_t unit_mib;  /* the unit of its units (ration.dev/unit); 0: its node's */
	/* For whole GPUs (aliyun.com/gpu): units are GPUs, and each container has GPUs of its own. Init
	 * containers use those of the containers after them. */
	bool whole;
	/* For whole GPUs: the job whose pods want GPUs near each other's, "namespace/name", NULL for none;
	 * and its number of pods by its label, including this one. */
	char *group;
	uint32_t group_pods;
};

void request_init(struct request *request);
void request_release(struct request *request); /* accepts NULL */
#define _cleanup_request_ _cleanup_(request_release)
int request_copy(const struct request *from, struct request *ret_request);

/* request_add() - adds one container, in spec order, init containers first. The quantities are the strings of
 * resources.limits, NULL if absent. A container that asks for nothing ("0" included) is not added. On failure
 * the request is unchanged, and err names container, resource, value and rule. */
int request_add(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu_mem, const char *gpu_core, struct error *err);

/* request_add_bound() - adds a container of a pod that is on its node: it has what it asks for, and it is too
 * late to refuse it. A percentage that request_add() refuses ("7", "150", one without gpu-mem) counts as the
 * next multiple of 5, even beyond a whole GPU. That is at least the number of device ids that the kubelet has
 * given it. A container without gpu-mem has 0 units. Other failures are those of request_add(). */
int request_add_bound(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu_mem, const char *gpu_core, struct error *err);

/* request_add_whole() - adds a container that asks for whole GPUs, in spec order; gpu is the string of
 * resources.limits. Errors as request_add(); also -EINVAL for a pod that asks for both kinds, and -E2BIG if
 * all containers together have more GPUs than a placement has room for. */
int request_add_whole(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu, struct error *err);

/* request_set_group() - the pod is one of `pods` of a job. -ENOMEM. */
int request_set_group(struct request *request, const char *namespace_, const char *job, uint32_t pods);

/* request_first_gpu() - for a pod with whole GPUs: which of the pod's GPUs is the first one of this container
 * (a position in request->containers); the container also has the following ones. Sidecars come first, then
 * the containers. An init container has those that no sidecar before it has. */
uint32_t request_first_gpu(const struct request *request, size_t container);

/* request_set_gpus() - the pod wants its units in equal parts on this many GPUs, and all its containers are
 * on all of them. Call after the last request_add(). -EINVAL with a sentence if a container's units cannot be
 * divided, or if one asks for computing power too (memory only, ack-facts 4.1); -E2BIG for too many
 * containers. The request is unchanged then. 1 has no effect.
 *
 * request_parse_gpus() - the same for the value of the pod's label: 1 to 64, digits only. */
int request_set_gpus(struct request *request, uint32_t gpus, struct error *err);
int request_parse_gpus(struct request *request, const char *label, struct error *err);

/* request_gpus() - 1 unless it was set. request_units_per_gpu() - what the pod occupies on each GPU. */
static inline uint32_t request_gpus(const struct request *request)
{
	return request->gpus ? request->gpus : 1;
}

static inline uint32_t request_units_per_gpu(const struct request *request)
{
	return request->units / request_gpus(request);
}

/* request_recompute() - computes the sums again after the units of containers changed. */
void request_recompute(struct request *request);

/* request_is_empty() - the pod asks for no GPU of ration. */
bool request_is_empty(const struct request *request);

const struct container_request *request_find(const struct request *request, const char *container);
