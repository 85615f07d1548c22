#include "cli/fields.h"

#include <inttypes.h>

#include <json-c/json.h>

#include "base/strbuf.h"
#include "kube/json.h"

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

const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

void add_bytes(struct strbuf *out, uint64_t bytes)
{
	static const char *const names[] = {"bytes", "KiB", "MiB", "GiB"};
	size_t unit = 0;

	while (unit < 3 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	strbuf_addf(out, "%" PRIu64 " %s", bytes, names[unit]);
}

int add_document(struct strbuf *out, struct json_object *object)
{
	return strbuf_addf(out, "%s\n",
		json_object_to_json_string_ext(object,
			JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE));
}
