#include "base/archive.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void archive_to_write(struct archive *archive, const struct archive_format *format, struct strbuf *out)
{
	*archive = (struct archive){.format = format, .out = out};
}

void archive_to_read(struct archive *archive, const struct archive_format *format, void *in)
{
	*archive = (struct archive){.format = format, .in = in};
}

int archive_fail(struct archive *archive, int errnum, const char *format, ...)
{
	va_list args;

	if (archive->failed)
		return archive->failed;
	archive->failed = -errnum;
	va_start(args, format);
	vsnprintf(archive->error.text, sizeof(archive->error.text), format, args);
	va_end(args);
	archive->in = archive->list = NULL;
	return archive->failed;
}

/* ---- writing ---- */

static void comma(struct archive *archive)
{
	if (archive->follows)
		strbuf_add(archive->out, ",", 1);
	archive->follows = true;
}

static void add_key(struct archive *archive, const char *key)
{
	comma(archive);
	strbuf_add(archive->out, "\"", 1);
	strbuf_adds(archive->out, key);
	strbuf_add(archive->out, "\":", 2);
}

static void open_bracket(struct archive *archive, const char *bracket)
{
	strbuf_add(archive->out, bracket, 1);
	archive->follows = false;
}

static void close_bracket(struct archive *archive, const char *bracket)
{
	strbuf_add(archive->out, bracket, 1);
	archive->follows = true;
}

/* ---- members ---- */

static void *member(struct archive *archive, const char *key)
{
	return archive->in ? archive->format->member(archive->in, key) : NULL;
}

void archive_bool(struct archive *archive, const char *key, bool *value)
{
	void *in;

	if (archive_reads(archive)) {
		in = member(archive, key);
		if (in && !archive->format->boolean(in, value))
			archive_fail(archive, EINVAL, "\"%s\" is neither true nor false", key);
	} else if (*value || archive->writes_zeros) {
		add_key(archive, key);
		strbuf_adds(archive->out, *value ? "true" : "false");
	}
}

void archive_int64(struct archive *archive, const char *key, int64_t *value, int64_t min, int64_t max)
{
	void *in;

	if (archive_reads(archive)) {
		in = member(archive, key);
		if (in && !archive->format->number(in, min, max, value))
			archive_fail(archive, EINVAL, "\"%s\" is not a whole number from %lld to %lld", key,
				(long long)min, (long long)max);
	} else if (*value || archive->writes_zeros) {
		add_key(archive, key);
		archive->format->add_number(archive->out, *value);
	}
}

void archive_uint64(struct archive *archive, const char *key, uint64_t *value)
{
	int64_t number = *value > INT64_MAX ? -1 : (int64_t)*value;

	archive_int64(archive, key, &number, -1, INT64_MAX);
	if (archive_reads(archive))
		*value = number < 0 ? UINT64_MAX : (uint64_t)number;
}

void archive_uint32(struct archive *archive, const char *key, uint32_t *value, uint32_t max)
{
	int64_t number = *value;

	archive_int64(archive, key, &number, 0, max);
	if (archive_reads(archive))
		*value = (uint32_t)number;
}

void archive_int(struct archive *archive, const char *key, int *value, int min, int max)
{
	int64_t number = *value;

	archive_int64(archive, key, &number, min, max);
	if (archive_reads(archive))
		*value = (int)number;
}

void archive_size(struct archive *archive, const char *key, size_t *value, size_t max)
{
	int64_t number = (int64_t)*value;

	archive_int64(archive, key, &number, 0, max > INT64_MAX ? INT64_MAX : (int64_t)max);
	if (archive_reads(archive))
		*value = (size_t)number;
}

/* Returns the text that is there; NULL: nothing, or a failure. */
static const char *read_text(struct archive *archive, const char *key)
{
	void *in = member(archive, key);
	const char *text = in ? archive->format->text(in) : NULL;

	if (in && !text)
		archive_fail(archive, EINVAL, "\"%s\" is not a string", key);
	return text;
}

void archive_text(struct archive *archive, const char *key, char **value)
{
	const char *text;

	if (archive_reads(archive)) {
		text = read_text(archive, key);
		if (!text)
			return;
		free(*value);
		*value = strdup(text);
		if (!*value)
			archive_fail(archive, ENOMEM, "out of memory");
	} else if (*value) {
		add_key(archive, key);
		archive->format->add_text(archive->out, *value);
	}
}

void archive_need_text(struct archive *archive, const char *key, char **value)
{
	archive_text(archive, key, value);
	if (!*value)
		archive_fail(archive, EINVAL, "\"%s\" is missing", key);
}

void archive_chars(struct archive *archive, const char *key, char *value, size_t size)
{
	const char *text;

	if (archive_reads(archive)) {
		text = read_text(archive, key);
		if (text && strlen(text) >= size)
			archive_fail(archive, EINVAL, "\"%s\" has more than %zu bytes", key, size - 1);
		else if (text)
			memcpy(value, text, strlen(text) + 1);
	} else if (*value || archive->writes_zeros) {
		add_key(archive, key);
		archive->format->add_text(archive->out, value);
	}
}

/* ---- objects and lists ---- */

bool archive_enter(struct archive *archive, const char *key, bool present, struct archive_place *ret_place)
{
	void *in;

	*ret_place = (struct archive_place){archive->in, archive->list};
	if (archive_reads(archive)) {
		in = member(archive, key);
		if (in)
			archive->in = in;
		return in;
	}
	if (!present)
		return false;
	add_key(archive, key);
	open_bracket(archive, "{");
	return true;
}

void archive_leave(struct archive *archive, const struct archive_place *place)
{
	if (!archive_reads(archive)) {
		close_bracket(archive, "}");
	} else if (!archive->failed) {
		archive->in = place->in;
		archive->list = place->list;
	}
}

size_t archive_list(
	struct archive *archive, const char *key, size_t n, size_t max, struct archive_place *ret_place)
{
	void *list;

	*ret_place = (struct archive_place){archive->in, archive->list};
	if (!archive_reads(archive)) {
		if (n) {
			add_key(archive, key);
			open_bracket(archive, "[");
		}
		ret_place->list = n ? archive : NULL; /* non-NULL if the list must be closed */
		return n;
	}
	list = member(archive, key);
	if (!list)
		return 0;
	if (!archive->format->length(list, &n)) {
		archive_fail(archive, EINVAL, "\"%s\" is not a list", key);
		return 0;
	}
	if (n > max) {
		archive_fail(archive, E2BIG, "\"%s\" has more than %zu items", key, max);
		return 0;
	}
	archive->list = list;
	return n;
}

size_t archive_room(struct archive *archive, size_t n, size_t size, void **list)
{
	if (!archive_reads(archive) || !n)
		return n;
	free(*list);
	*list = calloc(n, size);
	if (*list)
		return n;
	archive_fail(archive, ENOMEM, "out of memory");
	return 0;
}

void archive_item(struct archive *archive, size_t i)
{
	if (archive_reads(archive)) {
		archive->in = archive->list ? archive->format->item(archive->list, i) : NULL;
		return;
	}
	comma(archive);
	open_bracket(archive, "{");
}

void archive_item_end(struct archive *archive)
{
	if (!archive_reads(archive))
		close_bracket(archive, "}");
}

const char *archive_item_text(struct archive *archive, size_t i, const char *text)
{
	void *in;

	if (!archive_reads(archive)) {
		comma(archive);
		archive->format->add_text(archive->out, text);
		return text;
	}
	in = archive->list ? archive->format->item(archive->list, i) : NULL;
	text = in ? archive->format->text(in) : NULL;
	if (!text)
		archive_fail(archive, EINVAL, "an item of a list is not a string");
	return text;
}

void archive_list_end(struct archive *archive, const struct archive_place *place)
{
	if (archive_reads(archive)) {
		if (!archive->failed) {
			archive->in = place->in;
			archive->list = place->list;
		}
	} else if (place->list) {
		close_bracket(archive, "]");
	}
}

void archive_begin(struct archive *archive)
{
	if (!archive_reads(archive))
		open_bracket(archive, "{");
}

void archive_end(struct archive *archive)
{
	if (!archive_reads(archive))
		close_bracket(archive, "}");
}
