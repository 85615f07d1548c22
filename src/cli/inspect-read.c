/* Reads nodes, pods and claims through kubectl into the structs of inspect.h. */
#include "cli/inspect.h"

#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "cli/claims.h"
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "model/quantity.h"
#include "model/units.h"

#define ALLOCATION_TEXT_MAX 65536

/* The objects of a list go into `inspect`. */
struct reading {
	struct inspect *inspect;
	struct warnings *warnings;
};

static int64_t allocatable(struct json_object *node, const char *resource)
{
	struct json_object *list = json_member(json_member(node, "status"), "allocatable");
	const char *text = json_member_string(list, resource);
	int64_t value;

	if (!text)
		return 0;
	switch (quantity_parse_count(text, &value)) {
	case 0:
		return value;
	case -ERANGE:
		return INT64_MAX;
	default:
		return 0;
	}
}

static int read_node(void *userdata, struct json_object *item, struct error *err)
{
	struct reading *reading = userdata;
	_cleanup_node_facts_ struct node_facts facts;
	struct node_capacity capacity = {.gpu_mem = allocatable(item, RESOURCE_GPU_MEM),
		.gpu_count = allocatable(item, RESOURCE_GPU_COUNT),
		.unschedulable = json_object_get_boolean(
			json_member(json_member(item, "spec"), "unschedulable"))};
	struct error reason;
	int r;

	node_facts_init(&facts);
	r = node_facts_from_json(item, &facts, &reason);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (*reason.text)
		list_warn(reading->warnings, reason.text);
	if (r < 0)
		return 0;
	if (inspect_add_node(reading->inspect, &facts, &capacity) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* {"0":{"1":3}}: container 0 has 3 units of GPU 1. Returns false if the text has another form. */
static bool add_older_container(struct json_object *gpus, struct older_placement *older)
{
	if (!json_object_is_type(gpus, json_type_object))
		return false;
	json_object_object_foreach (gpus, index_text, value) {
		uint32_t index;
		int64_t units;

		if (parse_u32(index_text, NODE_GPUS_MAX - 1, &index) < 0 ||
			json_whole(value, 0, UNITS_MAX, &units) < 0)
			return false;
		older->units[index] = units_add(older->units[index], (uint32_t)units);
	}
	return true;
}

static bool older_from_allocation(const char *text, struct older_placement *ret_older)
{
	_cleanup_json_ struct json_object *containers = NULL;
	struct older_placement older = {0};

	if (strlen(text) > ALLOCATION_TEXT_MAX || json_parse(text, strlen(text), &containers, NULL) < 0 ||
		!json_object_is_type(containers, json_type_object) || !json_object_object_length(containers))
		return false;
	json_object_object_foreach (containers, container, gpus) {
		(void)container;
		if (!add_older_container(gpus, &older))
			return false;
	}
	*ret_older = older;
	return true;
}

static bool older_from_index(
	const char *text, const struct request *request, struct older_placement *ret_older)
{
	uint32_t index;

	if (parse_u32(text, NODE_GPUS_MAX - 1, &index) < 0)
		return false;
	*ret_older = (struct older_placement){0};
	ret_older->units[index] = request->units;
	return true;
}

/* Reads the annotations of other tools. If the pod has a ration.dev/placement, they do not count. */
static bool read_older(
	struct json_object *pod, const struct request *request, struct older_placement *ret_older)
{
	struct json_object *annotations = json_member(json_member(pod, "metadata"), "annotations");
	const char *allocation = json_member_string(annotations, ANNOTATION_ALLOCATION);
	const char *index = json_member_string(annotations, ANNOTATION_MEM_IDX);

	if (json_member(annotations, ANNOTATION_PLACEMENT))
		return false;
	if (allocation && older_from_allocation(allocation, ret_older))
		return true;
	return index && older_from_index(index, request, ret_older);
}

static int read_pod(void *userdata, struct json_object *item, struct error *err)
{
	struct reading *reading = userdata;
	_cleanup_pod_facts_ struct pod_facts facts;
	struct older_placement older;
	struct error reason;
	bool has_older;
	int r;

	pod_facts_init(&facts);
	r = pod_facts_from_json(item, &facts, &reason);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (*reason.text)
		list_warn(reading->warnings, reason.text);
	/* An invalid pod matters only if it occupies something: one with an invalid label for several GPUs
	 * still occupies its units. */
	if (r < 0 && request_is_empty(&facts.request))
		return 0;
	has_older = read_older(item, &facts.request, &older);
	if (inspect_add_pod(reading->inspect, &facts, has_older ? &older : NULL) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* Members of nodes and pods that are not needed; they are most of the text. */
static const char *const unwanted[] = {"managedFields", "images", "conditions", "nodeInfo", "env", "envFrom",
	"command", "args", "volumes", "volumeMounts", "volumesAttached", "volumesInUse", "tolerations",
	"affinity", "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
	"securityContext", "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses", NULL};
#define UNWANTED_DEPTH_MAX 4 /* item, spec, containers, container */

static int fetch_node(
	struct reading *reading, const struct kubectl *kubectl, const char *node, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_strbuf_ struct strbuf url, body;
	int r;

	strbuf_init(&url, 4096);
	strbuf_init(&body, ITEM_MAX);
	strbuf_adds(&url, "/api/v1/nodes/");
	url_add_escaped(&url, node);
	r = kubectl_get_raw(kubectl, strbuf_cstr(&url), &body, err);
	if (r < 0)
		return r;
	r = json_parse(strbuf_cstr(&body), body.len, &object, err);
	if (r < 0)
		error_prefix(err, "the API server's answer cannot be read");
	return r < 0 ? r : read_node(reading, object, err);
}

static int fetch_nodes(struct reading *reading, const struct kubectl *kubectl, struct error *err)
{
	const struct list_reader reader = {
		.kind = "NodeList",
		/* The text is part of ration's annotations and resources: a node without it has nothing to
		   show. */
		.sign = "gpu",
		.read = read_node,
		.userdata = reading,
		.warnings = reading->warnings,
		.unwanted = unwanted,
		.unwanted_depth_max = UNWANTED_DEPTH_MAX,
	};

	return list_read(kubectl, "/api/v1/nodes", NULL, &reader, err);
}

/* In many clusters most pods have finished; the selector makes the API server leave them out. */
static int fetch_pods(
	struct reading *reading, const struct kubectl *kubectl, const char *node, struct error *err)
{
	const struct list_reader reader = {
		.kind = "PodList",
		.sign = reading->inspect->everything ? "\"" RESOURCE_GPU
			: reading->inspect->topology ? "\"" RESOURCE_GPU "\""
						     : RESOURCE_GPU_MEM,
		.read = read_pod,
		.userdata = reading,
		.warnings = reading->warnings,
		.unwanted = unwanted,
		.unwanted_depth_max = UNWANTED_DEPTH_MAX,
	};
	_cleanup_strbuf_ struct strbuf selector;

	strbuf_init(&selector, 4096);
	strbuf_adds(&selector, "status.phase!=Succeeded,status.phase!=Failed");
	if (!reading->inspect->everything)
		strbuf_addf(&selector, ",spec.nodeName%s%s", node ? "=" : "!=", node ? node : "");
	return list_read(kubectl, "/api/v1/pods", strbuf_cstr(&selector), &reader, err);
}

/* Without such a node, no claim can have a GPU of ration, and the API of claims may not exist. */
static bool gives_gpus_to_claims(const struct inspect *inspect)
{
	for (size_t i = 0; i < inspect->n_nodes; i++)
		if (inspect->nodes[i]->mode == GPU_MODE_DRA)
			return true;
	return false;
}

static int fetch_claims(
	struct reading *reading, const struct kubectl *kubectl, const char *node, struct error *err)
{
	_cleanup_claims_ struct claims claims;
	int r;

	claims_init(&claims);
	r = claims_fetch(&claims, kubectl, node, reading->warnings, err);
	if (r == 0 && inspect_add_claims(reading->inspect, &claims) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return r == 0 && reading->inspect->everything
		       ? inspect_fetch_waiting(reading->inspect, kubectl, reading->warnings, err)
		       : r;
}

int inspect_fetch(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err)
{
	struct reading reading = {.inspect = inspect, .warnings = warnings};
	int r = node ? fetch_node(&reading, kubectl, node, err) : fetch_nodes(&reading, kubectl, err);

	if (r == 0)
		r = fetch_pods(&reading, kubectl, node, err);
	if (r == 0 && gives_gpus_to_claims(inspect))
		r = fetch_claims(&reading, kubectl, node, err);
	if (r == 0 && inspect_finish(inspect) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return r;
}
