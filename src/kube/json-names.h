/* json-names.h - an object with one long array of strings, such as ExtenderArgs and its NodeNames.
 *
 * A json_object for each of 5,000 names costs more than the decision about them (measured: half of a filter
 * call). So an array of strings without escapes is copied out of the text, and only the rest becomes objects.
 * json_parse() reads any other array: the result is the same, only later. */
#pragma once

#include <stddef.h>

struct error;
struct json_object;

struct json_names {
	const char **names; /* NULL: the object has no such array */
	size_t n;
	char *text; /* memory for names; NULL: names point into the object */
};

/* json_parse_names() - json_parse() of an object whose member `key` becomes *ret_names; the member itself may
 * be empty afterwards. An element that is not a string becomes "". Names are valid until
 * json_names_release(), and not longer than the object. -EINVAL, -ENOMEM. */
int json_parse_names(const char *text, size_t len, const char *key, struct json_object **ret_object,
	struct json_names *ret_names, struct error *err);
void json_names_release(struct json_names *names);
#define _cleanup_json_names_ _cleanup_(json_names_release)
