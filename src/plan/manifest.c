#include "plan/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "plan/kube-nodes.h"

#define NEW_OWNER_UID "plan-controller"

void plan_pod_release(struct plan_pod *pod)
{
	json_object_put(pod->object);
	pod_facts_release(&pod->facts);
	quantities_release(&pod->requests);
	*pod = (struct plan_pod){0};
}

/* The pod template of the manifest; the manifest itself if it is a Pod; NULL if it makes no pods. */
static struct json_object *template_of(struct json_object *manifest, const char *kind)
{
	struct json_object *spec = json_member(manifest, "spec");

	if (strcmp(kind, "Pod") == 0)
		return manifest;
	if (strcmp(kind, "CronJob") == 0)
		spec = json_member(json_member(spec, "jobTemplate"), "spec");
	return json_member(json_member(spec, "template"), "spec") ? json_member(spec, "template") : NULL;
}

static int copy_member(struct json_object *to, const char *key, struct json_object *value)
{
	return value ? json_set(to, key, json_object_get(value)) : 0;
}

static int check_spec(struct json_object *spec, struct error *err)
{
	const char *node = json_member_string(spec, "nodeName");

	if (!json_object_is_type(spec, json_type_object))
		return error_set(err, EINVAL, "it has no spec");
	if (json_count(json_member(spec, "containers")) == 0)
		return error_set(err, EINVAL, "its spec has no containers");
	if (node && *node)
		return error_set(err, EINVAL,
			"it names its node (nodeName), so no scheduler places it; remove nodeName");
	if (json_count(json_member(spec, "schedulingGates")))
		return error_set(err, EINVAL,
			"it has schedulingGates: kube-scheduler does not place it before they are removed");
	return 0;
}

static int make_metadata(struct json_object *manifest, struct json_object *template, const char *namespace_,
	struct json_object *metadata)
{
	struct json_object *own = json_member(manifest, "metadata"), *its = json_member(template, "metadata");
	const char *name = json_member_string(own, "name"), *space = json_member_string(own, "namespace");

	if (!name)
		name = json_member_string(own, "generateName");
	if (copy_member(metadata, "labels", json_member(its, "labels")) < 0 ||
		copy_member(metadata, "annotations", json_member(its, "annotations")) < 0 ||
		copy_member(metadata, "ownerReferences", json_member(its, "ownerReferences")) < 0 ||
		json_set_text(metadata, "name", name && *name ? name : "plan") < 0)
		return -ENOMEM;
	return json_set_text(metadata, "namespace", space ? space : namespace_);
}

/* The pods of a template have a controller: the existing one if a pod of it was seen. */
static int add_controller(struct json_object *manifest, const char *kind, const struct kube_nodes *nodes,
	struct json_object *metadata)
{
	const char *name = json_member_string(json_member(manifest, "metadata"), "name");
	const char *uid = name && nodes ? kube_nodes_controller(nodes,
						  json_member_string(metadata, "namespace"), kind, name)
					: NULL;
	struct json_object *owner = json_append_object(json_set_array(metadata, "ownerReferences"));

	if (json_set_text(owner, "kind", kind) < 0 ||
		json_set_text(owner, "name", name ? name : "plan") < 0 ||
		json_set_text(owner, "uid", uid ? uid : NEW_OWNER_UID) < 0)
		return -ENOMEM;
	return json_set(owner, "controller", json_object_new_boolean(true));
}

int plan_pod_object(struct json_object *manifest, const char *namespace_, const struct kube_nodes *nodes,
	struct json_object **ret_pod, struct error *err)
{
	_cleanup_json_ struct json_object *pod = json_object_new_object(),
					  *metadata = json_object_new_object();
	const char *kind = json_member_string(manifest, "kind");
	struct json_object *template = kind ? template_of(manifest, kind) : NULL;
	int r;

	if (!kind)
		return error_set(err, EINVAL, "it has no kind");
	if (strcmp(kind, "List") == 0)
		return error_set(err, EINVAL, "it is a List; give one object");
	if (strcmp(kind, "DaemonSet") == 0)
		return error_set(err, EINVAL,
			"it is a DaemonSet: its controller makes one pod for each node, and chooses the node");
	if (!template)
		return error_set(err, EINVAL,
			"a %.60s makes no pods; give a Pod or an object with spec.template", kind);
	r = check_spec(json_member(template, "spec"), err);
	if (r < 0)
		return r;
	if (!pod || !metadata || make_metadata(manifest, template, namespace_, metadata) < 0 ||
		(template != manifest && add_controller(manifest, kind, nodes, metadata) < 0) ||
		copy_member(pod, "metadata", metadata) < 0 ||
		copy_member(pod, "spec", json_member(template, "spec")) < 0 ||
		json_set_text(pod, "kind", "Pod") < 0)
		return error_set(err, ENOMEM, "out of memory");
	*ret_pod = TAKE_PTR(pod);
	return 0;
}

/* The annotations that ration writes when it binds or resizes a pod. The unit is not one of them: the new pod
 * is created with it, too. */
static const char *const written[] = {ANNOTATION_PLACEMENT, ANNOTATION_ALLOCATION, ANNOTATION_CORE_ALLOCATION,
	ANNOTATION_MEM_IDX, ANNOTATION_MEM_POD, ANNOTATION_MEM_DEV, ANNOTATION_MEM_ASSIGNED,
	ANNOTATION_MEM_ASSUME_TIME, ANNOTATION_GPU_GROUP, ANNOTATION_GPU_VISIBLE, ANNOTATION_RESIZE_STATUS,
	ANNOTATION_GANG, ANNOTATION_BOUND_GANG, ANNOTATION_REQUEUE, ANNOTATION_RESIZE};

struct json_object *plan_replacement(struct json_object *pod)
{
	_cleanup_json_ struct json_object *copy = NULL, *made = json_object_new_object();
	struct json_object *metadata, *annotations;

	if (!made || json_object_deep_copy(pod, &copy, NULL) < 0)
		return NULL;
	metadata = json_member(copy, "metadata");
	annotations = json_member(metadata, "annotations");
	for (size_t i = 0; annotations && i < ARRAY_SIZE(written); i++)
		json_object_object_del(annotations, written[i]);
	if (metadata) {
		json_object_object_del(metadata, "uid");
		json_object_object_del(metadata, "deletionTimestamp");
		json_object_object_del(metadata, "creationTimestamp");
	}
	if (json_member(copy, "spec"))
		json_object_object_del(json_member(copy, "spec"), "nodeName");
	if (copy_member(made, "metadata", metadata) < 0 ||
		copy_member(made, "spec", json_member(copy, "spec")) < 0 ||
		json_set_text(json_set_object(made, "status"), "phase", "Pending") < 0)
		return NULL;
	return TAKE_PTR(made);
}

int plan_pod_read(struct json_object *object, size_t number, struct plan_pod *ret_pod, struct error *err)
{
	struct json_object *metadata = json_member(object, "metadata");
	char uid[40];
	int r;

	*ret_pod = (struct plan_pod){0};
	pod_facts_init(&ret_pod->facts);
	snprintf(uid, sizeof(uid), "plan-%zu", number);
	if ((number || !json_member_string(metadata, "uid")) && json_set_text(metadata, "uid", uid) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = pod_facts_read(object, &ret_pod->facts, err);
	if (r < 0)
		return r;
	if (ret_pod->facts.annotations_full)
		return error_set(err, EINVAL,
			"its annotations are too long: its GPU placement would not fit into the 256 KiB that an object's annotations may have together");
	r = quantities_of_pod(object, &ret_pod->requests);
	if (r < 0)
		return error_set(err, -r, "%s",
			r == -E2BIG ? "it requests more than 64 different resources" : "out of memory");
	ret_pod->object = json_object_get(object);
	return 0;
}

static void add_unconsidered(struct strbuf *out, const char *what)
{
	strbuf_addf(out, "%s\n", what);
}

static void check_affinity(struct json_object *spec, struct strbuf *out)
{
	static const char required[] = "requiredDuringSchedulingIgnoredDuringExecution";
	struct json_object *affinity = json_member(spec, "affinity");
	struct json_object *spread = json_member(spec, "topologySpreadConstraints");

	if (json_count(json_member(json_member(affinity, "podAffinity"), required)))
		add_unconsidered(out, "podAffinity");
	if (json_count(json_member(json_member(affinity, "podAntiAffinity"), required)))
		add_unconsidered(out, "podAntiAffinity");
	for (size_t i = 0; i < json_count(spread); i++) {
		const char *when = json_member_string(json_item(spread, i), "whenUnsatisfiable");

		if (!when || strcmp(when, "ScheduleAnyway") != 0) {
			add_unconsidered(out, "topologySpreadConstraints");
			return;
		}
	}
}

static void check_volumes(struct json_object *spec, struct strbuf *out)
{
	static const char *const bound_to_nodes[] = {"persistentVolumeClaim", "ephemeral", "csi",
		"awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "iscsi", "rbd"};
	struct json_object *volumes = json_member(spec, "volumes");

	for (size_t i = 0; i < json_count(volumes); i++)
		for (size_t j = 0; j < ARRAY_SIZE(bound_to_nodes); j++)
			if (json_member(json_item(volumes, i), bound_to_nodes[j])) {
				add_unconsidered(out, "volumes");
				return;
			}
}

static void check_ports(struct json_object *spec, struct strbuf *out)
{
	struct json_object *containers = json_member(spec, "containers");

	for (size_t i = 0; i < json_count(containers); i++) {
		struct json_object *ports = json_member(json_item(containers, i), "ports");

		for (size_t j = 0; j < json_count(ports); j++)
			if (json_member(json_item(ports, j), "hostPort")) {
				add_unconsidered(out, "hostPort");
				return;
			}
	}
}

void plan_unconsidered(struct json_object *pod, struct strbuf *out)
{
	struct json_object *spec = json_member(pod, "spec");

	check_affinity(spec, out);
	check_volumes(spec, out);
	check_ports(spec, out);
	if (json_count(json_member(spec, "resourceClaims")))
		add_unconsidered(out, "resourceClaims");
}
