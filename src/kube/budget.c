#include "kube/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/preemption/budget.h"
#include "kube/json.h"
#include "kube/selector.h"

static void budget_free_ptr(struct budget **budget)
{
	budget_free(*budget);
}

static char *member_copy(struct json_object *object, const char *key)
{
	const char *text = json_member_string(object, key);

	return text && *text ? strdup(text) : NULL;
}

int budget_from_json(struct json_object *object, struct budget **ret_budget, struct error *err)
{
	_cleanup_(budget_free_ptr) struct budget *budget = calloc(1, sizeof(*budget));
	struct json_object *metadata = json_member(object, "metadata");
	int r;

	if (!budget)
		return error_set(err, ENOMEM, "out of memory");
	budget->uid = member_copy(metadata, "uid");
	budget->name = member_copy(metadata, "name");
	budget->namespace_ = member_copy(metadata, "namespace");
	if (!budget->uid || !budget->name || !budget->namespace_)
		return error_set(err, EINVAL, "PodDisruptionBudget without a uid, a name or a namespace");
	r = selector_from_json(json_member(json_member(object, "spec"), "selector"), &budget->selector);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	budget->selector.selects_nothing = r < 0;
	json_whole(json_member(json_member(object, "status"), "disruptionsAllowed"), 0, INT32_MAX,
		&budget->allowed);
	*ret_budget = TAKE_PTR(budget);
	return 0;
}
