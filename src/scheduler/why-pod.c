/* why-pod.c - what /why says about the pod itself: its request and state, how long it has waited, its gang.
 */
#include <json-c/json.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/gang/gang.h"
#include "core/requeue.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/selector.h"
#include "scheduler/pages.h"
#include "scheduler/scheduler.h"

static struct json_object *request_json(const struct request *request)
{
	static const char *const kinds[] = {
		[CONTAINER_INIT] = "init", [CONTAINER_SIDECAR] = "sidecar", [CONTAINER_MAIN] = "main"};
	struct json_object *object = json_object_new_object(), *containers = json_object_new_array();

	for (size_t i = 0; i < request->n_containers; i++) {
		struct json_object *container = json_object_new_object();

		json_set(container, "name", json_new_text(request->containers[i].name));
		json_set(container, "kind", json_new_text(kinds[request->containers[i].kind]));
		json_set(container, "units", json_object_new_int64(request->containers[i].units));
		json_set(container, "core", json_object_new_int64(request->containers[i].core));
		json_object_array_add(containers, container);
	}
	json_set(object, "units", json_object_new_int64(request->units));
	json_set(object, "core", json_object_new_int64(request->core));
	json_set(object, "cards", json_object_new_int64(request_gpus(request)));
	if (request->whole)
		json_set(object, "whole", json_object_new_boolean(true));
	if (request->group) {
		json_set(object, "job", json_new_text(request->group));
		json_set(object, "jobPods", json_object_new_int64(request->group_pods));
	}
	json_set(object, "containers", containers);
	return object;
}

/* The node's GPUs that the pod is on. */
static struct json_object *gpus_of_pod_json(const struct ledger_pod *pod, const struct node_ledger *node)
{
	struct json_object *gpus = json_object_new_array();

	for (size_t i = 0; node && i < node->facts.n_gpus; i++) {
		struct json_object *gpu;

		if (!units_on(node, pod, node->gpus[i].facts.uuid))
			continue;
		gpu = json_object_new_object();
		json_set(gpu, "index", json_object_new_int64(node->gpus[i].facts.index));
		json_set(gpu, "uuid", json_new_text(node->gpus[i].facts.uuid));
		json_object_array_add(gpus, gpu);
	}
	return gpus;
}

struct json_object *why_pod_json(const struct ledger *ledger, const struct ledger_pod *pod)
{
	struct json_object *object = json_object_new_object();

	json_set(object, "namespace", json_new_text(pod->facts.namespace_));
	json_set(object, "name", json_new_text(pod->facts.name));
	json_set(object, "uid", json_new_text(pod->facts.uid));
	json_set(object, "priority", json_object_new_int64(pod->facts.priority));
	json_set(object, "request", request_json(&pod->facts.request));
	json_set(object, "state", json_new_text(occupancy_text(pod->occupancy)));
	json_set(object, "finished", json_object_new_boolean(pod->facts.finished));
	json_set(object, "deleting", json_object_new_boolean(pod->facts.deleting));
	if (pod->facts.annotations_full)
		json_set(object, "annotationsFull",
			json_object_new_int64((int64_t)pod->facts.annotations_size));
	if (pod->node) {
		json_set(object, "node", json_new_text(pod->node));
		json_set(object, "cards", gpus_of_pod_json(pod, ledger_node(ledger, pod->node)));
		json_set(object, "placed", json_object_new_boolean(pod->has_placement));
		json_set(object, "assigned", json_object_new_boolean(pod->facts.assigned));
	}
	if (pod->occupancy == OCCUPANCY_TENTATIVE)
		json_set(object, "holdEndsInMs",
			json_object_new_int64((pod->expires_ns - monotonic_ns()) / NS_PER_MS));
	return object;
}

struct json_object *why_waiting_json(const struct requeue_state *state)
{
	struct json_object *object = json_object_new_object();
	int64_t now = monotonic_ns();

	json_set(object, "forMs", json_object_new_int64((now - state->since_ns) / NS_PER_MS));
	json_set(object, "lastAskedMsAgo", json_object_new_int64((now - state->asked_ns) / NS_PER_MS));
	json_set(object, "nudges", json_object_new_int64(state->requeues));
	json_set(object, "nextNudgeInMs",
		json_object_new_int64(
			state->not_before_ns > now ? (state->not_before_ns - now) / NS_PER_MS : 0));
	return object;
}

/* The gang that the pod's labels name now; its length in *ret_len, NULL if they name none. */
static const char *gang_of_labels(const struct pod_facts *pod, size_t *ret_len)
{
	const char *const keys[] = {
		LABEL_GANG, LABEL_POD_GROUP, pod->request.group_pods > 1 ? LABEL_GPU_TOPOLOGY : NULL};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *value = keys[i] ? labels_find(pod->labels, keys[i], ret_len) : NULL;

		if (value && *ret_len)
			return value;
	}
	return NULL;
}

/* The gang that the labels of a bound pod name, if the pod was not in it when it was bound. */
static const char *later_gang(const struct gangs *gangs, const struct ledger_pod *pod, size_t *ret_len)
{
	const char *name = gang_of_labels(&pod->facts, ret_len);
	const struct pod_facts *member = gangs_facts(gangs, pod->facts.uid);

	if (!name || pod->occupancy != OCCUPANCY_BOUND || pod->facts.finished || pod->facts.deleting)
		return NULL;
	return member && strlen(member->gang) == *ret_len && memcmp(member->gang, name, *ret_len) == 0 ? NULL
												       : name;
}

/* How many pods got this gang's label only after they were bound. */
static int64_t count_later(const struct scheduler *scheduler, const char *namespace_, const char *gang)
{
	const struct ledger_pod *pod;
	int64_t n = 0;

	table_for_each (&scheduler->core.ledger.pods, cursor, pod) {
		size_t len;
		const char *name;

		if (strcmp(pod->facts.namespace_, namespace_) != 0)
			continue;
		name = later_gang(&scheduler->core.gangs, pod, &len);
		n += name && strlen(gang) == len && memcmp(gang, name, len) == 0;
	}
	return n;
}

static struct json_object *gang_json(
	const struct scheduler *scheduler, const struct gang_view *view, const char *namespace_)
{
	struct json_object *object = json_object_new_object();
	const char *name = strchr(view->key, '/') + 1;
	int64_t now = monotonic_ns();

	json_set(object, "name", json_object_new_string(name));
	json_set(object, "min", json_object_new_int64(view->min));
	json_set(object, "minsDiffer", json_object_new_boolean(view->mins_differ));
	json_set(object, "pods", json_object_new_int64((int64_t)view->n_members));
	json_set(object, "placed", json_object_new_int64((int64_t)view->n_placed));
	json_set(object, "planned", json_object_new_int64((int64_t)view->n_planned));
	json_set(object, "atBind", json_object_new_int64((int64_t)view->n_at_bind));
	json_set(object, "labelledLater", json_object_new_int64(count_later(scheduler, namespace_, name)));
	json_set(object, "cameAbout", json_object_new_boolean(view->started));
	json_set(object, "keeping", json_object_new_boolean(view->keeping));
	json_set(object, "failures", json_object_new_int64(view->failures));
	json_set(object, "waitingForMs",
		json_object_new_int64(view->waiting_ns ? (now - view->waiting_ns) / NS_PER_MS : 0));
	if (view->text)
		json_set(object, "reason", json_object_new_string(view->text));
	if (view->n_room >= 0 && view->n_room < (int)view->min)
		json_set(object, "haveRoom", json_object_new_int64(view->n_room));
	if (view->missing)
		json_set(object, "missing", json_object_new_string(view->missing));
	return object;
}

void why_add_gang(struct json_object *root, struct scheduler *scheduler, const struct ledger_pod *pod)
{
	struct gang_view view;
	size_t len;
	const char *later = later_gang(&scheduler->core.gangs, pod, &len);

	if (gangs_find(
		    &scheduler->core.gangs, &scheduler->core.ledger, pod->facts.uid, monotonic_ns(), &view))
		json_set(root, "gang", gang_json(scheduler, &view, pod->facts.namespace_));
	if (later)
		json_set(root, "gangLabel", json_object_new_string_len(later, (int)len));
}
