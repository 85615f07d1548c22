/* The filters of kube-scheduler 1.36 that depend on one node and one pod, in kube-scheduler's order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <json-c/json.h>

#include "kube/json.h"
#include "plan/kube-nodes.h"

/* ---- TaintToleration, NodeUnschedulable (component-helpers v1.Toleration.ToleratesTaint) ---- */

static bool tolerates(struct json_object *toleration, const char *key, const char *value, const char *effect)
{
	const char *its_effect = json_text_of(toleration, "effect"),
		   *its_key = json_text_of(toleration, "key"),
		   *relation = json_text_of(toleration, "operator");

	if (*its_effect && strcmp(its_effect, effect) != 0)
		return false;
	if (*its_key && strcmp(its_key, key) != 0)
		return false;
	if (strcmp(relation, "Exists") == 0)
		return true;
	return (!*relation || strcmp(relation, "Equal") == 0) && *its_key &&
	       strcmp(json_text_of(toleration, "value"), value) == 0;
}

static bool is_tolerated(struct json_object *pod, const char *key, const char *value, const char *effect)
{
	struct json_object *tolerations = json_member(json_member(pod, "spec"), "tolerations");

	for (size_t i = 0; i < json_count(tolerations); i++)
		if (tolerates(json_item(tolerations, i), key, value, effect))
			return true;
	return false;
}

static struct json_object *first_untolerated(const struct kube_node *node, struct json_object *pod)
{
	for (size_t i = 0; i < json_count(node->taints); i++) {
		struct json_object *taint = json_item(node->taints, i);
		const char *effect = json_text_of(taint, "effect");

		if (strcmp(effect, "NoSchedule") != 0 && strcmp(effect, "NoExecute") != 0)
			continue;
		if (!is_tolerated(pod, json_text_of(taint, "key"), json_text_of(taint, "value"), effect))
			return taint;
	}
	return NULL;
}

/* ---- NodeAffinity (component-helpers nodeaffinity) ---- */

static bool is_among(struct json_object *values, const char *text)
{
	for (size_t i = 0; i < json_count(values); i++) {
		const char *value = json_string(json_item(values, i));

		if (value && strcmp(value, text) == 0)
			return true;
	}
	return false;
}

static bool whole_number(const char *text, long long *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = text ? strtoll(text, &end, 10) : 0;
	return text && *text && !*end && errno == 0;
}

/* Gt and Lt compare whole numbers with the only value. */
static bool compares(struct json_object *values, const char *label, bool greater)
{
	long long number, limit;

	if (json_count(values) != 1 || !whole_number(label, &number) ||
		!whole_number(json_string(json_item(values, 0)), &limit))
		return false;
	return greater ? number > limit : number < limit;
}

static bool holds(struct json_object *requirement, const char *label)
{
	const char *relation = json_text_of(requirement, "operator");
	struct json_object *values = json_member(requirement, "values");

	if (strcmp(relation, "In") == 0)
		return label && is_among(values, label);
	if (strcmp(relation, "NotIn") == 0)
		return !label || !is_among(values, label);
	if (strcmp(relation, "Exists") == 0)
		return label;
	if (strcmp(relation, "DoesNotExist") == 0)
		return !label;
	if (strcmp(relation, "Gt") == 0 || strcmp(relation, "Lt") == 0)
		return label && compares(values, label, *relation == 'G');
	return false;
}

/* The only field is metadata.name. A term without requirements matches no node. */
static bool term_holds(struct json_object *term, const struct kube_node *node)
{
	struct json_object *labels = json_member(term, "matchExpressions"),
			   *fields = json_member(term, "matchFields");

	for (size_t i = 0; i < json_count(labels); i++) {
		struct json_object *requirement = json_item(labels, i);

		if (!holds(requirement, json_member_string(node->labels, json_text_of(requirement, "key"))))
			return false;
	}
	for (size_t i = 0; i < json_count(fields); i++) {
		struct json_object *requirement = json_item(fields, i);

		if (strcmp(json_text_of(requirement, "key"), "metadata.name") != 0 ||
			!holds(requirement, node->name))
			return false;
	}
	return json_count(labels) || json_count(fields);
}

static bool is_selected(const struct kube_node *node, struct json_object *pod)
{
	struct json_object *spec = json_member(pod, "spec"), *selector = json_member(spec, "nodeSelector");
	struct json_object *affinity = json_member(json_member(spec, "affinity"), "nodeAffinity");
	struct json_object *required = json_member(
		affinity, "requiredDuringSchedulingIgnoredDuringExecution");
	struct json_object *terms = json_member(required, "nodeSelectorTerms");

	if (json_object_is_type(selector, json_type_object)) {
		json_object_object_foreach (selector, key, value) {
			const char *label = json_member_string(node->labels, key);

			if (!label || !json_string(value) || strcmp(label, json_string(value)) != 0)
				return false;
		}
	}
	for (size_t i = 0; i < json_count(terms); i++)
		if (term_holds(json_item(terms, i), node))
			return true;
	return !required;
}

bool kube_node_admits(const struct kube_node *node, struct json_object *pod, char *ret_reason)
{
	struct json_object *taint;

	if (node->unschedulable && !is_tolerated(pod, "node.kubernetes.io/unschedulable", "", "NoSchedule")) {
		snprintf(ret_reason, KUBE_REASON_SIZE, "node is unschedulable");
		return false;
	}
	taint = first_untolerated(node, pod);
	if (taint) {
		const char *value = json_text_of(taint, "value");

		snprintf(ret_reason, KUBE_REASON_SIZE, "untolerated taint %.70s%s%.40s:%.12s",
			json_text_of(taint, "key"), *value ? "=" : "", value, json_text_of(taint, "effect"));
		return false;
	}
	if (!is_selected(node, pod)) {
		snprintf(ret_reason, KUBE_REASON_SIZE,
			"node does not match the pod's node affinity or nodeSelector");
		return false;
	}
	return true;
}

/* ---- NodeResourcesFit ---- */

bool kube_node_has_room(const struct kube_node *node, const struct quantities *requests, char *ret_reason,
	const char **ret_resource)
{
	*ret_resource = NULL;
	if (node->pods >= node->pods_max) {
		snprintf(ret_reason, KUBE_REASON_SIZE, "too many pods on the node");
		*ret_resource = "pods";
		return false;
	}
	for (size_t i = 0; i < requests->n; i++) {
		const struct quantity *request = &requests->list[i];

		if (!request->milli ||
			request->milli <= quantities_get(&node->allocatable, request->name) -
						  quantities_get(&node->requested, request->name))
			continue;
		snprintf(ret_reason, KUBE_REASON_SIZE, "insufficient %.120s", request->name);
		*ret_resource = request->name;
		return false;
	}
	return true;
}
