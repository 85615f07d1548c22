#include "kube/resource-policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/object-name.h"
#include "kube/selector.h"
#include "model/quantity.h"

/* Go's time.Duration has no larger values, and no plan needs more: the machine's clock does not reach that
 * far. */
#define TIMEOUT_MAX_S (365 * 24 * 3600)

static void policy_free_ptr(struct resource_policy **policy)
{
	resource_policy_free(*policy);
}

/* Beginnings of keys that a ResourcePolicy must not set. They ask for GPUs, say where GPUs are, or belong to
 * this scheduler. The scheduler writes with its own rights, which the policy ration-placement-keys lets pass.
 * So the author of a ResourcePolicy could forge such keys. */
static const char *const reserved[] = {"ration.dev/", "scheduler.framework.gpushare.",
	"gpushare.alibabacloud.com/", "ALIYUN_COM_GPU_", "topology.kubernetes.io/gpu-", RESOURCE_GPU,
	LABEL_GPU_TOPOLOGY, "pod-group.scheduling.sigs.k8s.io/", LABEL_POD_GROUP, ANNOTATION_DELETION_COST};

static int check_written(const struct label_pairs *pairs, const char *what, size_t at, struct error *err)
{
	for (size_t i = 0; i < pairs->n; i++)
		for (size_t k = 0; k < ARRAY_SIZE(reserved); k++)
			if (strncmp(pairs->list[i].key, reserved[k], strlen(reserved[k])) == 0)
				return error_set(err, EINVAL,
					"units[%zu].%s: %.100s cannot be written to pods by a ResourcePolicy",
					at, what, pairs->list[i].key);
	return 0;
}

static int read_pairs(
	struct json_object *object, const char *what, size_t at, struct label_pairs *pairs, struct error *err)
{
	if (!object)
		return 0;
	if (!json_object_is_type(object, json_type_object))
		return error_set(err, EINVAL, "units[%zu].%s is not an object of strings", at, what);
	json_object_object_foreach (object, key, value) {
		const char *text = json_string(value);
		int r;

		if (!text || strpbrk(text, "\n") || strpbrk(key, "=\n"))
			return error_set(err, EINVAL,
				"units[%zu].%s: the value of %.100s is not a text of one line", at, what,
				key);
		r = label_pairs_add(pairs, key, text);
		if (r == -E2BIG)
			return error_set(err, EINVAL, "units[%zu].%s has more than %d entries", at, what,
				POLICY_PAIRS_MAX);
		if (r < 0)
			return error_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* Quantities are written as strings or as bare numbers. */
static const char *quantity_text(struct json_object *value)
{
	if (json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double))
		return json_object_get_string(value);
	return json_string(value);
}

static int read_max_resources(
	struct json_object *object, size_t at, struct amounts *amounts, struct error *err)
{
	if (!object)
		return 0;
	if (!json_object_is_type(object, json_type_object) ||
		json_object_object_length(object) > POLICY_RESOURCES_MAX)
		return error_set(err, EINVAL,
			"units[%zu].maxResources is not an object of at most %d quantities", at,
			POLICY_RESOURCES_MAX);
	json_object_object_foreach (object, resource, value) {
		const char *text = quantity_text(value);
		int64_t milli;

		if (!text || quantity_parse_milli(text, &milli) < 0)
			return error_set(
				err, EINVAL, "units[%zu].maxResources: %.100s is no quantity", at, resource);
		if (amounts_add(amounts, resource, milli) < 0)
			return error_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* Reads the podLabels. One of them asks to wait for nodes; it is neither written nor counted (contract.md).
 */
static int read_pod_labels(struct json_object *object, size_t at, struct policy_unit *unit, struct error *err)
{
	_cleanup_json_ struct json_object *written = NULL;
	struct json_object *labels = json_member(object, "podLabels");

	unit->awaits_scaling = json_member_is(labels, LABEL_AWAITS_SCALING, "true");
	if (!json_object_is_type(labels, json_type_object))
		return read_pairs(labels, "podLabels", at, &unit->pod_labels, err);
	written = json_object_new_object();
	json_object_object_foreach (labels, key, value)
		if (strcmp(key, LABEL_AWAITS_SCALING) != 0 &&
			json_object_object_add(written, key, json_object_get(value)) < 0)
			return error_set(err, ENOMEM, "out of memory");
	return read_pairs(written, "podLabels", at, &unit->pod_labels, err);
}

static int read_unit(struct json_object *object, size_t at, struct policy_unit *unit, struct error *err)
{
	const char *kind = json_member_string(object, "resource");
	struct json_object *max = json_member(object, "max");
	int64_t number;
	int r;

	if (!kind || policy_unit_kind_parse(kind, &unit->kind) < 0)
		return error_set(err, EINVAL,
			"units[%zu].resource is %.40s: must be idc, ecs, eci, acs or elastic", at,
			kind ? kind : "missing");
	unit->has_max = max != NULL;
	if (max && json_whole(max, 0, INT32_MAX, &number) < 0)
		return error_set(err, EINVAL, "units[%zu].max is not a number from 0 to 2147483647", at);
	unit->max = max ? (uint32_t)number : 0;
	r = read_pairs(json_member(object, "nodeSelector"), "nodeSelector", at, &unit->node_selector, err);
	if (r == 0)
		r = read_max_resources(json_member(object, "maxResources"), at, &unit->max_resources, err);
	if (r == 0)
		r = read_pod_labels(object, at, unit, err);
	if (r == 0)
		r = read_pairs(json_member(object, "podAnnotations"), "podAnnotations", at,
			&unit->pod_annotations, err);
	if (r == 0)
		r = check_written(&unit->pod_labels, "podLabels", at, err);
	return r == 0 ? check_written(&unit->pod_annotations, "podAnnotations", at, err) : r;
}

static int read_units(struct json_object *spec, struct resource_policy *policy, struct error *err)
{
	struct json_object *units = json_member(spec, "units");
	size_t n = json_count(units);
	int r = 0;

	if (n == 0 || n > POLICY_UNITS_MAX)
		return error_set(err, EINVAL, "units is not a list of 1 to %d units", POLICY_UNITS_MAX);
	for (size_t i = 0; r == 0 && i < n; i++) {
		policy->n_units = i + 1;
		r = read_unit(json_object_array_get_idx(units, i), i, &policy->units[i], err);
	}
	return r;
}

static int read_keys(struct json_object *spec, struct resource_policy *policy, struct error *err)
{
	struct json_object *keys = json_member(spec, "matchLabelKeys");
	size_t n = json_count(keys);

	if ((keys && !json_object_is_type(keys, json_type_array)) || n > POLICY_KEYS_MAX)
		return error_set(
			err, EINVAL, "matchLabelKeys is not a list of at most %d labels", POLICY_KEYS_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *key = json_string(json_object_array_get_idx(keys, i));

		if (!key || !*key)
			return error_set(err, EINVAL, "matchLabelKeys[%zu] is no label", i);
		policy->keys[i] = strdup(key);
		if (!policy->keys[i])
			return error_set(err, ENOMEM, "out of memory");
		policy->n_keys = i + 1;
	}
	return 0;
}

/* Reads one "<number><unit>" of a Go duration, in nanoseconds. */
static int duration_part(const char **text, double *ret_ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"\xc2\xb5s", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9},
		{"h", 3600e9}};
	double value = 0, scale = 1;
	const char *p = *text;
	bool digits = false;

	for (; *p >= '0' && *p <= '9'; p++, digits = true)
		value = value * 10 + (*p - '0');
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, digits = true)
			value += (*p - '0') * (scale /= 10);
	for (size_t i = 0; digits && i < ARRAY_SIZE(units); i++) {
		size_t len = strlen(units[i].unit);
		char after;

		if (strncmp(p, units[i].unit, len) != 0)
			continue;
		after = p[len];
		if (after && after != '.' && (after < '0' || after > '9'))
			continue;
		*text = p + len;
		*ret_ns = value * units[i].ns;
		return 0;
	}
	return -EINVAL;
}

/* As in metav1.Duration: "1h30m", "90s", "1.5m". */
static int duration_parse(const char *text, int64_t *ret_ns)
{
	double ns = 0, part;

	if (!*text)
		return -EINVAL;
	while (*text) {
		if (duration_part(&text, &part) < 0)
			return -EINVAL;
		ns += part;
	}
	if (ns > (double)TIMEOUT_MAX_S * 1e9)
		return -ERANGE;
	*ret_ns = (int64_t)ns;
	return 0;
}

static int read_advance(struct json_object *spec, struct resource_policy *policy, struct error *err)
{
	struct json_object *when = json_member(spec, "whenTryNextUnits"),
			   *timeout = json_member(when, "timeout");
	struct json_object *value = json_member(when, "policy");
	const char *text = json_string(value);

	if (value && (!text || policy_advance_parse(text, &policy->advance) < 0))
		return error_set(err, EINVAL,
			"whenTryNextUnits.policy is %.60s: must be LackResourceOrExceedMax, ExceedMax, TimeoutOrExceedMax, LackResourceAndNoTerminating or Timeout",
			text ? text : "no text");
	text = json_string(timeout);
	if (timeout && (!text || duration_parse(text, &policy->timeout_ns) < 0))
		return error_set(err, EINVAL,
			"whenTryNextUnits.timeout is %.60s: must be a duration such as 90s or 15m, at most a year",
			text ? text : "no text");
	return 0;
}

static int read_flag(struct json_object *spec, const char *key, bool *flag, struct error *err)
{
	struct json_object *value = json_member(spec, key);

	if (!value)
		return 0;
	if (!json_object_is_type(value, json_type_boolean))
		return error_set(err, EINVAL, "%s is neither true nor false", key);
	*flag = json_object_get_boolean(value);
	return 0;
}

static int read_choices(struct json_object *spec, struct resource_policy *policy, struct error *err)
{
	struct json_object *value = json_member(spec, "preemptPolicy");
	const char *text = value ? json_string(value) : "AfterAllUnits";
	const char *strategy = json_member_string(spec, "strategy");
	int r;

	if (json_member(spec, "strategy") && (!strategy || strcmp(strategy, "prefer") != 0))
		return error_set(
			err, EINVAL, "strategy is %.40s: must be prefer", strategy ? strategy : "no text");
	policy->preempts_each = text && strcmp(text, "BeforeNextUnit") == 0;
	if (!text || (!policy->preempts_each && strcmp(text, "AfterAllUnits") != 0))
		return error_set(err, EINVAL,
			"preemptPolicy is %.40s: must be AfterAllUnits or BeforeNextUnit",
			text ? text : "no text");
	r = read_flag(spec, "ignorePreviousPod", &policy->ignores_previous, err);
	return r < 0 ? r : read_flag(spec, "ignoreTerminatingPod", &policy->ignores_terminating, err);
}

static int read_selector(struct json_object *spec, struct resource_policy *policy, struct error *err)
{
	int r = selector_read_labels(json_member(spec, "selector"), &policy->selector);

	if (r == 0)
		r = selector_read_expressions(json_member(spec, "matchExpressions"), &policy->selector);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	return r < 0 ? error_set(err, EINVAL, "selector or matchExpressions cannot be understood") : 0;
}

static int read_identity(struct json_object *object, struct resource_policy *policy, struct error *err)
{
	struct json_object *metadata = json_member(object, "metadata");
	const char *uid = json_member_string(metadata, "uid"), *name = json_member_string(metadata, "name"),
		   *namespace_ = json_member_string(metadata, "namespace");

	if (!uid || !*uid || !name || !object_name_is_valid(name) || !namespace_ ||
		!object_name_is_valid(namespace_))
		return error_set(err, EINVAL, "a ResourcePolicy without a uid, a name or a namespace");
	policy->uid = strdup(uid);
	policy->name = strdup(name);
	policy->namespace_ = strdup(namespace_);
	policy->created = json_time_of(metadata, "creationTimestamp");
	json_whole(json_member(metadata, "generation"), 0, INT64_MAX, &policy->generation);
	return policy->uid && policy->name && policy->namespace_ ? 0
								 : error_set(err, ENOMEM, "out of memory");
}

int resource_policy_from_json(
	struct json_object *object, struct resource_policy **ret_policy, struct error *err)
{
	_cleanup_(policy_free_ptr) struct resource_policy *policy = resource_policy_new();
	struct json_object *spec = json_member(object, "spec");
	int r;

	if (!policy)
		return error_set(err, ENOMEM, "out of memory");
	r = read_identity(object, policy, err);
	if (r == 0)
		r = read_selector(spec, policy, err);
	if (r == 0)
		r = read_units(spec, policy, err);
	if (r == 0)
		r = read_keys(spec, policy, err);
	if (r == 0)
		r = read_choices(spec, policy, err);
	if (r == 0)
		r = read_advance(spec, policy, err);
	if (r == 0)
		*ret_policy = TAKE_PTR(policy);
	return r;
}
