#include "kube/json.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

static void tokener_free_ptr(struct json_tokener **tokener)
{
	if (*tokener)
		json_tokener_free(*tokener);
}

struct json_object *json_new_text(const char *text)
{
	return json_object_new_string(text ? text : "");
}

struct json_object *json_new_pair(const char *key, const char *text)
{
	struct json_object *object = json_object_new_object();

	if (object && json_set(object, key, json_object_new_string(text)) < 0) {
		json_object_put(object);
		return NULL;
	}
	return object;
}

void json_put_ptr(struct json_object **object)
{
	json_object_put(*object);
}

static int only_blanks(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!memchr(" \t\r\n", text[i], 4))
			return 0;
	return 1;
}

int json_parse(const char *text, size_t len, struct json_object **ret_object, struct error *err)
{
	return json_parse_around(text, len, len, len, ret_object, err);
}

int json_parse_around(const char *text, size_t len, size_t gap, size_t gap_end,
	struct json_object **ret_object, struct error *err)
{
	_cleanup_(tokener_free_ptr) struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
	_cleanup_json_ struct json_object *object = NULL;
	size_t begin = gap < len ? gap_end : 0, end;

	if (!tokener)
		return error_set(err, ENOMEM, "out of memory");
	if (len > INT_MAX)
		return error_set(err, EINVAL, "JSON of %zu bytes is too large", len);
	json_tokener_set_flags(tokener,
		JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 | JSON_TOKENER_ALLOW_TRAILING_CHARS);
	if (begin)
		object = json_tokener_parse_ex(tokener, text, (int)gap);
	if (!begin || json_tokener_get_error(tokener) == json_tokener_continue)
		object = json_tokener_parse_ex(tokener, text + begin, (int)(len - begin));
	else
		begin = 0; /* the end or the mistake is before the gap */
	end = begin + json_tokener_get_parse_end(tokener);
	if (json_tokener_get_error(tokener) == json_tokener_continue)
		return error_set(err, EINVAL, "no valid JSON: it ends in the middle");
	if (json_tokener_get_error(tokener) != json_tokener_success)
		return error_set(err, EINVAL, "no valid JSON: %s at byte %zu",
			json_tokener_error_desc(json_tokener_get_error(tokener)), end);
	if (!json_object_is_type(object, json_type_object) && !json_object_is_type(object, json_type_array))
		return error_set(err, EINVAL, "neither a JSON object nor an array");
	if (!only_blanks(text + end, len - end))
		return error_set(err, EINVAL, "no valid JSON: text after the end at byte %zu", end);
	*ret_object = TAKE_PTR(object);
	return 0;
}

struct json_object *json_member(struct json_object *object, const char *key)
{
	struct json_object *member = NULL;

	if (!json_object_is_type(object, json_type_object))
		return NULL;
	json_object_object_get_ex(object, key, &member);
	return member;
}

const char *json_string(struct json_object *object)
{
	const char *text;

	if (!json_object_is_type(object, json_type_string))
		return NULL;
	text = json_object_get_string(object);
	return strlen(text) == (size_t)json_object_get_string_len(object) ? text : NULL;
}

const char *json_member_string(struct json_object *object, const char *key)
{
	return json_string(json_member(object, key));
}

const char *json_text_of(struct json_object *object, const char *key)
{
	const char *text = json_member_string(object, key);

	return text ? text : "";
}

bool json_member_is(struct json_object *object, const char *key, const char *text)
{
	const char *found = json_member_string(object, key);

	return found && strcmp(found, text) == 0;
}

int64_t json_time_of(struct json_object *object, const char *key)
{
	struct tm tm = {0};
	const char *text = json_member_string(object, key),
		   *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm) : NULL;

	return end && !*end ? timegm(&tm) : 0;
}

/* Doubles are exact for whole numbers up to 2^53; larger ones are refused, not rounded. */
static int whole_double(double value, int64_t *ret_value)
{
	const double exact = (double)(INT64_C(1) << 53);

	if (!isfinite(value))
		return -EINVAL;
	if (value < -exact || value > exact)
		return -ERANGE;
	if (value != (double)(int64_t)value)
		return -EINVAL;
	*ret_value = (int64_t)value;
	return 0;
}

size_t json_count(struct json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

struct json_object *json_item(struct json_object *array, size_t i)
{
	return i < json_count(array) ? json_object_array_get_idx(array, i) : NULL;
}

struct json_object *json_find(struct json_object *array, const char *key, const char *text)
{
	for (size_t i = 0; i < json_count(array); i++)
		if (json_member_is(json_item(array, i), key, text))
			return json_item(array, i);
	return NULL;
}

int json_whole(struct json_object *object, int64_t min, int64_t max, int64_t *ret_value)
{
	int64_t value;
	int r;

	if (json_object_is_type(object, json_type_int)) {
		/* For larger values json-c returns INT64_MAX here. */
		value = json_object_get_int64(object);
	} else if (json_object_is_type(object, json_type_double)) {
		r = whole_double(json_object_get_double(object), &value);
		if (r < 0)
			return r;
	} else {
		return -EINVAL;
	}
	if (value < min || value > max)
		return -ERANGE;
	*ret_value = value;
	return 0;
}

const char *json_text(struct json_object *object)
{
	return json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

int json_set(struct json_object *object, const char *key, struct json_object *value)
{
	if (value && object && json_object_object_add(object, key, value) == 0)
		return 0;
	json_object_put(value);
	return -ENOMEM;
}

int json_set_text(struct json_object *object, const char *key, const char *text)
{
	return text ? json_set(object, key, json_object_new_string(text)) : -ENOMEM;
}

int json_set_number(struct json_object *object, const char *key, uint64_t number)
{
	return json_set(object, key, json_object_new_int64(number > INT64_MAX ? INT64_MAX : (int64_t)number));
}

struct json_object *json_set_object(struct json_object *object, const char *key)
{
	struct json_object *member = json_object_new_object();

	return json_set(object, key, member) == 0 ? member : NULL;
}

struct json_object *json_set_array(struct json_object *object, const char *key)
{
	struct json_object *member = json_object_new_array();

	return json_set(object, key, member) == 0 ? member : NULL;
}

int json_append(struct json_object *array, struct json_object *value)
{
	if (value && array && json_object_array_add(array, value) == 0)
		return 0;
	json_object_put(value);
	return -ENOMEM;
}

struct json_object *json_append_object(struct json_object *array)
{
	struct json_object *item = json_object_new_object();

	return json_append(array, item) == 0 ? item : NULL;
}

/* Most text is plain: names, uids. But an unknown sender can write anything. */
static bool is_plain(const char *text, size_t *ret_len)
{
	const unsigned char *p = (const unsigned char *)text;

	for (; *p; p++)
		if (*p < ' ' || *p == '"' || *p == '\\' || *p >= 0x7f)
			return false;
	*ret_len = (size_t)(p - (const unsigned char *)text);
	return true;
}

void json_add_string(struct strbuf *out, const char *text)
{
	_cleanup_json_ struct json_object *string = NULL;
	size_t len;

	if (is_plain(text, &len)) {
		strbuf_add(out, "\"", 1);
		strbuf_add(out, text, len);
		strbuf_add(out, "\"", 1);
		return;
	}
	string = json_object_new_string(text);
	strbuf_adds(out, string ? json_text(string) : "\"\"");
}

void json_add_number(struct strbuf *out, int64_t value)
{
	uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
	char digits[24], *first = digits + sizeof(digits);

	do
		*--first = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		*--first = '-';
	strbuf_add(out, first, (size_t)(digits + sizeof(digits) - first));
}
