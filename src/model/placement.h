/* placement.h - which GPU each container of a pod has, as in the annotation ration.dev/placement. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

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
	uint32_t resizes;  /* how often the pod was resized since (resize.h) */
	struct container_placement *containers;
	size_t n_containers;
	/* For a pod of a job with whole GPUs: all GPUs of the job's pods on the node, including its own,
	 * which its containers see. Empty if it sees only its own. Not part of what it occupies. */
	char (*visible)[GPU_UUID_SIZE];
	size_t n_visible;
};

void placement_init(struct placement *placement);
void placement_release(struct placement *placement); /* accepts NULL */
#define _cleanup_placement_ _cleanup_(placement_release)
int placement_copy(const struct placement *from, struct placement *ret_placement);
bool placement_equal(const struct placement *a, const struct placement *b);

/* gpu_shares_add() - appends a share to a list. -EINVAL for an invalid name, -E2BIG over NODE_GPUS_MAX,
 * -ENOMEM. gpu_shares_equal() - the same shares in the same order. */
int gpu_shares_add(struct gpu_share **shares, size_t *n, const char *uuid, uint32_t units, uint32_t core);
bool gpu_shares_equal(const struct gpu_share *a, size_t n_a, const struct gpu_share *b, size_t n_b);

/* placement_add() - adds one share of one GPU for one container; the same container may be named again for
 * another GPU. */
int placement_add(
	struct placement *placement, const char *container, const char *uuid, uint32_t units, uint32_t core);

const struct container_placement *placement_find(const struct placement *placement, const char *container);

/* placement_gpus() - writes all its GPUs, each once, into ret_gpus, which has room for NODE_GPUS_MAX; returns
 * their number. Containers that share GPUs are all on the same ones; with whole GPUs, each has its own. */
size_t placement_gpus(const struct placement *placement, const struct gpu_share **ret_gpus);

/* placement_add_visible() - adds one more visible GPU; -EINVAL for an invalid name, -E2BIG, -ENOMEM. */
int placement_add_visible(struct placement *placement, const char *uuid);

/* container_share() - the container's share of this GPU; NULL if it is not on it. */
const struct gpu_share *container_share(const struct container_placement *container, const char *uuid);

/* container_placement_same_gpus() - whether both are on the same GPUs; the shares may differ. */
bool container_placement_same_gpus(const struct container_placement *a, const struct container_placement *b);

/* placement_matches() - each container of the request is placed with exactly what it asks for, and no other
 * container is. All are on the same GPU, or on the same request_gpus() GPUs with an equal part on each. With
 * whole GPUs, each container is on as many as it asks for, containers that run at the same time are on
 * different ones, and the total is request_gpus(). A placement that a user wrote, or a damaged annotation,
 * fails this check. */
bool placement_matches(const struct placement *placement, const struct request *request);

/* placement_units_on() - what a pod with this placement, which matches its request, occupies on one GPU; 0 if
 * it is not on that GPU. The parts of its effective request are equal. If an init container needs more, they
 * are larger than the shares of the main containers. For a pod with one container, the placement itself
 * counts, even if its parts are not equal. */
uint32_t placement_units_on(
	const struct placement *placement, const struct request *request, const char *uuid);

/* placement_core_on() - the percentage of that GPU, likewise. */
uint32_t placement_core_on(
	const struct placement *placement, const struct request *request, const char *uuid);
