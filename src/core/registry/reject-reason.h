/* reject-reason.h - why a node or a GPU cannot serve a pod. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct request;

/* Why a node cannot serve a request. The texts are constant, because kube-scheduler requeues a pod whose
 * message changes (kube-scheduler-extender: own status patch wakes the pod). */
enum reject_reason {
	FITS,
	REJECT_NO_GPU_NODE, /* no inventory: the agent has not reported, or this is not a GPU node */
	REJECT_MODE,	    /* GPU sharing mode does not fit */
	REJECT_TOO_LARGE,   /* no GPU is that large */
	REJECT_FULL,	    /* no GPU has N units free */
	REJECT_NOT_SERVING, /* its agent has announced its end, or is no longer alive */
	REJECT_TOO_FEW,	    /* GPU node has fewer than M GPUs */
	REJECT_INSTANCES,   /* GPU has its maximum of containers */
	REJECT_CORE,	    /* no GPU has N percent of computing power free */
	REJECT_MIXED,	    /* GPU node has pods with, or without gpu-core.percentage */
	REJECT_UNIT,	    /* GPU memory unit differs */
	REJECT_CHANGING,    /* GPU node changes its mode (or unit) */
	REJECT_HELD,	    /* what its agent reports of orphans cannot be read */
	REJECT_POLICY_UNIT, /* it would fit, but its ResourcePolicy has another unit for it, or none */
	REJECT_MAX,
};

/* reject_reason_text() - writes the constant text for this request into buf (64 bytes are enough) and returns
 * buf. */
const char *reject_reason_text(
	enum reject_reason reject_reason, const struct request *request, char *buf, size_t size);

/* reject_reason_is_occupancy() - other pods are in the way, so an eviction may help. */
bool reject_reason_is_occupancy(int reject_reason);

/* Why a single GPU of a node that serves the request is not taken. */
enum gpu_reject_reason {
	GPU_FITS,
	GPU_UNHEALTHY,
	GPU_TOO_SMALL, /* too small even when it is empty */
	GPU_FULL,      /* not enough units free */
	GPU_CORE,      /* enough units, but not enough computing power */
	GPU_INSTANCES, /* enough of both, but its maximum of containers is reached */
	GPU_REJECT_MAX,
};
