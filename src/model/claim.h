/* claim.h - a ResourceClaim (resource.k8s.io/v1), as far as ration uses it: the devices that are allocated to
 * it, and the pods that may use them. kube/claim.h reads it from JSON. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/shares.h"

/* The API server has the same limits (resource/v1 types.go of Kubernetes 1.36). */
#define CLAIM_RESULTS_MAX 32
#define CLAIM_PODS_MAX 256
#define CLAIM_CONFIGS_MAX 64 /* 32 of classes and 32 of the claim */
#define CLAIM_CONFIG_REQUESTS_MAX 32
#define CLAIM_PARAMETERS_MAX (10 * 1024)

/* Sizes of names, with the NUL. */
#define CLAIM_UID_SIZE 64
#define CLAIM_NAME_SIZE 254    /* a DNS subdomain: objects, pools */
#define CLAIM_LABEL_SIZE 64    /* a DNS label: namespaces, devices; and the names of drivers */
#define CLAIM_REQUEST_SIZE 128 /* "request" or "request/subrequest" */

#define CLAIM_MEMORY_MAX (UINT64_C(1) << 50) /* bytes; no GPU has 1 PiB */

/* On a node, a claim is kept like a pod of one container with this name. Metrics show it as the container. */
#define CLAIM_CONTAINER "claim"

/* One allocated device. The same device may be allocated more than once, with different share ids. */
struct claim_result {
	char request[CLAIM_REQUEST_SIZE];
	char driver[CLAIM_LABEL_SIZE];
	char pool[CLAIM_NAME_SIZE];
	char device[CLAIM_LABEL_SIZE];
	char share_id[CLAIM_UID_SIZE]; /* "" if the device is allocated as a whole */
	bool ours;		       /* the driver is ration's; the capacities of others are not read */
	bool admin_access;	       /* it sees the device, and consumes nothing */
	uint64_t memory;	       /* bytes; above 0, or 0 with admin access */
	uint32_t cores;		       /* percent of the GPU's computing power; 0: none was asked for */
};

/* GpuConfig of ration.dev/v1, the parameters of one request. */
struct gpu_config {
	bool has_policy;
	enum share_policy policy;
	uint32_t weight;    /* 0: not set */
	bool allow_disable; /* CGPU_DISABLE of the containers counts; only a DeviceClass can set it */
};

struct claim_config {
	bool from_class; /* of a DeviceClass, else of the claim itself */
	char (*requests)[CLAIM_REQUEST_SIZE];
	size_t n_requests; /* 0: it is for all requests */
	bool has_allow_disable;
	struct gpu_config values;
};

/* A pod for which the claim is reserved. */
struct claim_pod {
	char name[CLAIM_NAME_SIZE];
	char uid[CLAIM_UID_SIZE];
};

struct claim {
	char uid[CLAIM_UID_SIZE];
	char namespace_[CLAIM_LABEL_SIZE];
	char name[CLAIM_NAME_SIZE];
	bool deleting;	/* deletionTimestamp is set */
	bool allocated; /* status.allocation is set */
	struct claim_result *results;
	size_t n_results;
	struct claim_pod *pods;
	size_t n_pods;
	size_t n_other_consumers;     /* consumers of the claim that are not pods */
	struct claim_config *configs; /* only those for ration's driver */
	size_t n_configs;
};

void claim_init(struct claim *claim);
void claim_release(struct claim *claim); /* accepts NULL */
#define _cleanup_claim_ _cleanup_(claim_release)

/* claim_config_of() - the parameters of this result. Those of the claim override those of the DeviceClass. If
 * two of one source set the same field, the later one counts. */
struct gpu_config claim_config_of(const struct claim *claim, const struct claim_result *result);

/* claim_is_reserved_for() - whether the pod with this uid may use the claim. */
bool claim_is_reserved_for(const struct claim *claim, const char *pod_uid);
