/* allotment.h - what one container gets: its GPUs and the variables of the contract (section 3). Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "node/inventory.h"

struct error;
struct pod_facts;

#define ALLOTMENT_GPUS_MAX NODE_GPUS_MAX
#define ALLOTMENT_VARIABLES_MAX 8
#define ALLOTMENT_VALUE_SIZE (ALLOTMENT_GPUS_MAX * GPU_UUID_SIZE)

struct allotment_variable {
	const char *name;
	char value[ALLOTMENT_VALUE_SIZE];
};

struct allotment {
	const struct gpu *gpus[ALLOTMENT_GPUS_MAX]; /* that the container sees, its own first */
	size_t n_gpus, n_own;
	struct allotment_variable variables[ALLOTMENT_VARIABLES_MAX];
	size_t n_variables;
};

/* allotment_value() - of a variable, "" if it is not there. */
const char *allotment_value(const struct allotment *allotment, const char *name);

/* allotment_build() - from the pod's placement. we_inject: our own CDI file brings the driver into the
 * container; otherwise NVIDIA's runtime does, guided by NVIDIA_VISIBLE_DEVICES. On several GPUs the
 * container's units are those on each, and the GPU's units those of the largest: their quotient is then
 * within the container's share of any of them. Whole GPUs have no units; a container of a job sees those of
 * the job's other pods too, behind its own. -ENOENT with a sentence if the placement does not name the
 * container, or names a GPU that is not here. */
int allotment_build(const struct inventory *inventory, const struct pod_facts *pod, const char *container,
	bool we_inject, struct allotment *ret_grant, struct error *err);
