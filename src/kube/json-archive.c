#include "kube/json-archive.h"

#include <json-c/json.h>

#include "kube/json.h"

static void *json_member_of(void *value, const char *key)
{
	return json_member(value, key);
}

static void *json_item_of(void *value, size_t i)
{
	return json_object_is_type(value, json_type_array) ? json_object_array_get_idx(value, i) : NULL;
}

static const char *json_text_of(void *value)
{
	return json_string(value);
}

static bool json_length_of(void *value, size_t *ret_n)
{
	if (!json_object_is_type(value, json_type_array))
		return false;
	*ret_n = json_object_array_length(value);
	return true;
}

static bool json_number_of(void *value, int64_t min, int64_t max, int64_t *ret_number)
{
	return json_whole(value, min, max, ret_number) == 0;
}

static bool json_boolean_of(void *value, bool *ret_boolean)
{
	if (!json_object_is_type(value, json_type_boolean))
		return false;
	*ret_boolean = json_object_get_boolean(value);
	return true;
}

const struct archive_format json_archive = {
	.add_text = json_add_string,
	.add_number = json_add_number,
	.member = json_member_of,
	.item = json_item_of,
	.text = json_text_of,
	.length = json_length_of,
	.number = json_number_of,
	.boolean = json_boolean_of,
};
