#include "cli/cordon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/kubectl.h"
#include "cli/list-read.h"
#include "kube/json.h"
#include "kube/names.h"

#define TRIES_MAX 10
#define ANSWER_MAX (4u << 20)
#define COLLECTION "/api/v1/namespaces/" NAMESPACE_SYSTEM "/configmaps"

static struct fault *find(struct fault_list *list, const struct fault *fault)
{
	for (size_t i = 0; i < list->n; i++)
		if (fault_is_about(&list->faults[i], fault->index, fault->uuid))
			return &list->faults[i];
	return NULL;
}

static void refresh_index(const struct inspect_node *gpus, struct fault *fault)
{
	for (size_t i = 0; gpus && i < gpus->n_gpus; i++)
		if (strcmp(gpus->gpus[i].uuid, fault->uuid) == 0)
			fault->index = gpus->gpus[i].column;
}

/* Other tools read the indices, so those that have changed are updated. The entry of a GPU that no longer
 * exists keeps its index, unless another GPU has that index now. */
static void refresh_indices(const struct inspect_node *gpus, struct fault_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (*list->faults[i].uuid)
			refresh_index(gpus, &list->faults[i]);
	for (size_t i = 0; i < list->n; i++)
		for (size_t k = i + 1; k < list->n; k++)
			if (list->faults[i].index >= 0 && list->faults[i].index == list->faults[k].index)
				list->faults[*list->faults[i].uuid ? i : k].index = -1;
}

static int add(struct fault_list *list, const struct fault *fault)
{
	struct fault *there = find(list, fault);

	if (!there) {
		if (list->n == FAULT_LIST_MAX)
			return -ENOSPC;
		list->faults[list->n++] = *fault;
		return true;
	}
	if (*there->uuid && (!*fault->reason || strcmp(there->reason, fault->reason) == 0))
		return false;
	memcpy(there->uuid, fault->uuid, sizeof(there->uuid));
	if (*fault->reason)
		memcpy(there->reason, fault->reason, sizeof(there->reason));
	return true;
}

static int take_away(struct fault_list *list, const struct fault *fault)
{
	struct fault *there;
	bool changed = false;

	while ((there = find(list, fault))) {
		*there = list->faults[--list->n];
		changed = true;
	}
	return changed;
}

/* The part without I/O. Returns whether the list has changed. -ENOSPC: the list is full. */
static int cordon_list_apply(const struct cordon_change *change, struct fault_list *list)
{
	const struct fault *there = find(list, &change->fault);
	int r;

	if (change->own && there && strcmp(there->reason, change->fault.reason) != 0)
		return 0;
	r = change->uncordon ? take_away(list, &change->fault) : add(list, &change->fault);

	if (r > 0)
		refresh_indices(change->gpus, list);
	return r;
}

static int object_new(const char *name, struct json_object **ret_object)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();
	struct json_object *metadata = json_set_object(object, "metadata");

	if (!metadata || json_set_text(object, "apiVersion", "v1") < 0 ||
		json_set_text(object, "kind", "ConfigMap") < 0 || json_set_text(metadata, "name", name) < 0 ||
		json_set_text(metadata, "namespace", NAMESPACE_SYSTEM) < 0 ||
		json_set(metadata, "labels", json_new_pair("app.kubernetes.io/managed-by", "ration")) < 0)
		return -ENOMEM;
	*ret_object = TAKE_PTR(object);
	return 0;
}

static int object_parse(struct json_object *object, struct fault_list *ret_list, struct error *err)
{
	struct json_object *metadata = json_member(object, "metadata");
	const char *text = json_member_string(json_member(object, "data"), CONFIG_MAP_UNHEALTHY_KEY);
	const char *notes = json_member_string(json_member(metadata, "annotations"), ANNOTATION_CORDONED);
	const char *name = json_member_string(metadata, "name");
	int r = fault_list_from_gpus(text ? text : "", notes, ret_list, err);

	if (r == -EINVAL)
		error_prefix(err,
			"ConfigMap " NAMESPACE_SYSTEM
			"/%s is malformed; correct it first, with `kubectl edit configmap -n " NAMESPACE_SYSTEM
			" %s`: data." CONFIG_MAP_UNHEALTHY_KEY,
			name ? name : "?", name ? name : "?");
	return r;
}

/* Returns the member with this key, which is an object; creates it if it is missing. */
static struct json_object *inner(struct json_object *object, const char *key)
{
	struct json_object *there = json_member(object, key);

	if (json_object_is_type(there, json_type_object))
		return there;
	return json_set_object(object, key);
}

/* An empty list is removed, because the open extender reads "" as GPU 0. */
static int object_write(struct json_object *object, const struct fault_list *list)
{
	struct json_object *data = inner(object, "data");
	struct json_object *annotations = inner(json_member(object, "metadata"), "annotations");
	_cleanup_free_ char *gpus = fault_list_gpus(list), *notes = fault_list_notes(list);
	int r;

	if (!data || !annotations)
		return -ENOMEM;
	json_object_object_del(data, CONFIG_MAP_UNHEALTHY_KEY);
	json_object_object_del(annotations, ANNOTATION_CORDONED);
	if (!list->n)
		return 0;
	r = json_set_text(data, CONFIG_MAP_UNHEALTHY_KEY, gpus);
	return r < 0 ? r : json_set_text(annotations, ANNOTATION_CORDONED, notes);
}

static int refused(const struct strbuf *complaints, const char *verb, const char *name, struct error *err)
{
	const char *text = strbuf_cstr(complaints);

	if (strcasestr(text, "forbidden"))
		return error_set(err, EACCES,
			"you may not %s ConfigMap %s in " NAMESPACE_SYSTEM
			": ask for the verbs get, create and update on configmaps there",
			verb, name);
	return error_set(err, EIO, "kubectl cannot %s ConfigMap %s in " NAMESPACE_SYSTEM ": %.300s", verb,
		name, complaints->len ? text : "it gave no reason");
}

/* *ret_object NULL: the object does not exist. */
static int object_fetch(
	const struct kubectl *kubectl, const char *name, struct json_object **ret_object, struct error *err)
{
	_cleanup_strbuf_ struct strbuf complaints;
	_cleanup_json_ struct json_object *object = NULL;
	char path[400];
	int r;

	strbuf_init(&complaints, ANSWER_MAX);
	snprintf(path, sizeof(path), COLLECTION "/%s", name);
	r = object_get(kubectl, path, ANSWER_MAX, &object, &complaints, err);
	if (r < 0)
		return r;
	if (r > 0 && !strstr(strbuf_cstr(&complaints), "(NotFound)"))
		return refused(&complaints, "read", name, err);
	if (object && !json_object_is_type(json_member(object, "metadata"), json_type_object))
		return error_set(err, EBADMSG, "the API server's answer is not a ConfigMap");
	*ret_object = TAKE_PTR(object);
	return 0;
}

/* -EAGAIN: another writer was faster. */
static int object_send(const struct kubectl *kubectl, const char *name, bool is_new,
	struct json_object *object, struct error *err)
{
	_cleanup_strbuf_ struct strbuf out, complaints;
	char path[400];
	int r;

	strbuf_init(&out, ANSWER_MAX);
	strbuf_init(&complaints, ANSWER_MAX);
	snprintf(path, sizeof(path), "--raw=" COLLECTION "%s%s", is_new ? "" : "/", is_new ? "" : name);
	r = kubectl_send(kubectl,
		(const char *const[]){is_new ? "create" : "replace", path, "--filename=-", NULL},
		json_text(object), &out, &complaints, err);
	if (r <= 0)
		return r;
	if (strstr(strbuf_cstr(&complaints), "(Conflict)") ||
		strstr(strbuf_cstr(&complaints), "(AlreadyExists)") ||
		(!is_new && strstr(strbuf_cstr(&complaints), "(NotFound)")))
		return -EAGAIN;
	return refused(&complaints, is_new ? "create" : "change", name, err);
}

static int try_once(const struct kubectl *kubectl, const struct cordon_change *change, const char *name,
	bool *ret_changed, struct error *err)
{
	_cleanup_free_ struct fault_list *list = calloc(1, sizeof(*list));
	_cleanup_json_ struct json_object *object = NULL;
	bool is_new;
	int r = list ? object_fetch(kubectl, name, &object, err) : error_set(err, ENOMEM, "out of memory");

	if (r < 0)
		return r;
	is_new = !object;
	if (!is_new)
		r = object_parse(object, list, err);
	if (r < 0)
		return r;
	r = cordon_list_apply(change, list);
	*ret_changed = r > 0;
	if (r == -ENOSPC)
		return error_set(err, ENOSPC, "ConfigMap " NAMESPACE_SYSTEM "/%s is full", name);
	if (r == 0)
		return 0;
	if ((is_new && object_new(name, &object) < 0) || object_write(object, list) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return object_send(kubectl, name, is_new, object, err);
}

int cordon_list_change(const struct kubectl *kubectl, const struct cordon_change *change, bool *ret_changed,
	struct error *err)
{
	bool changed = false;
	char name[300];
	int r = -EAGAIN;

	if (strlen(CONFIG_MAP_UNHEALTHY_PREFIX) + strlen(change->node) > 253)
		return error_set(err, EINVAL,
			"the name of node %s is too long for a ConfigMap " CONFIG_MAP_UNHEALTHY_PREFIX "NODE",
			change->node);
	snprintf(name, sizeof(name), "%s%s", CONFIG_MAP_UNHEALTHY_PREFIX, change->node);
	for (int i = 0; i < TRIES_MAX && r == -EAGAIN; i++)
		r = try_once(kubectl, change, name, &changed, err);
	if (r == -EAGAIN)
		return error_set(err, EAGAIN,
			"ConfigMap " NAMESPACE_SYSTEM "/%s was changed by others at each attempt: try again",
			name);
	if (r == 0)
		*ret_changed = changed;
	return r;
}

#define LOOK_US 300000

const struct inspect_node *cordon_node(const struct inspect *inspect)
{
	const struct inspect_node *node = inspect->n_nodes ? inspect->nodes[0] : NULL;

	return node && node->n_gpus && *node->gpus[0].uuid ? node : NULL;
}

const struct inspect_gpu *cordon_gpu(const struct inspect_node *node, const struct fault *fault)
{
	for (size_t i = 0; node && i < node->n_gpus; i++)
		if (fault_is_about(fault, node->gpus[i].column, node->gpus[i].uuid))
			return &node->gpus[i];
	return NULL;
}

int cordon_look(
	const struct kubectl *kubectl, const char *node, struct inspect *ret_inspect, struct error *err)
{
	inspect_release(ret_inspect);
	return inspect_fetch(ret_inspect, kubectl, node, NULL, err);
}

/* Whether the GPU has the state of the list now. If the GPU is unhealthy for another reason, the list has no
 * visible effect. */
static bool is_taken_up(const struct cordon_change *change, const struct inspect_gpu *gpu)
{
	if (!gpu)
		return false;
	if (!change->uncordon)
		return !gpu->healthy;
	return gpu->healthy || !gpu->reason ||
	       (strncmp(gpu->reason, "cordoned", strlen("cordoned")) != 0 &&
		       !strstr(gpu->reason, CONFIG_MAP_UNHEALTHY_PREFIX));
}

int cordon_await(const struct kubectl *kubectl, const struct cordon_change *change, uint32_t timeout_s,
	const volatile sig_atomic_t *stop, struct inspect *inspect, struct error *err)
{
	int64_t give_up_ns = monotonic_ns() + timeout_s * NS_PER_S;

	for (;;) {
		int r = cordon_look(kubectl, change->node, inspect, err);

		if (r < 0 || !timeout_s || (stop && *stop) ||
			is_taken_up(change, cordon_gpu(cordon_node(inspect), &change->fault)))
			return r;
		if (monotonic_ns() >= give_up_ns)
			return error_set(err, ETIMEDOUT,
				"the change is stored, but the agent of node %s has not applied it within %u s: does the DaemonSet gpushare-device-plugin-ds run there, and is its chart's value faultLists true? `kubectl get events --field-selector involvedObject.name=%s` may say more",
				change->node, timeout_s, change->node);
		usleep(LOOK_US);
	}
}
