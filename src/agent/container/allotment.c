#include "agent/container/allotment.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kube/names.h"
#include "model/units.h"

static char *allotment_add(struct allotment *allotment, const char *name)
{
	struct allotment_variable *variable = &allotment->variables[allotment->n_variables++];

	variable->name = name;
	variable->value[0] = '\0';
	return variable->value;
}

static void allotment_add_number(struct allotment *allotment, const char *name, unsigned int value)
{
	snprintf(allotment_add(allotment, name), ALLOTMENT_VALUE_SIZE, "%u", value);
}

/* Comma-separated over the GPUs. */
static void allotment_add_uuids(struct allotment *allotment, const char *name)
{
	char *value = allotment_add(allotment, name);
	size_t len = 0;

	for (size_t i = 0; i < allotment->n_gpus; i++)
		len += (size_t)snprintf(value + len, ALLOTMENT_VALUE_SIZE - len, "%s%s", i ? "," : "",
			allotment->gpus[i]->facts.uuid);
}

static int allotment_find_gpus(const struct inventory *inventory, const struct pod_facts *pod,
	const struct container_placement *placed, struct allotment *allotment, struct error *err)
{
	for (size_t i = 0; i < placed->n_gpus; i++) {
		const struct gpu *gpu = inventory_find(inventory, placed->gpus[i].uuid);

		if (!gpu || allotment->n_gpus == ALLOTMENT_GPUS_MAX)
			return error_set(err, ENOENT,
				"pod %s/%s was placed on GPU %s, which is not on this node (any more): delete the pod, so that it is placed anew",
				pod->namespace_, pod->name, placed->gpus[i].uuid);
		allotment->gpus[allotment->n_gpus++] = gpu;
	}
	if (!allotment->n_gpus)
		return error_set(err, ENOENT, "pod %s/%s: the placement gives container %s no GPU",
			pod->namespace_, pod->name, placed->name);
	return 0;
}

static bool sees(const struct allotment *allotment, const struct gpu *gpu)
{
	for (size_t i = 0; i < allotment->n_gpus; i++)
		if (allotment->gpus[i] == gpu)
			return true;
	return false;
}

/* In the unit of the pod, which is the node's while it is there. */
static unsigned int units_of_largest(const struct allotment *allotment, uint32_t unit_mib)
{
	unsigned int units = 0;

	for (size_t i = 0; i < allotment->n_gpus; i++)
		if (units_of_gpu(allotment->gpus[i]->facts.mib, unit_mib) > units)
			units = units_of_gpu(allotment->gpus[i]->facts.mib, unit_mib);
	return units;
}

static void add_units(
	struct allotment *allotment, const struct pod_facts *pod, const struct container_placement *placed)
{
	char *value;
	size_t len = 0;

	allotment_add_number(allotment, ENV_MEM_CONTAINER, placed->gpus[0].units);
	allotment_add_number(allotment, ENV_MEM_DEV, units_of_largest(allotment, pod->placement.unit_mib));
	value = allotment_add(allotment, ENV_MEM_IDX);
	for (size_t i = 0; i < allotment->n_gpus; i++)
		len += (size_t)snprintf(value + len, ALLOTMENT_VALUE_SIZE - len, "%s%d", i ? "," : "",
			allotment->gpus[i]->facts.index);
	allotment_add_number(allotment, ENV_MEM_POD, pod->request.units);
}

const char *allotment_value(const struct allotment *allotment, const char *name)
{
	for (size_t i = 0; i < allotment->n_variables; i++)
		if (strcmp(allotment->variables[i].name, name) == 0)
			return allotment->variables[i].value;
	return "";
}

int allotment_build(const struct inventory *inventory, const struct pod_facts *pod, const char *container,
	bool we_inject, struct allotment *ret_grant, struct error *err)
{
	const struct container_placement *placed = pod->has_placement
							   ? placement_find(&pod->placement, container)
							   : NULL;
	int r;

	if (!placed)
		return error_set(err, ENOENT, "pod %s/%s has no placement for container %s", pod->namespace_,
			pod->name, container);
	ret_grant->n_gpus = ret_grant->n_own = ret_grant->n_variables = 0;
	r = allotment_find_gpus(inventory, pod, placed, ret_grant, err);
	if (r < 0)
		return r;
	ret_grant->n_own = ret_grant->n_gpus;
	if (pod->request.whole) {
		/* One that is gone meanwhile is not worth more than the job's own GPUs. */
		for (size_t i = 0; i < pod->placement.n_visible; i++) {
			const struct gpu *gpu = inventory_find(inventory, pod->placement.visible[i]);

			if (gpu && !sees(ret_grant, gpu) && ret_grant->n_gpus < ALLOTMENT_GPUS_MAX)
				ret_grant->gpus[ret_grant->n_gpus++] = gpu;
		}
	} else {
		add_units(ret_grant, pod, placed);
	}
	/* CUDA counts devices in this order: a program that takes the first ones takes its own. */
	if (ret_grant->n_gpus > ret_grant->n_own)
		allotment_add_uuids(ret_grant, ENV_CUDA_VISIBLE);
	if (we_inject) {
		/* An NVIDIA runtime that acts on a UUID would mount its own driver over ours. */
		strcpy(allotment_add(ret_grant, ENV_NVIDIA_VISIBLE), "void");
		allotment_add_uuids(ret_grant, ENV_ALIYUN_VISIBLE);
	} else {
		allotment_add_uuids(ret_grant, ENV_NVIDIA_VISIBLE);
	}
	return 0;
}
