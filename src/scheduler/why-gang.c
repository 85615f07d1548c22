#include "scheduler/why-gang.h"

#include <json-c/json.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/gang.h"
#include "model/selector.h"
#include "scheduler/gangs.h"
#include "scheduler/scheduler.h"

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

/* The pod is bound, and its labels name a gang that it was not of when it was bound. */
static const char *later_gang(const struct gang_desk *desk, const struct ledger_pod *pod, size_t *ret_len)
{
	const char *name = gang_of_labels(&pod->facts, ret_len);
	const struct pod_facts *member = gang_desk_facts(desk, pod->facts.uid);

	if (!name || pod->occupancy != OCCUPANCY_BOUND || pod->facts.finished || pod->facts.deleting)
		return NULL;
	return member && strlen(member->gang) == *ret_len && memcmp(member->gang, name, *ret_len) == 0 ? NULL
												       : name;
}

/* How many pods were given this gang's label too late. */
static int64_t count_later(const struct scheduler *scheduler, const char *namespace_, const char *gang)
{
	const struct ledger_pod *pod;
	int64_t n = 0;

	table_for_each (&scheduler->ledger.pods, cursor, pod) {
		size_t len;
		const char *name;

		if (strcmp(pod->facts.namespace_, namespace_) != 0)
			continue;
		name = later_gang(scheduler->gangs, pod, &len);
		n += name && strlen(gang) == len && memcmp(gang, name, len) == 0;
	}
	return n;
}

static void add_number(struct json_object *object, const char *key, int64_t number)
{
	json_set(object, key, json_object_new_int64(number));
}

static struct json_object *gang_json(
	const struct scheduler *scheduler, const struct gang_view *view, const char *namespace_)
{
	struct json_object *object = json_object_new_object();
	const char *name = strchr(view->key, '/') + 1;
	int64_t now = monotonic_ns();

	json_set(object, "name", json_object_new_string(name));
	add_number(object, "min", view->min);
	json_set(object, "minsDiffer", json_object_new_boolean(view->mins_differ));
	add_number(object, "pods", (int64_t)view->n_members);
	add_number(object, "placed", (int64_t)view->n_placed);
	add_number(object, "planned", (int64_t)view->n_planned);
	add_number(object, "atBind", (int64_t)view->n_at_bind);
	add_number(object, "labelledLater", count_later(scheduler, namespace_, name));
	json_set(object, "cameAbout", json_object_new_boolean(view->came_about));
	json_set(object, "keeping", json_object_new_boolean(view->keeping));
	add_number(object, "failures", view->failures);
	add_number(object, "waitingForMs", view->waiting_ns ? (now - view->waiting_ns) / NS_PER_MS : 0);
	if (view->text)
		json_set(object, "reason", json_object_new_string(view->text));
	if (view->n_room >= 0 && view->n_room < (int)view->min)
		add_number(object, "haveRoom", view->n_room);
	if (view->missing)
		json_set(object, "missing", json_object_new_string(view->missing));
	return object;
}

void why_add_gang(struct json_object *root, const struct scheduler *scheduler, const struct ledger_pod *pod)
{
	struct gang_view view;
	size_t len;
	const char *later = later_gang(scheduler->gangs, pod, &len);

	if (gang_desk_find(scheduler->gangs, pod->facts.uid, &view))
		json_set(root, "gang", gang_json(scheduler, &view, pod->facts.namespace_));
	if (later)
		json_set(root, "gangLabel", json_object_new_string_len(later, (int)len));
}
