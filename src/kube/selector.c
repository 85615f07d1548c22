#include "kube/selector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "kube/json.h"
#include "model/selector.h"

int selector_read_labels(struct json_object *labels, struct selector *selector)
{
	if (!labels)
		return 0;
	if (!json_object_is_type(labels, json_type_object))
		return -EINVAL;
	json_object_object_foreach (labels, key, value) {
		const char *text = json_string(value);
		int r = text ? selector_require(selector, key, SELECTOR_IN, &text, 1) : -EINVAL;

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

static int read_expression(struct json_object *expression, struct selector *selector)
{
	struct json_object *list = json_member(expression, "values");
	size_t n = json_count(list);
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
	return selector_require(selector, key, operator, values, n);
}

int selector_read_expressions(struct json_object *expressions, struct selector *selector)
{
	int r = 0;

	if (!expressions)
		return 0;
	if (!json_object_is_type(expressions, json_type_array))
		return -EINVAL;
	for (size_t i = 0; r == 0 && i < json_object_array_length(expressions); i++)
		r = read_expression(json_object_array_get_idx(expressions, i), selector);
	return r;
}

int selector_from_json(struct json_object *object, struct selector *selector)
{
	int r;

	if (!json_object_is_type(object, json_type_object))
		return -EINVAL;
	r = selector_read_labels(json_member(object, "matchLabels"), selector);
	return r < 0 ? r : selector_read_expressions(json_member(object, "matchExpressions"), selector);
}
