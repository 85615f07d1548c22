/* request.h - what a pod asks for, computed from its spec as Kubernetes computes effective requests
 * (max over init steps of that step plus the sidecars started before it; then all sidecars and main
 * containers). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

/* request.unit_mib of a pod whose stamp says no number: no node has it. */
#define UNIT_MIB_NONE UINT32_MAX

#define REQUEST_CONTAINERS_MAX 256
#define CORE_PER_GPU 100
#define REQUEST_GPUS_MAX 64 /* more than any node has (NODE_GPUS_MAX) */
/* Containers x GPUs of a pod: its placement must fit into an annotation. */
#define REQUEST_SHARES_MAX 512

enum container_kind {
	CONTAINER_INIT,	   /* runs to completion before the next starts */
	CONTAINER_SIDECAR, /* init container with restartPolicy Always */
	CONTAINER_MAIN,
};

struct container_request {
	char *name;
	enum container_kind kind;
	int index;	/* in its own list of the spec: containers, or initContainers */
	uint32_t units; /* gpu-mem that it has: what it asks for until it is resized; at most UNITS_MAX */
	uint32_t asked; /* what its spec says, and the kubelet counts */
	uint32_t core;	/* gpu-core.percentage, 0 if not asked */
};

struct request {
	struct container_request *containers; /* only those that ask; init containers first, in spec order */
	size_t n_containers;
	uint32_t units; /* what the pod occupies, on all its GPUs together */
	uint32_t asked; /* likewise by its spec: so many device ids the kubelet gives it */
	uint32_t core;
	uint32_t instances; /* GPU containers that may run at the same time */
	uint32_t gpus;	    /* GPUs of one node, each with an equal part; 0 is 1: see request_gpus() */
	uint32_t unit_mib;  /* in which its units count (ration.dev/unit); 0: in its node's */
	/* Whole GPUs (aliyun.com/gpu): units are GPUs, and each container has GPUs of its own; init
	 * containers have those of the containers after them. */
	bool whole;
	/* Of whole GPUs: the job whose pods want GPUs near each other's, "namespace/name", NULL for none;
	 * of how many pods it says it is, this one included. */
	char *group;
	uint32_t group_pods;
};

void request_init(struct request *request);
void request_release(struct request *request); /* accepts NULL */
#define _cleanup_request_ _cleanup_(request_release)
int request_copy(const struct request *from, struct request *ret_request);

/* request_add() - one container, in spec order, init containers first. The quantities are the strings of
 * resources.limits, NULL when absent. A container that asks for nothing ("0" included) is not added.
 * On failure the request is unchanged and err names container, resource, value and rule. */
int request_add(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu_mem, const char *gpu_core, struct error *err);

/* request_add_bound() - a container of a pod that is on its node: what it asks for is taken, and nobody can
 * refuse it any more. A percentage that request_add() refuses ("7", "150", one without gpu-mem) counts as the
 * next multiple of 5, also beyond a whole GPU: so many device ids the kubelet has given it, or more. A
 * container without gpu-mem has 0 units. Fails as request_add() does for everything else. */
int request_add_bound(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu_mem, const char *gpu_core, struct error *err);

/* request_add_whole() - a container that asks for whole GPUs, in spec order; gpu is the string of
 * resources.limits. Errors as request_add(), and -EINVAL for a pod that asks for both kinds; -E2BIG for more
 * GPUs of all containers together than a placement has room for. */
int request_add_whole(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu, struct error *err);

/* request_set_group() - the pod is one of `pods` of a job. -ENOMEM. */
int request_set_group(struct request *request, const char *namespace_, const char *job, uint32_t pods);

/* request_first_gpu() - of a pod of whole GPUs: which of the pod's GPUs is the first one of this container
 * (a position in request->containers), which has the following ones. Sidecars come first, then the
 * containers; an init container has those that no sidecar before it has. */
uint32_t request_first_gpu(const struct request *request, size_t container);

/* request_set_gpus() - the pod wants its units in equal parts on this many GPUs. All its containers are on
 * all of them. After the last request_add(). -EINVAL with a sentence if a container's units do not divide, or
 * one asks for computing power too (memory only, ack-facts 4.1); -E2BIG for too many containers; the request
 * is unchanged then. 1 is as if it was never called.
 *
 * request_parse_gpus() - the same from the value of the pod's label: 1 to 64, nothing but digits. */
int request_set_gpus(struct request *request, uint32_t gpus, struct error *err);
int request_parse_gpus(struct request *request, const char *label, struct error *err);

/* request_gpus() - 1 unless set otherwise. request_units_per_gpu() - what the pod occupies on each. */
uint32_t request_gpus(const struct request *request);
uint32_t request_units_per_gpu(const struct request *request);

/* request_recompute() - the sums, after units of containers were changed. */
void request_recompute(struct request *request);

/* request_is_empty() - the pod asks for no GPU of ours. */
bool request_is_empty(const struct request *request);

const struct container_request *request_find(const struct request *request, const char *container);
