/* policies-status.c - the status of a ResourcePolicy, and when it is written. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "kube/json.h"
#include "scheduler/policies-internal.h"

#define CONDITION "Accepted"

static void policy_status_free(struct policy_status *status)
{
	if (!status)
		return;
	free(status->uid);
	free(status->name);
	free(status->written);
	free(status);
}

struct policy_status *policy_status_of(struct policy_namespace *ns, const char *uid, const char *name)
{
	struct policy_status *status = table_get(&ns->statuses, uid);

	if (status)
		return status;
	status = ns->policies->n_statuses < STATUSES_MAX ? calloc(1, sizeof(*status)) : NULL;
	if (!status)
		return NULL;
	status->ns = ns;
	status->uid = strdup(uid);
	status->name = strdup(name);
	if (!status->uid || !status->name || table_set(&ns->statuses, uid, status) < 0) {
		policy_status_free(status);
		return NULL;
	}
	ns->policies->n_statuses++;
	return status;
}

void policy_status_drop(struct policy_namespace *ns, const char *uid)
{
	struct policy_status *status = table_remove(&ns->statuses, uid);

	if (!status)
		return;
	ns->policies->n_statuses--;
	ns->policies->n_crowded -= status->crowded;
	policy_status_free(status);
}

/* If an earlier process wrote the same condition, its time is kept. */
static void find_since(struct policy_status *status, struct json_object *object)
{
	struct json_object *conditions = json_member(json_member(object, "status"), "conditions");
	size_t n = json_count(conditions);

	for (size_t i = 0; i < n; i++) {
		struct json_object *condition = json_object_array_get_idx(conditions, i);
		const char *type = json_member_string(condition, "type"),
			   *value = json_member_string(condition, "status"),
			   *since = json_member_string(condition, "lastTransitionTime");

		if (type && strcmp(type, CONDITION) == 0 && value && since &&
			(strcmp(value, "True") == 0) == status->accepted &&
			strlen(since) < sizeof(status->since))
			strcpy(status->since, since);
	}
}

void policy_status_set(
	struct policy_status *status, struct json_object *object, int result, const char *problem)
{
	struct policies *policies = status->ns->policies;
	bool accepted = result == 0, crowded = result == -E2BIG;

	if (status->accepted != accepted)
		status->since[0] = '\0';
	policies->n_crowded = policies->n_crowded - status->crowded + crowded;
	status->accepted = accepted;
	status->crowded = crowded;
	status->settled = false;
	status->generation = 0;
	json_whole(json_member(json_member(object, "metadata"), "generation"), 1, INT64_MAX,
		&status->generation);
	snprintf(status->problem, sizeof(status->problem), "%s", accepted ? "" : problem);
	status->unit[0] = '\0';
	status->reason[0] = '\0';
	if (!status->since[0])
		find_since(status, object);
	if (!status->since[0]) {
		time_t now = (time_t)(realtime_ns() / NS_PER_S);
		struct tm utc;

		strftime(status->since, sizeof(status->since), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
	}
}

void policy_status_note(struct policy_namespace *ns, const struct resource_policy *policy,
	const struct policy_answer *answer, const char *text)
{
	struct policy_status *status = table_get(&ns->statuses, policy->uid);
	const char *colon = strstr(text, ": ");

	if (!status)
		return;
	if (answer->verdict == POLICY_USE_UNIT)
		snprintf(status->unit, sizeof(status->unit), "%zu/%zu %s", answer->unit + 1, policy->n_units,
			policy_unit_kind_text(policy->units[answer->unit].kind));
	snprintf(status->reason, sizeof(status->reason), "%s", colon ? colon + 2 : text);
}

static struct json_object *units_json(
	struct policy_namespace *ns, const struct resource_policy *policy, int64_t *ret_pods)
{
	struct json_object *rows = json_object_new_array();
	struct policy_unit_usage use[POLICY_UNITS_MAX];

	policy_book_sum(&ns->space->book, policy->uid, use);
	for (size_t i = 0; i < policy->n_units; i++) {
		const struct policy_unit *unit = &policy->units[i];
		struct json_object *row = json_object_new_object();

		json_set(row, "resource", json_object_new_string(policy_unit_kind_text(unit->kind)));
		json_set(row, "pods", json_object_new_int64(use[i].pods));
		if (use[i].terminating)
			json_set(row, "terminating", json_object_new_int64(use[i].terminating));
		if (unit->has_max)
			json_set(row, "max", json_object_new_int64(unit->max));
		json_object_array_add(rows, row);
		*ret_pods += use[i].pods;
	}
	return rows;
}

static struct json_object *condition_json(const struct policy_status *status)
{
	struct json_object *conditions = json_object_new_array(), *condition = json_object_new_object();

	json_set(condition, "type", json_object_new_string(CONDITION));
	json_set(condition, "status", json_object_new_string(status->accepted ? "True" : "False"));
	json_set(condition, "reason",
		json_object_new_string(status->accepted	 ? "Understood"
				       : status->crowded ? "TooMany"
							 : "Malformed"));
	json_set(condition, "message", json_object_new_string(status->problem));
	json_set(condition, "observedGeneration", json_object_new_int64(status->generation));
	json_set(condition, "lastTransitionTime", json_object_new_string(status->since));
	json_object_array_add(conditions, condition);
	return conditions;
}

static struct json_object *status_json(struct policy_status *status)
{
	const struct resource_policy *policy = policy_book_policy(&status->ns->space->book, status->uid);
	struct json_object *root = json_object_new_object(), *object = json_object_new_object();
	int64_t pods = 0;

	json_set(object, "observedGeneration", json_object_new_int64(status->generation));
	json_set(object, "units", policy ? units_json(status->ns, policy, &pods) : json_object_new_array());
	json_set(object, "pods", json_object_new_int64(pods));
	json_set(object, "level", json_object_new_string(status->unit));
	json_set(object, "reason", json_object_new_string(status->reason));
	json_set(object, "conditions", condition_json(status));
	json_set(root, "status", object);
	return root;
}

char *policy_status_text(struct policy_status *status, int64_t now_ns)
{
	struct json_object *root;
	char *text;

	if (status->busy || status->settled || status->not_before_ns > now_ns)
		return NULL;
	root = status_json(status);
	text = json_text(root) ? strdup(json_text(root)) : NULL;
	json_object_put(root);
	if (text && status->written && strcmp(text, status->written) == 0) {
		free(text);
		status->not_before_ns = now_ns + POLICY_STATUS_EVERY_NS;
		return NULL;
	}
	return text;
}
