#include "plan/eviction.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "core/core.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/resource-policy.h"

#define BUDGETS_MAX                                                                                          \
	4 /* how many budgets of one pod are looked for; with more than one, the API server refuses the      \
	     eviction */

struct json_object *plan_controller(struct json_object *pod)
{
	struct json_object *owners = json_member(json_member(pod, "metadata"), "ownerReferences");
	size_t n = json_count(owners);

	for (size_t i = 0; i < n; i++)
		if (json_object_get_boolean(json_member(json_item(owners, i), "controller")))
			return json_item(owners, i);
	return NULL;
}

/* Finds the budgets that the eviction API checks for the pod: none if the pod has not started or is being
 * deleted. It refuses a pod with several budgets (registry/core/pod/storage/eviction.go, 1.36). Returns their
 * number, at most BUDGETS_MAX, or -ENOMEM. */
static int find_budgets(const struct plan_world *world, struct json_object *pod,
	const struct budget *ret_budgets[BUDGETS_MAX])
{
	struct json_object *metadata = json_member(pod, "metadata");
	_cleanup_free_ char *labels = NULL;

	if (labels_from_json(json_member(metadata, "labels"), &labels) < 0)
		return -ENOMEM;
	if (json_member(metadata, "deletionTimestamp") ||
		strcmp(json_text_of(json_member(pod, "status"), "phase"), "Pending") == 0)
		return 0;
	return (int)budgets_matching(
		&world->core->budgets, json_text_of(metadata, "namespace"), labels, ret_budgets, BUDGETS_MAX);
}

/* Returns 1 if the budgets allow the eviction, 0 with the reason, or -ENOMEM. */
static int budgets_allow(
	const struct plan_world *world, const struct table *spent, struct json_object *pod, char *ret_why)
{
	const struct budget *budgets[BUDGETS_MAX];
	int n = find_budgets(world, pod, budgets);
	uintptr_t seen;

	if (n <= 0)
		return n < 0 ? n : 1;
	if (n > 1) {
		snprintf(ret_why, PLAN_WHY_SIZE,
			"more than one PodDisruptionBudget selects it (%.50s, %.50s)", budgets[0]->name,
			budgets[1]->name);
		return 0;
	}
	seen = (uintptr_t)table_get(spent, budgets[0]->uid);
	if (budgets[0]->allowed > (int64_t)seen)
		return 1;
	snprintf(ret_why, PLAN_WHY_SIZE, "PodDisruptionBudget %.100s allows no %seviction now",
		budgets[0]->name, seen ? "further " : "");
	return 0;
}

int plan_may_evict(const struct plan_world *world, const struct table *spent, struct json_object *pod,
	char ret_why[PLAN_WHY_SIZE])
{
	struct json_object *metadata = json_member(pod, "metadata"), *controller = plan_controller(pod);
	int allowed;

	if (json_member(json_member(metadata, "annotations"), ANNOTATION_MIRROR)) {
		snprintf(ret_why, PLAN_WHY_SIZE, "it is a static pod of the node");
		return PLAN_STAYS;
	}
	if (controller && strcmp(json_text_of(controller, "kind"), "DaemonSet") == 0) {
		snprintf(ret_why, PLAN_WHY_SIZE, "DaemonSet %.100s", json_text_of(controller, "name"));
		return PLAN_STAYS;
	}
	allowed = budgets_allow(world, spent, pod, ret_why);
	if (allowed <= 0)
		return allowed < 0 ? allowed : PLAN_FORBIDDEN;
	if (controller)
		return PLAN_RUNS;
	snprintf(ret_why, PLAN_WHY_SIZE, "it has no controller");
	return PLAN_LOST;
}

int plan_spend_budget(const struct plan_world *world, struct table *spent, struct json_object *pod)
{
	const struct budget *budgets[BUDGETS_MAX];
	int n = find_budgets(world, pod, budgets);

	if (n <= 0)
		return n;
	return table_set(spent, budgets[0]->uid, (void *)((uintptr_t)table_get(spent, budgets[0]->uid) + 1));
}
