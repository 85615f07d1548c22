#include "kube/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/json.h"
#include "model/budget.h"

static void budget_free_ptr(struct budget **budget)
{
	budget_free(*budget);
}

static char *member_copy(struct json_object *object, const char *key)
{
	const char *text = json_member_string(object, key);

	return text && *text ? strdup(text) : NULL;
}

static int read_match_labels(struct json_object *labels, struct budget *budget)
{
	if (!labels)
		return 0;
	if (!json_object_is_type(labels, json_type_object))
		return -EINVAL;
	json_object_object_foreach (labels, key, value) {
		const char *text = json_string(value);
		int r = text ? budget_require(budget, key, SELECTOR_IN, &text, 1) : -EINVAL;

		if (r < 0)
			return r;
	}
	return 0;
}

static int operator_parse(const char *text, enum selector_operator *ret_operator)
{
	static const char *const texts[] = {[SELECTOR_IN] = "In",
		[SELECTOR_NOT_IN] = "NotIn",
		[SELECTOR_EXISTS] = "Exists",
		[SELECTOR_DOES_NOT_EXIST] = "DoesNotExist"};

	for (size_t i = 0; text && i < ARRAY_SIZE(texts); i++)
		if (strcmp(text, texts[i]) == 0) {
			*ret_operator = (enum selector_operator)i;
			return 0;
		}
	return -EINVAL;
}

static int read_expression(struct json_object *expression, struct budget *budget)
{
	struct json_object *list = json_member(expression, "values");
	size_t n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
	_cleanup_free_ const char **values = calloc(n + 1, sizeof(*values));
	const char *key = json_member_string(expression, "key");
	enum selector_operator operator;

	if (!values)
		return -ENOMEM;
	if (!key || operator_parse(json_member_string(expression, "operator"), &operator) < 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		values[i] = json_string(json_object_array_get_idx(list, i));
		if (!values[i])
			return -EINVAL;
	}
	return budget_require(budget, key, operator, values, n);
}

static int read_selector(struct json_object *selector, struct budget *budget)
{
	struct json_object *expressions = json_member(selector, "matchExpressions");
	int r;

	if (!json_object_is_type(selector, json_type_object))
		return -EINVAL;
	r = read_match_labels(json_member(selector, "matchLabels"), budget);
	if (r == 0 && expressions && !json_object_is_type(expressions, json_type_array))
		r = -EINVAL;
	for (size_t i = 0; r == 0 && expressions && i < json_object_array_length(expressions); i++)
		r = read_expression(json_object_array_get_idx(expressions, i), budget);
	return r;
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
	r = read_selector(json_member(json_member(object, "spec"), "selector"), budget);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	budget->selects_nothing = r < 0;
	json_whole(json_member(json_member(object, "status"), "disruptionsAllowed"), 0, INT32_MAX,
		&budget->allowed);
	*ret_budget = TAKE_PTR(budget);
	return 0;
}
