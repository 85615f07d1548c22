/* policy-pod.c - reads from a pod what ResourcePolicies need: labels, requests, node, and deletion cost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/object-name.h"
#include "kube/resource-policy.h"
#include "model/quantity.h"

#define LABELS_TEXT_MAX (64 << 10)

int labels_from_json(struct json_object *labels, char **ret_text)
{
	_cleanup_strbuf_ struct strbuf text;
	char *taken;

	*ret_text = NULL;
	strbuf_init(&text, LABELS_TEXT_MAX);
	if (!json_object_is_type(labels, json_type_object) || json_object_object_length(labels) == 0)
		return 0;
	json_object_object_foreach (labels, key, value)
		if (json_string(value) && !strpbrk(json_string(value), "\n"))
			strbuf_addf(&text, "%s=%s\n", key, json_string(value));
	if (text.failed == -EMSGSIZE || text.len == 0)
		return 0;
	taken = strbuf_take(&text);
	if (!taken)
		return -ENOMEM;
	*ret_text = taken;
	return 0;
}

static int wanted_annotations(struct json_object *annotations, const struct table *keys, char **ret_text)
{
	_cleanup_json_ struct json_object *wanted = NULL;

	if (!keys->count || !json_object_is_type(annotations, json_type_object))
		return 0;
	wanted = json_object_new_object();
	json_object_object_foreach (annotations, key, value)
		if (table_get(keys, key) && json_object_object_add(wanted, key, json_object_get(value)) < 0)
			return -ENOMEM;
	return labels_from_json(wanted, ret_text);
}

/* ---- what it asks for: as Kubernetes computes effective requests ---- */

static int64_t request_of(struct json_object *container, const char *resource)
{
	struct json_object *resources = json_member(container, "resources");
	struct json_object *value = json_member(json_member(resources, "requests"), resource);
	const char *text;
	int64_t milli;

	if (!value)
		value = json_member(json_member(resources, "limits"), resource);
	text = json_object_is_type(value, json_type_string) ? json_string(value)
							    : json_object_get_string(value);
	return value && text && quantity_parse_milli(text, &milli) == 0 ? milli : 0;
}

static int64_t plus(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Sidecars run together with the containers that start after them; other init containers run one at a time.
 */
static int64_t effective(struct json_object *spec, const char *resource)
{
	struct json_object *inits = json_member(spec, "initContainers"),
			   *mains = json_member(spec, "containers");
	struct json_object *overhead = json_member(json_member(spec, "overhead"), resource);
	int64_t sidecars = 0, peak = 0, sum = 0, extra = 0;

	for (size_t i = 0; i < json_count(inits); i++) {
		struct json_object *container = json_object_array_get_idx(inits, i);
		int64_t own = request_of(container, resource), step = plus(sidecars, own);

		if (json_member_is(container, "restartPolicy", "Always"))
			sidecars = step;
		peak = step > peak ? step : peak;
	}
	for (size_t i = 0; i < json_count(mains); i++)
		sum = plus(sum, request_of(json_object_array_get_idx(mains, i), resource));
	sum = plus(sum, sidecars);
	if (overhead && json_string(overhead))
		quantity_parse_milli(json_string(overhead), &extra);
	return plus(sum > peak ? sum : peak, extra);
}

static int add_resources(struct json_object *names, struct json_object *spec, struct amounts *amounts)
{
	if (!json_object_is_type(names, json_type_object))
		return 0;
	json_object_object_foreach (names, resource, value) {
		int64_t milli;
		int r;

		(void)value;
		if (amounts_get(amounts, resource) != 0)
			continue;
		milli = effective(spec, resource);
		r = milli > 0 ? amounts_add(amounts, resource, milli) : 0;
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

static int read_requests(struct json_object *spec, struct amounts *amounts)
{
	static const char *const lists[] = {"initContainers", "containers"};
	int r = 0;

	for (size_t l = 0; l < ARRAY_SIZE(lists); l++) {
		struct json_object *containers = json_member(spec, lists[l]);

		for (size_t i = 0; r == 0 && i < json_count(containers); i++) {
			struct json_object *resources = json_member(
				json_object_array_get_idx(containers, i), "resources");

			r = add_resources(json_member(resources, "requests"), spec, amounts);
			if (r == 0)
				r = add_resources(json_member(resources, "limits"), spec, amounts);
		}
	}
	return r;
}

/* ---- how it stands ---- */

static bool tolerates_virtual(struct json_object *spec)
{
	struct json_object *tolerations = json_member(spec, "tolerations");

	for (size_t i = 0; i < json_count(tolerations); i++) {
		struct json_object *toleration = json_object_array_get_idx(tolerations, i);
		const char *key = json_member_string(toleration, "key"),
			   *effect = json_member_string(toleration, "effect"),
			   *operator= json_member_string(toleration, "operator");
		bool every = operator&& strcmp(operator, "Exists") == 0 && (!key || !*key);

		if ((every || (key && strcmp(key, TAINT_VIRTUAL_NODE) == 0)) &&
			(!effect || !*effect || strcmp(effect, "NoSchedule") == 0))
			return true;
	}
	return false;
}

static bool is_of_replica_set(struct json_object *metadata)
{
	struct json_object *references = json_member(metadata, "ownerReferences");

	for (size_t i = 0; i < json_count(references); i++) {
		struct json_object *reference = json_object_array_get_idx(references, i);

		if (json_member_is(reference, "kind", "ReplicaSet") &&
			json_object_get_boolean(json_member(reference, "controller")))
			return true;
	}
	return false;
}

static uint64_t hash_of(struct json_object *object)
{
	uint64_t hash = 1469598103934665603u;

	for (const char *p = json_object_to_json_string(object); p && *p; p++)
		hash = (hash ^ (unsigned char)*p) * 1099511628211u;
	return hash | 1;
}

static void read_scheduled(struct json_object *status, struct policy_pod_facts *facts)
{
	struct json_object *conditions = json_member(status, "conditions");

	for (size_t i = 0; i < json_count(conditions); i++) {
		struct json_object *condition = json_object_array_get_idx(conditions, i);
		const char *type = json_member_string(condition, "type"),
			   *value = json_member_string(condition, "status"),
			   *time = json_member_string(condition, "lastTransitionTime");
		struct tm tm = {0};

		if (!type || strcmp(type, "PodScheduled") != 0 || !value)
			continue;
		if (strcmp(value, "False") == 0)
			facts->verdict = hash_of(condition);
		else if (time && strptime(time, "%Y-%m-%dT%H:%M:%SZ", &tm))
			facts->scheduled = timegm(&tm);
	}
}

/* The cost that ration writes: minus the number of units before the pod's. */
static int32_t own_cost(const char *text)
{
	uint32_t value;

	return *text == '-' && parse_u32(text + 1, POLICY_UNITS_MAX - 1, &value) == 0 ? -(int32_t)value : 0;
}

/* A cost is ration's if ration's own annotation has the same value; otherwise a user has set or changed it.
 */
static void read_cost(struct json_object *annotations, struct policy_pod_facts *facts)
{
	struct json_object *cost = json_member(annotations, ANNOTATION_DELETION_COST);
	const char *value = json_string(cost),
		   *ours = json_member_string(annotations, ANNOTATION_POLICY_COST);

	if (!cost)
		return;
	facts->cost = POLICY_COST_USERS;
	if (!value || !ours || strcmp(value, ours) != 0 || !own_cost(value))
		return;
	facts->cost = POLICY_COST_OURS;
	facts->cost_value = own_cost(value);
}

static void read_state(struct json_object *pod, struct policy_pod_facts *facts)
{
	struct json_object *metadata = json_member(pod, "metadata"), *spec = json_member(pod, "spec"),
			   *status = json_member(pod, "status");
	const char *phase = json_member_string(status, "phase"),
		   *nominated = json_member_string(status, "nominatedNodeName"),
		   *scheduler = json_member_string(spec, "schedulerName"),
		   *version = json_member_string(metadata, "resourceVersion");
	int64_t priority;

	facts->finished = phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0);
	facts->terminating = json_member(metadata, "deletionTimestamp") != NULL;
	if (json_whole(json_member(spec, "priority"), INT32_MIN, INT32_MAX, &priority) == 0)
		facts->priority = (int32_t)priority;
	facts->nominated = nominated && *nominated;
	facts->ours = scheduler && strcmp(scheduler, SCHEDULER_NAME) == 0;
	facts->tolerates = tolerates_virtual(spec);
	facts->has_tolerations = json_count(json_member(spec, "tolerations")) > 0;
	if (version && strlen(version) < sizeof(facts->version))
		strcpy(facts->version, version);
	facts->of_replica_set = is_of_replica_set(metadata);
	read_scheduled(status, facts);
	read_cost(json_member(metadata, "annotations"), facts);
}

static char *copy_of(struct json_object *object, const char *key)
{
	const char *text = json_member_string(object, key);

	return strdup(text && strlen(text) <= 253 ? text : "");
}

int policy_pod_facts_from_json(
	struct json_object *pod, const struct table *annotation_keys, struct policy_pod_facts *ret_facts)
{
	struct json_object *metadata = json_member(pod, "metadata"), *spec = json_member(pod, "spec");

	*ret_facts = (struct policy_pod_facts){.uid = copy_of(metadata, "uid"),
		.namespace_ = copy_of(metadata, "namespace"),
		.name = copy_of(metadata, "name"),
		.node = copy_of(spec, "nodeName")};
	if (!ret_facts->uid || !ret_facts->namespace_ || !ret_facts->name || !ret_facts->node)
		return -ENOMEM;
	if (!*ret_facts->uid || !object_name_is_valid(ret_facts->namespace_) ||
		!object_name_is_valid(ret_facts->name))
		return -EINVAL;
	if (labels_from_json(json_member(metadata, "labels"), &ret_facts->labels) < 0 ||
		wanted_annotations(
			json_member(metadata, "annotations"), annotation_keys, &ret_facts->annotations) < 0 ||
		read_requests(spec, &ret_facts->requests) < 0)
		return -ENOMEM;
	read_state(pod, ret_facts);
	return 0;
}
