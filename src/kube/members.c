#include "kube/members.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "kube/json.h"
#include "model/quantity.h"

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool member_is_name(const char *text, const char *others)
{
	bool begins = true;

	for (; *text; text++) {
		if (!is_plain(*text) && (begins || !strchr(others, *text)))
			return false;
		begins = *text == '.' || *text == '/';
	}
	return !begins;
}

int member_name(struct json_object *object, const char *key, const char *others, char *ret_name, size_t size,
	struct error *err)
{
	const char *text = json_member_string(object, key);

	if (!text || !*text)
		return error_set(err, EINVAL, "%s is missing", key);
	if (strlen(text) >= size)
		return error_set(err, EINVAL, "%s has more than %zu characters", key, size - 1);
	if (!member_is_name(text, others))
		return error_set(err, EINVAL, "%s is \"%s\", which is not a name", key, text);
	memcpy(ret_name, text, strlen(text) + 1);
	return 0;
}

int member_list(struct json_object *object, const char *key, size_t max, struct json_object **ret_list,
	size_t *ret_n, struct error *err)
{
	struct json_object *list = json_member(object, key);

	*ret_list = list;
	*ret_n = 0;
	if (!list)
		return 0;
	if (!json_object_is_type(list, json_type_array))
		return error_set(err, EINVAL, "%s is not a list", key);
	*ret_n = json_object_array_length(list);
	if (*ret_n > max)
		return error_set(err, EINVAL, "%s has %zu entries, more than %zu", key, *ret_n, max);
	return 0;
}

int member_bool(struct json_object *object, const char *key, bool *ret_value, struct error *err)
{
	struct json_object *member = json_member(object, key);

	*ret_value = false;
	if (member && !json_object_is_type(member, json_type_boolean))
		return error_set(err, EINVAL, "%s is neither true nor false", key);
	if (member)
		*ret_value = json_object_get_boolean(member);
	return 0;
}

const char *member_quantity_text(struct json_object *value)
{
	return json_object_is_type(value, json_type_int) ? json_object_get_string(value) : json_string(value);
}

int member_amount(
	struct json_object *value, const char *what, int64_t max, int64_t *ret_value, struct error *err)
{
	const char *text = member_quantity_text(value);
	int r = text ? quantity_parse_count(text, ret_value) : -EINVAL;

	if (r == -EDOM)
		return error_set(err, EINVAL, "%s is %.40s: must not be negative", what, text);
	if (r == -EILSEQ)
		return error_set(err, EINVAL, "%s is %.40s: must be a whole number", what, text);
	if (r == -ERANGE || (r == 0 && *ret_value > max))
		return error_set(err, EINVAL, "%s is %.40s: must be at most %" PRId64, what, text, max);
	if (r < 0)
		return error_set(err, EINVAL, "%s is not a quantity", what);
	return 0;
}
