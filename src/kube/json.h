/* json.h - reads JSON from other programs without trusting its structure. Every accessor accepts NULL and any
 * type, and returns NULL or an error if the value is not of the requested type. If a key occurs twice, the
 * last one counts, as in Go. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct json_object;
struct strbuf;

/* Deeper documents are refused, because json-c frees recursively. A pod with managed fields is about 15 deep.
 */
#define JSON_DEPTH_MAX 64

/* json_parse() - reads one object or array, followed only by blanks; strict, valid UTF-8. The caller puts
 * *ret_object. -EINVAL, -ENOMEM. */
int json_parse(const char *text, size_t len, struct json_object **ret_object, struct error *err);

/* json_parse_around() - the same for a text without its bytes from gap up to gap_end. */
int json_parse_around(const char *text, size_t len, size_t gap, size_t gap_end,
	struct json_object **ret_object, struct error *err);

/* yaml_to_json() - a YAML document of a user as JSON, as kubectl reads it. The text has exactly one document
 * that is not empty; JSON is YAML, too. The caller puts *ret_object. Limits: as deep as JSON_DEPTH_MAX, and
 * 100,000 values, with aliases expanded. -EINVAL, -E2BIG and -ENOMEM with a sentence. */
int yaml_to_json(const char *text, size_t len, struct json_object **ret_object, struct error *err);

/* json_member() - a member of an object; NULL if it is absent or null, or if `object` is not an object.
 * Borrowed. */
struct json_object *json_member(struct json_object *object, const char *key);

/* json_string() - a string without a NUL inside; NULL for everything else. Borrowed. */
const char *json_string(struct json_object *object);
const char *json_member_string(struct json_object *object, const char *key);

/* json_text_of() - a string member; "" if the object does not have it. json_member_is() - whether the member
 * is this string. json_time_of() - a member like "2026-05-04T03:02:01Z" in seconds since 1970; 0 if it is
 * absent or has another form. */
const char *json_text_of(struct json_object *object, const char *key);
bool json_member_is(struct json_object *object, const char *key, const char *text);
int64_t json_time_of(struct json_object *object, const char *key);

/* json_count() - the number of items of an array; 0 for everything else. json_item() - one of them, borrowed;
 * NULL if there is no such item. json_find() - the first item whose member `key` is this string, likewise. */
size_t json_count(struct json_object *array);
struct json_object *json_item(struct json_object *array, size_t i);
struct json_object *json_find(struct json_object *array, const char *key, const char *text);

/* json_whole() - a whole number within min..max, written as an integer or like 3.0. -EINVAL, -ERANGE. */
int json_whole(struct json_object *object, int64_t min, int64_t max, int64_t *ret_value);

/* json_text() - compact text without escaped slashes; valid until the object changes. NULL when out of
 * memory. */
const char *json_text(struct json_object *object);

/* json_set() - object[key] = value; takes value over in any case. -ENOMEM also if object or value is NULL, so
 * that the result of a json_object_new_*() needs no check. */
int json_set(struct json_object *object, const char *key, struct json_object *value);

/* json_set_text() - json_set() with a string. -ENOMEM also for NULL. json_set_number() - with a number;
 * INT64_MAX for a larger one. json_set_object(), json_set_array() - a new member, empty, borrowed; NULL when
 * out of memory. */
int json_set_text(struct json_object *object, const char *key, const char *text);
int json_set_number(struct json_object *object, const char *key, uint64_t number);
struct json_object *json_set_object(struct json_object *object, const char *key);
struct json_object *json_set_array(struct json_object *object, const char *key);

/* json_append() - adds value to the array; takes it over in any case. -ENOMEM also if one of them is NULL.
 * json_append_object() - a new item, empty, borrowed; NULL when out of memory. */
int json_append(struct json_object *array, struct json_object *value);
struct json_object *json_append_object(struct json_object *array);

/* json_new_text() - a string; an empty one for NULL. NULL when out of memory. */
struct json_object *json_new_text(const char *text);

/* json_new_pair() - an object with this one member. NULL when out of memory. */
struct json_object *json_new_pair(const char *key, const char *text);

/* json_add_string(), json_add_number() - write JSON text without objects, where objects would cost too much.
 */
void json_add_string(struct strbuf *out, const char *text);
void json_add_number(struct strbuf *out, int64_t value);

void json_put_ptr(struct json_object **object);
#define _cleanup_json_ _cleanup_(json_put_ptr)
