#include "cli/fields.h"

#include <json-c/json.h>

#include "kube/json.h"

const char *text_of(struct json_object *object, const char *key)
{
	const char *text = json_member_string(object, key);

	return text ? text : "";
}

int64_t number_of(struct json_object *object, const char *key)
{
	int64_t number = 0;

	json_whole(json_member(object, key), INT64_MIN, INT64_MAX, &number);
	return number;
}

bool is_true(struct json_object *object, const char *key)
{
	struct json_object *value = json_member(object, key);

	return json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
}

size_t count_of(struct json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

struct json_object *item_of(struct json_object *array, size_t i)
{
	return i < count_of(array) ? json_object_array_get_idx(array, i) : NULL;
}

const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}
