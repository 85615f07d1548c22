#include "kube/json-names.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/json.h"

/* The array's place in the text: from behind its '[' up to its ']'. */
struct span {
	const char *begin, *end;
	size_t n;     /* number of strings in it */
	bool unclear; /* the key may be there once more */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && is_blank(*at))
		at++;
	return at;
}

/* at: behind the opening quote. Returns the closing quote; NULL if the text ends before it. */
static const char *string_end(const char *at, const char *end)
{
	for (; at < end && *at != '"'; at++)
		if (*at == '\\' && ++at == end)
			return NULL;
	return at < end ? at : NULL;
}

/* Returns the closing quote of a string without escapes; else NULL. */
static const char *plain_string_end(const char *at, const char *end)
{
	while (at < end && *at != '"' && *at != '\\' && *at >= ' ' && *at < 0x7f)
		at++;
	return at < end && *at == '"' ? at : NULL;
}

/* at: behind '['. Fills the span if the array has only strings without escapes. */
static void measure_array(const char *at, const char *end, struct span *span)
{
	const char *begin = at = skip_blanks(at, end);
	size_t n = 0;

	while (at < end && *at == '"') {
		at = plain_string_end(at + 1, end);
		if (!at)
			return;
		n++;
		at = skip_blanks(at + 1, end);
		if (at == end || *at != ',')
			break;
		at = skip_blanks(at + 1, end);
		if (at == end || *at != '"')
			return;
	}
	if (at < end && *at == ']')
		*span = (struct span){.begin = begin, .end = at, .n = n, .unclear = span->unclear};
}

/* at: the closing quote of the key. Returns where to continue. */
static const char *consider_key(const char *at, const char *end, struct span *span)
{
	const char *value = skip_blanks(at + 1, end);

	if (value == end || *value != ':')
		return at; /* this is a value with the text of the key */
	value = skip_blanks(value + 1, end);
	if (span->begin)
		span->unclear = true;
	else if (value < end && *value == '[')
		measure_array(value + 1, end, span);
	return span->begin > at ? span->end : at;
}

/* Finds the array of the outermost object. It only counts brackets; json_parse() checks whether the text is
 * JSON. */
static void find_array(const char *text, size_t len, const char *key, struct span *span)
{
	const char *end = text + len;
	size_t key_len = strlen(key);
	int depth = 0;

	for (const char *at = text; at < end; at++) {
		const char *quote = at;

		if (*at == '{' || *at == '[')
			depth++;
		else if (*at == '}' || *at == ']')
			depth--;
		if (*at != '"')
			continue;
		at = string_end(at + 1, end);
		if (!at)
			return;
		if (depth != 1)
			continue;
		if (memchr(quote, '\\', (size_t)(at - quote)))
			span->unclear = true; /* "NodeNam\u0065s" is the same key */
		else if ((size_t)(at - quote - 1) == key_len && memcmp(quote + 1, key, key_len) == 0)
			at = consider_key(at, end, span);
	}
}

static int take_from_text(const struct span *span, struct json_names *names)
{
	size_t len = (size_t)(span->end - span->begin);
	char *at;

	names->names = calloc(span->n + 1, sizeof(*names->names));
	names->text = malloc(len + 1);
	if (!names->names || !names->text)
		return -ENOMEM;
	memcpy(names->text, span->begin, len);
	at = names->text;
	for (; names->n < span->n; names->n++) {
		char *quote = memchr(at, '"', (size_t)(names->text + len - at));

		names->names[names->n] = quote + 1;
		at = memchr(quote + 1, '"', (size_t)(names->text + len - quote - 1));
		*at++ = '\0';
	}
	return 0;
}

static int take_from_object(struct json_object *object, const char *key, struct json_names *names)
{
	struct json_object *array = json_member(object, key);
	size_t n;

	if (!json_object_is_type(array, json_type_array))
		return 0;
	n = json_object_array_length(array);
	names->names = calloc(n + 1, sizeof(*names->names));
	if (!names->names)
		return -ENOMEM;
	for (; names->n < n; names->n++) {
		const char *name = json_string(json_object_array_get_idx(array, names->n));

		names->names[names->n] = name ? name : "";
	}
	return 0;
}

void json_names_release(struct json_names *names)
{
	free(names->names);
	free(names->text);
	*names = (struct json_names){0};
}

int json_parse_names(const char *text, size_t len, const char *key, struct json_object **ret_object,
	struct json_names *ret_names, struct error *err)
{
	_cleanup_json_names_ struct json_names names = {0};
	_cleanup_json_ struct json_object *object = NULL;
	struct span span = {0};
	int r = -EINVAL;

	find_array(text, len, key, &span);
	if (span.begin && !span.unclear)
		r = json_parse_around(
			text, len, (size_t)(span.begin - text), (size_t)(span.end - text), &object, err);
	if (r == 0) {
		r = take_from_text(&span, &names);
	} else {
		r = json_parse(text, len, &object, err);
		if (r < 0)
			return r;
		r = take_from_object(object, key, &names);
	}
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	*ret_object = TAKE_PTR(object);
	*ret_names = names;
	names = (struct json_names){0};
	return 0;
}
