#include "kube/pod.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "core/registry/resize.h"
#include "kube/annotations.h"
#include "kube/gang.h"
#include "kube/gpu-models.h"
#include "kube/host.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/object-name.h"
#include "model/units.h"

/* Names of Kubernetes objects are DNS subdomains (253), uids are 36 characters. */
#define NAME_LEN_MAX 253
#define RESIZE_TEXT_MAX 16384

/* A name that is absent, not a string or too long is read as "". */
static int copy_name(struct json_object *object, const char *key, char **ret_name)
{
	const char *text = json_member_string(object, key);
	char *copy = strdup(text && strlen(text) <= NAME_LEN_MAX ? text : "");

	if (!copy)
		return -ENOMEM;
	*ret_name = copy;
	return 0;
}

static struct json_object *controller_reference(struct json_object *metadata)
{
	struct json_object *references = json_member(metadata, "ownerReferences");

	if (!json_object_is_type(references, json_type_array))
		return NULL;
	for (size_t i = 0; i < json_object_array_length(references); i++) {
		struct json_object *reference = json_object_array_get_idx(references, i);
		struct json_object *controller = json_member(reference, "controller");

		if (json_object_is_type(controller, json_type_boolean) && json_object_get_boolean(controller))
			return reference;
	}
	return NULL;
}

static int read_names(struct json_object *pod, struct pod_facts *facts)
{
	struct json_object *metadata = json_member(pod, "metadata");

	if (copy_name(metadata, "uid", &facts->uid) < 0 || copy_name(metadata, "name", &facts->name) < 0 ||
		copy_name(metadata, "namespace", &facts->namespace_) < 0 ||
		copy_name(controller_reference(metadata), "uid", &facts->owner) < 0 ||
		copy_name(json_member(pod, "spec"), "nodeName", &facts->node) < 0)
		return -ENOMEM;
	return 0;
}

/* A Deployment names its ReplicaSets NAME-HASH, and their pods have the label pod-template-hash. */
static size_t deployment_name_len(const char *name, const char *hash)
{
	size_t len = strlen(name), end = hash ? strlen(hash) : 0;

	return end && len > end + 1 && name[len - end - 1] == '-' && strcmp(name + len - end, hash) == 0
		       ? len - end - 1
		       : 0;
}

char *pod_owner_name(struct json_object *pod)
{
	struct json_object *metadata = json_member(pod, "metadata");
	struct json_object *owner = controller_reference(metadata);
	const char *kind = json_member_string(owner, "kind"), *name = json_member_string(owner, "name");
	const char *hash = json_member_string(json_member(metadata, "labels"), "pod-template-hash");
	char *text = NULL;
	size_t len;

	if (!kind || !name || strlen(kind) > NAME_LEN_MAX || strlen(name) > NAME_LEN_MAX)
		return NULL;
	len = strcmp(kind, "ReplicaSet") == 0 ? deployment_name_len(name, hash) : 0;
	return asprintf(&text, "%s/%.*s", len ? "Deployment" : kind, (int)(len ? len : strlen(name)), name) <
			       0
		       ? NULL
		       : text;
}

static bool has_unterminated(struct json_object *statuses)
{
	if (!json_object_is_type(statuses, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(statuses); i++)
		if (!json_member(json_member(json_object_array_get_idx(statuses, i), "state"), "terminated"))
			return true;
	return false;
}

/* The kubelet shows containers as waiting before it creates them, so from then on they may run. If the agent
 * reported first that it gave the devices, they may run from that time on. A container that is about to be
 * started again is shown as terminated for a second, but in a pod whose phase is Running (getPhase() in
 * kubelet_pods.go, 1.36.3). */
static bool has_running(struct json_object *status, bool assigned)
{
	struct json_object *containers = json_member(status, "containerStatuses");
	struct json_object *init = json_member(status, "initContainerStatuses");

	if (!containers && !init)
		return assigned;
	return has_unterminated(containers) || has_unterminated(init) ||
	       json_member_is(status, "phase", "Running");
}

/* "2026-01-31T12:00:00Z", as metav1.Time writes it; 0 for anything else. */
/* Labels have at most 253 + 1 + 63 and 63 characters each, none of them '=' or a line end, and the API server
 * checks that. A larger set than any pod has is read as none. Budgets then do not match here, but they still
 * match in the API server. */
#define LABELS_TEXT_MAX (64 << 10)

static int read_labels(struct json_object *metadata, struct pod_facts *facts)
{
	_cleanup_strbuf_ struct strbuf text;
	struct json_object *labels = json_member(metadata, "labels");

	strbuf_init(&text, LABELS_TEXT_MAX);
	if (!json_object_is_type(labels, json_type_object) || json_object_object_length(labels) == 0)
		return 0;
	json_object_object_foreach (labels, key, value)
		strbuf_addf(&text, "%s=%s\n", key, json_string(value) ? json_string(value) : "");
	if (text.failed == -EMSGSIZE)
		return 0;
	facts->labels = strbuf_take(&text);
	return facts->labels ? 0 : -ENOMEM;
}

/* Reads what preemption needs. */
static int read_standing(struct json_object *pod, struct pod_facts *facts)
{
	struct json_object *metadata = json_member(pod, "metadata"), *status = json_member(pod, "status");
	const char *nominated = json_member_string(status, "nominatedNodeName");

	facts->never_preempts = json_member_is(json_member(pod, "spec"), "preemptionPolicy", "Never");
	facts->mirror = json_member(json_member(metadata, "annotations"), ANNOTATION_MIRROR) != NULL;
	facts->started = json_time_of(status, "startTime");
	if (nominated && *nominated && copy_name(status, "nominatedNodeName", &facts->nominated_node) < 0)
		return -ENOMEM;
	return 0;
}

/* An invalid text must also be answered: it is kept up to the length that a valid one may have. */
static int read_resize(struct json_object *pod, struct pod_facts *facts)
{
	struct json_object *wanted = json_member(
		json_member(json_member(pod, "metadata"), "annotations"), ANNOTATION_RESIZE);
	const char *text = json_string(wanted);

	if (!wanted)
		return 0;
	facts->resize = strndup(text ? text : "", RESIZE_TEXT_MAX);
	return facts->resize ? 0 : -ENOMEM;
}

static void read_state(struct json_object *pod, struct pod_facts *facts)
{
	struct json_object *metadata = json_member(pod, "metadata");
	const char *phase = json_member_string(json_member(pod, "status"), "phase");
	const char *assigned = json_member_string(
		json_member(metadata, "annotations"), ANNOTATION_MEM_ASSIGNED);
	int64_t priority;

	if (json_whole(json_member(json_member(pod, "spec"), "priority"), INT32_MIN, INT32_MAX, &priority) ==
		0)
		facts->priority = (int32_t)priority;
	facts->succeeded = phase && strcmp(phase, "Succeeded") == 0;
	facts->finished = facts->succeeded || (phase && strcmp(phase, "Failed") == 0);
	facts->pending = phase && strcmp(phase, "Pending") == 0;
	facts->deleting = json_member(metadata, "deletionTimestamp") != NULL;
	facts->assigned = assigned && strcmp(assigned, "true") == 0;
	facts->running = has_running(json_member(pod, "status"), facts->assigned);
}

/* The quantity of one resource as text: users write a string or a bare number, and both arrive (json-c keeps
 * the digits of a number). NULL: not set. */
static int read_quantity(struct json_object *limits, const char *resource, const char *container,
	const char **ret_text, struct error *err)
{
	struct json_object *value = json_member(limits, resource);
	const char *text = NULL;

	if (json_object_is_type(value, json_type_string))
		text = json_string(value);
	else if (json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double))
		text = json_object_get_string(value);
	if (value && !text)
		return error_set(err, EINVAL, "container %s: %s is neither a number nor a quantity",
			container, resource);
	*ret_text = text;
	return 0;
}

static enum container_kind kind_of(struct json_object *container, bool init)
{
	if (!init)
		return CONTAINER_MAIN;
	return json_member_is(container, "restartPolicy", "Always") ? CONTAINER_SIDECAR : CONTAINER_INIT;
}

/* A percentage of "0" asks for nothing; another percentage must be at least 5 (contract 1). For a bound pod
 * only what it has matters. */
static int check_core(
	const char *name, const char *core, bool bound, const struct request *request, struct error *err)
{
	const struct container_request *asked = request_find(request, name);

	if (!core || bound || (asked && asked->core))
		return 0;
	return error_set(err, EINVAL,
		"container \"%s\": " RESOURCE_GPU_CORE " is %.40s: must be a multiple of 5 between 5 and 100",
		name, core);
}

/* There is no device plugin for this resource, so the kubelet would start the container without a GPU. */
static int check_count(struct json_object *limits, const char *name, bool bound, struct error *err)
{
	struct json_object *value = json_member(limits, RESOURCE_GPU_COUNT);

	if (!value || bound)
		return 0;
	return error_set(err, EINVAL,
		"container \"%s\": " RESOURCE_GPU_COUNT
		" is %.40s: no container can ask for it: ask for " RESOURCE_GPU_MEM
		", and for several GPUs set the label " LABEL_GPU_COUNT " of the pod",
		name, json_object_get_string(value));
}

/* Whole GPUs. */
static int read_whole(struct json_object *limits, const char *name, enum container_kind kind, int index,
	struct request *request, struct error *err)
{
	const char *gpu;
	int r = read_quantity(limits, RESOURCE_GPU, name, &gpu, err);

	return r < 0 || !gpu ? r : request_add_whole(request, name, kind, index, gpu, err);
}

/* Returns 1 if the percentage is invalid, with a sentence in err. Then as much of it counts as the kubelet
 * gives. */
static int read_container(struct json_object *container, bool init, size_t index, bool bound,
	struct request *request, struct error *err)
{
	struct json_object *limits = json_member(json_member(container, "resources"), "limits");
	const char *name = json_member_string(container, "name");
	const char *mem, *core;
	int r;

	if (!json_member(limits, RESOURCE_GPU_MEM) && !json_member(limits, RESOURCE_GPU_CORE) &&
		!json_member(limits, RESOURCE_GPU_COUNT) && !json_member(limits, RESOURCE_GPU))
		return 0;
	if (!name || !*name || strlen(name) > NAME_LEN_MAX)
		return error_set(err, EINVAL, "%s %zu has no usable name",
			init ? "init container" : "container", index);
	r = check_count(limits, name, bound, err);
	if (r < 0)
		return r;
	r = read_quantity(limits, RESOURCE_GPU_MEM, name, &mem, err);
	if (r < 0)
		return r;
	r = read_quantity(limits, RESOURCE_GPU_CORE, name, &core, err);
	if (r < 0)
		return r;
	r = read_whole(limits, name, kind_of(container, init), (int)index, request, err);
	if (r == 0)
		r = request_add(request, name, kind_of(container, init), (int)index, mem, core, err);
	if (r == 0)
		return check_core(name, core, bound, request, err);
	if (r != -EINVAL || !bound)
		return r;
	r = request_add_bound(request, name, kind_of(container, init), (int)index, mem, core, NULL);
	return r < 0 ? r : 1;
}

static int read_containers(struct json_object *spec, const char *key, bool init, bool bound,
	struct request *request, struct error *err)
{
	struct json_object *containers = json_member(spec, key);
	int wrong = 0;

	if (!containers)
		return 0;
	if (!json_object_is_type(containers, json_type_array))
		return error_set(err, EINVAL, "spec.%s is not a list", key);
	for (size_t i = 0; i < json_object_array_length(containers); i++) {
		int r = read_container(
			json_object_array_get_idx(containers, i), init, i, bound, request, err);

		if (r < 0)
			return r;
		wrong |= r;
	}
	return wrong;
}

/* -EINVAL may come with a request: that of a bound pod whose percentage is invalid. */
static int read_request(struct json_object *pod, bool bound, struct request *ret_request, struct error *err)
{
	_cleanup_request_ struct request request;
	struct json_object *spec = json_member(pod, "spec");
	int init, main;

	request_init(&request);
	init = read_containers(spec, "initContainers", true, bound, &request, err);
	if (init < 0)
		return init;
	main = read_containers(spec, "containers", false, bound, &request, err);
	if (main < 0)
		return main;
	*ret_request = request;
	request_init(&request);
	return init || main ? -EINVAL : 0;
}

/* A label that cannot be met leaves the units, which the kubelet counts in any case. */
static int read_gpus(struct json_object *pod, struct request *request, struct error *err)
{
	struct json_object *label = json_member(
		json_member(json_member(pod, "metadata"), "labels"), LABEL_GPU_COUNT);

	if (!label || request_is_empty(request))
		return 0;
	if (!json_string(label))
		return error_set(err, EINVAL, "label %s is not a text", LABEL_GPU_COUNT);
	return request_parse_gpus(request, json_string(label), err);
}

/* The label can change at any time; the number of GPUs of a bound pod cannot. For a bound pod, the placement
 * determines it. */
static bool placement_fits_request(
	const struct placement *placement, const char *node, struct request *request)
{
	uint32_t before = request->gpus;

	if (*node && placement->n_containers && !request->whole &&
		request_set_gpus(request, (uint32_t)placement->containers[0].n_gpus, NULL) < 0)
		return false;
	/* The API server decides who is allowed to write another size than the spec's; only a bound pod has
	 * one. */
	if (*node && placement->resizes && !request->whole && request_resize(request, placement) == 0)
		return true;
	if (!placement->resizes && placement_matches(placement, request))
		return true;
	request->gpus = before;
	return false;
}

static int parse_placement(const char *text, struct pod_facts *facts, struct error *err)
{
	_cleanup_placement_ struct placement placement;
	int r;

	placement_init(&placement);
	r = placement_from_json(text, &placement, err);
	if (r < 0)
		return r;
	if (!placement_fits_request(&placement, facts->node, &facts->request))
		return error_set(err, EINVAL, "it does not say where the containers that ask for %s are",
			facts->request.whole ? RESOURCE_GPU : RESOURCE_GPU_MEM);
	facts->placement = placement;
	facts->has_placement = true;
	placement_init(&placement);
	return 0;
}

/* If a placement is invalid, the pod has none: it counts as unplaced, and is not started. */
static int read_placement(struct json_object *pod, struct pod_facts *facts, struct error *err)
{
	struct json_object *annotations = json_member(json_member(pod, "metadata"), "annotations");
	struct json_object *annotation = json_member(annotations, ANNOTATION_PLACEMENT);
	int r;

	if (!annotation || request_is_empty(&facts->request))
		return 0;
	if (json_string(annotation))
		r = parse_placement(json_string(annotation), facts, err);
	else
		r = error_set(err, EINVAL, "it is not a text");
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		error_prefix(err, "annotation %s", ANNOTATION_PLACEMENT);
	return 0;
}

/* The unit was stamped when the pod was created, so that the meaning of its units never changes. A stamp that
 * is not a number counts as a unit that no node has. */
static int read_unit(struct json_object *pod, struct pod_facts *facts, struct error *err)
{
	struct json_object *stamp = json_member(
		json_member(json_member(pod, "metadata"), "annotations"), ANNOTATION_UNIT);
	const char *text = json_string(stamp);
	uint32_t mib;

	if (!stamp || request_is_empty(&facts->request) || facts->request.whole)
		return 0;
	if (text && parse_u32(text, UNIT_MIB_MAX, &mib) == 0 && mib > 0) {
		facts->request.unit_mib = mib;
		return 0;
	}
	facts->request.unit_mib = UNIT_MIB_NONE;
	return error_set(err, EINVAL, "annotation %s: \"%.40s\" is not a number of MiB", ANNOTATION_UNIT,
		text ? text : "");
}

static void read_created(struct json_object *pod, struct pod_facts *facts)
{
	if (facts->gang)
		facts->created = json_time_of(json_member(pod, "metadata"), "creationTimestamp");
}

static void read_annotations_size(struct json_object *pod, struct pod_facts *facts)
{
	facts->annotations_size = annotations_size(json_member(json_member(pod, "metadata"), "annotations"));
	facts->annotations_full = !*facts->node && !request_is_empty(&facts->request) &&
				  facts->annotations_size + binding_annotations_max(&facts->request) >
					  ANNOTATIONS_MAX;
}

/* The label no longer matters once the pod is bound with a placement. */
static int read_gpus_and_placement(struct json_object *pod, struct pod_facts *facts, struct error *err)
{
	struct error problem = {""};
	int label = read_gpus(pod, &facts->request, &problem);
	int r = read_placement(pod, facts, err);

	if (r < 0 || label == 0 || (*facts->node && facts->has_placement))
		return r;
	*err = problem;
	return label;
}

/* The pod's gang is invalid. Other mistakes are reported with it. */
static int refuse_gang(struct json_object *pod, struct error *err)
{
	_cleanup_request_ struct request request;
	struct error more = {""}, gang = *err;
	int r;

	request_init(&request);
	r = read_request(pod, false, &request, &more);
	if (r == 0)
		r = read_gpus(pod, &request, &more);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	return *more.text ? error_set(err, EINVAL, "%.250s; %.250s", gang.text, more.text) : -EINVAL;
}

int pod_facts_read(struct json_object *pod, struct pod_facts *ret_facts, struct error *err)
{
	int r;

	err->text[0] = '\0';
	pod_facts_init(ret_facts);
	if (read_names(pod, ret_facts) < 0 || read_standing(pod, ret_facts) < 0)
		return error_set(err, ENOMEM, "out of memory");
	read_state(pod, ret_facts);
	ret_facts->host = host_of_pod(pod);
	if (!*ret_facts->uid || !*ret_facts->name || !*ret_facts->namespace_)
		return error_set(err, EINVAL, "metadata without a uid, a name or a namespace");
	if (!object_name_is_valid(ret_facts->namespace_) || !object_name_is_valid(ret_facts->name))
		return error_set(err, EINVAL, "its name or namespace is not valid");
	r = gang_read(pod, ret_facts, err);
	read_created(pod, ret_facts);
	if (r < 0)
		return r == -EINVAL ? refuse_gang(pod, err) : r;
	r = read_request(pod, *ret_facts->node, &ret_facts->request, err);
	if (r < 0)
		return r;
	if (gang_read_job(pod, ret_facts) < 0 ||
		(!request_is_empty(&ret_facts->request) &&
			(read_labels(json_member(pod, "metadata"), ret_facts) < 0 ||
				gpu_models_of_pod(pod, &ret_facts->models) < 0 ||
				read_resize(pod, ret_facts) < 0)))
		return error_set(err, ENOMEM, "out of memory");
	read_created(pod, ret_facts);
	r = read_gpus_and_placement(pod, ret_facts, err);
	read_annotations_size(pod, ret_facts);
	if (r == 0 && !*err->text)
		read_unit(pod, ret_facts, err);
	return r;
}

int pod_facts_from_json(struct json_object *pod, struct pod_facts *ret_facts, struct error *err)
{
	struct error ignored;
	int r = pod_facts_read(pod, ret_facts, err ? err : &ignored);

	if (err && *err->text && r != -ENOMEM)
		error_prefix(err, "pod %s/%s", ret_facts->namespace_, ret_facts->name);
	return r;
}
