#include "kube/node-template.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "base/error.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/node-mode.h"
#include "model/quantity.h"
#include "model/units.h"

#define TEMPLATE_GPU_MIB_MAX (INT64_C(4) * 1024 * 1024)

/* A quantity of node.status.allocatable, else of capacity; 0 if neither has it. */
static int status_count(struct json_object *node, const char *resource, int64_t *ret_count, struct error *err)
{
	struct json_object *status = json_member(node, "status");
	struct json_object *value = json_member(json_member(status, "allocatable"), resource);
	const char *text;

	if (!value)
		value = json_member(json_member(status, "capacity"), resource);
	*ret_count = 0;
	if (!value || json_whole(value, 0, INT64_MAX, ret_count) == 0)
		return 0;
	text = json_string(value);
	if (!text || quantity_parse_count(text, ret_count) < 0)
		return error_set(err, EINVAL, "%s in the node's status is not a whole number", resource);
	return 0;
}

/* A status has only sums, so all GPUs of a template are equal: gpu-mem / gpu-count units each. */
static int gpus_from_status(struct json_object *node, struct node_facts *facts, struct error *err)
{
	bool whole = facts->mode == GPU_MODE_TOPOLOGY;
	int64_t units = 0, gpus = 0;
	int r;

	r = status_count(node, whole ? RESOURCE_GPU : RESOURCE_GPU_MEM, &units, err);
	if (r == 0)
		r = whole ? 0 : status_count(node, RESOURCE_GPU_COUNT, &gpus, err);
	if (r < 0)
		return r;
	if (units == 0)
		return error_set(
			err, EINVAL, "the node's status has no %s", whole ? RESOURCE_GPU : RESOURCE_GPU_MEM);
	if (whole)
		gpus = units;
	if (gpus == 0)
		return error_set(err, EINVAL,
			"the node's status has " RESOURCE_GPU_MEM " without " RESOURCE_GPU_COUNT
			", so the size of one GPU is unknown; add it to the node template");
	if (gpus > NODE_GPUS_MAX)
		return error_set(err, EINVAL, "the node's status has %" PRId64 " GPUs, more than %d", gpus,
			NODE_GPUS_MAX);
	if (units / gpus == 0 || units / gpus > TEMPLATE_GPU_MIB_MAX / (int64_t)facts->unit_mib)
		return error_set(err, EINVAL,
			"the node's status has %" PRId64 " units of memory on %" PRId64
			" GPUs: one GPU must have from one unit to 4 TiB",
			units, gpus);
	for (int64_t i = 0; i < gpus; i++) {
		facts->gpus[i] = (struct gpu_facts){
			.index = (int)i, .mib = (uint64_t)(units / gpus) * facts->unit_mib, .healthy = true};
		snprintf(facts->gpus[i].uuid, sizeof(facts->gpus[i].uuid), "template-%d", (int)i);
	}
	facts->n_gpus = (size_t)gpus;
	return 0;
}

int node_template_complete(struct json_object *node, const struct node_template_rules *rules,
	struct node_facts *facts, struct error *err)
{
	struct json_object *metadata = json_member(node, "metadata");
	struct json_object *annotations = json_member(metadata, "annotations");
	int r = 0;

	if (!json_member(annotations, ANNOTATION_NODE_MODE)) {
		struct json_object *labels = json_member(metadata, "labels");
		const struct mode_labels values = {.schedule = json_member_string(labels, LABEL_SCHEDULE),
			.legacy_share = json_member_string(labels, LABEL_LEGACY_SHARE),
			.legacy_cgpu = json_member_string(labels, LABEL_LEGACY_CGPU)};
		struct mode mode;

		mode_from_labels(&values, "", &mode);
		facts->mode = mode.asked;
	}
	if (!json_member(annotations, ANNOTATION_NODE_UNIT) && rules->unit_mib &&
		rules->unit_mib <= UNIT_MIB_MAX)
		facts->unit_mib = rules->unit_mib;
	if (!json_member(annotations, ANNOTATION_NODE_GPUS))
		r = gpus_from_status(node, facts, err);
	held_release(&facts->held);
	facts->held_unreadable = false;
	facts->serving = true;
	facts->changing = false;
	for (size_t i = 0; i < facts->n_gpus; i++)
		facts->gpus[i].healthy = true;
	facts->instances_max = gpu_instances_max(facts->mode, facts->unit_mib, rules->max_pods_per_gpu);
	facts->mixing = rules->mixing;
	return r;
}
