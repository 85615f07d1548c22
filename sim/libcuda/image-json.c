/* image-json.c - the simulation's own module format. It reads only the JSON that the format needs: objects,
 * strings without escapes, numbers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/libcuda/image.h"

struct reader {
	const char *at;
	int error;
};

struct text {
	const char *start;
	size_t length;
};

static void skip_space(struct reader *r)
{
	r->at += strspn(r->at, " \t\r\n");
}

static bool accept(struct reader *r, char c)
{
	skip_space(r);
	if (r->error || *r->at != c)
		return false;
	r->at++;
	return true;
}

static void expect(struct reader *r, char c)
{
	if (!accept(r, c))
		r->error = -EBADMSG;
}

static struct text read_string(struct reader *r)
{
	struct text text = {};

	expect(r, '"');
	if (r->error)
		return text;
	text = (struct text){r->at, strcspn(r->at, "\"\\\n")};
	r->at += text.length;
	expect(r, '"');
	return text;
}

static double read_number(struct reader *r)
{
	double number;
	char *end;

	skip_space(r);
	number = strtod(r->at, &end);
	if (end == r->at || !(number >= 0 && number <= 1e12))
		r->error = -EBADMSG;
	r->at = end;
	return r->error ? 0 : number;
}

static bool is(struct text text, const char *word)
{
	return text.length == strlen(word) && memcmp(text.start, word, text.length) == 0;
}

/* Reads {"KEY": ..., ...} and calls `member` for each key, which reads the value. */
static void read_object(
	struct reader *r, void (*member)(struct reader *r, struct text key, void *data), void *data)
{
	expect(r, '{');
	if (accept(r, '}'))
		return;
	do {
		struct text key = read_string(r);

		expect(r, ':');
		if (!r->error)
			member(r, key, data);
	} while (!r->error && accept(r, ','));
	expect(r, '}');
}

static void function_member(struct reader *r, struct text key, void *data)
{
	struct image_function *function = data;

	if (is(key, "us"))
		function->us = read_number(r);
	else if (is(key, "usPerBlock"))
		function->us_per_block = read_number(r);
	else if (is(key, "fault"))
		function->fault = (uint32_t)read_number(r);
	else
		r->error = -EBADMSG;
}

static void add_function(struct reader *r, struct text name, void *data)
{
	struct image_function *function;

	r->error = image_add_function(data, name.start, name.length, &function);
	if (!r->error)
		read_object(r, function_member, function);
}

static void add_global(struct reader *r, struct text name, void *data)
{
	uint64_t bytes = (uint64_t)read_number(r);

	if (!r->error)
		r->error = bytes > 0 ? image_add_global(data, name.start, name.length, bytes) : -EBADMSG;
}

static void image_member(struct reader *r, struct text key, void *data)
{
	struct image *image = data;

	if (is(key, "rationSimModule"))
		r->error = read_number(r) == 1 ? r->error : -EBADMSG;
	else if (is(key, "memoryMiB"))
		image->memory_bytes = (uint64_t)(read_number(r) * (1 << 20));
	else if (is(key, "functions"))
		read_object(r, add_function, image);
	else if (is(key, "globals"))
		read_object(r, add_global, image);
	else
		r->error = -EBADMSG;
}

int image_read_json(const char *text, struct image *image)
{
	struct reader r = {.at = text};

	read_object(&r, image_member, image);
	skip_space(&r);
	return r.error ? r.error : *r.at ? -EBADMSG : 0;
}
