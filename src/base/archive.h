/* archive.h - one function writes a struct as text and reads it from text.
 *
 * The function names each member once:
 *
 *	void archive_point(struct archive *archive, struct point *point)
 *	{
 *		archive_int64(archive, "x", &point->x, INT64_MIN, INT64_MAX);
 *		archive_text(archive, "name", &point->name);
 *	}
 *
 * Writing changes nothing in the struct, and omits a member that is 0, false or NULL. Reading does not change
 * an absent member, so the caller begins with an empty struct. The text is not trusted: numbers have bounds,
 * lists have a maximum.
 *
 * The first failure is kept, with a sentence. After it nothing more is read, and the caller need not write
 * more. The struct may then be partly filled, and can be released as usual.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

/* How text is written and read. The only format is JSON, in src/kube/json-archive.h. */
struct archive_format {
	void (*add_text)(struct strbuf *out, const char *text);
	void (*add_number)(struct strbuf *out, int64_t number);
	/* NULL: the member is absent, or value is not an object, list or text. */
	void *(*member)(void *value, const char *key);
	void *(*item)(void *value, size_t i);
	const char *(*text)(void *value);
	bool (*length)(void *value, size_t *ret_n);
	/* False: the value is not a whole number within min..max, or not a boolean. */
	bool (*number)(void *value, int64_t min, int64_t max, int64_t *ret_number);
	bool (*boolean)(void *value, bool *ret_boolean);
};

struct archive {
	const struct archive_format *format;
	struct strbuf *out; /* NULL: this archive reads */
	void *in;	    /* the object that is read */
	void *list;	    /* the list that is read */
	bool follows;	    /* a comma is due before the next value */
	bool writes_zeros;  /* set by the caller: also write members that are 0, false or "" */
	int failed;	    /* the first failure: -EINVAL, -E2BIG, -ENOMEM; 0: none */
	struct error error;
};

/* Both are for one object. The caller begins and ends it with archive_begin() and archive_end(). */
void archive_to_write(struct archive *archive, const struct archive_format *format, struct strbuf *out);
void archive_to_read(struct archive *archive, const struct archive_format *format, void *in);

static inline bool archive_reads(const struct archive *archive)
{
	return !archive->out;
}

/* archive_fail() - records a failure, after which nothing is read. Returns the first failure. */
int archive_fail(struct archive *archive, int errnum, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void archive_bool(struct archive *archive, const char *key, bool *value);
void archive_int64(struct archive *archive, const char *key, int64_t *value, int64_t min, int64_t max);
/* archive_uint64() - a value up to INT64_MAX. A larger value is written as -1 and read as UINT64_MAX. */
void archive_uint64(struct archive *archive, const char *key, uint64_t *value);
void archive_uint32(struct archive *archive, const char *key, uint32_t *value, uint32_t max);
void archive_int(struct archive *archive, const char *key, int *value, int min, int max);
void archive_size(struct archive *archive, const char *key, size_t *value, size_t max);

/* archive_enum() - a value below max. */
#define archive_enum(archive, key, value, max)                                                               \
	do {                                                                                                 \
		uint32_t archived_ = (uint32_t) * (value);                                                   \
		archive_uint32(archive, key, &archived_, (uint32_t)(max)-1);                                 \
		if (archive_reads(archive))                                                                  \
			*(value) = (typeof(*(value)))archived_;                                              \
	} while (0)

/* archive_text() - a malloc'ed text; reading releases the old one. archive_need_text() - the same, and its
 * absence is an error. archive_chars() - a text in an array. */
void archive_text(struct archive *archive, const char *key, char **value);
void archive_need_text(struct archive *archive, const char *key, char **value);
void archive_chars(struct archive *archive, const char *key, char *value, size_t size);

/* archive_enter() - the following members are in a nested object, until archive_leave(). False, and
 * archive_leave() must not be called: the text has no such object (reading), or `present` is false
 * (writing). */
struct archive_place {
	void *in, *list;
};
bool archive_enter(struct archive *archive, const char *key, bool present, struct archive_place *ret_place);
void archive_leave(struct archive *archive, const struct archive_place *place);

/* archive_list() - a list of n items (writing), or of as many as it returns (reading, at most max). Each item
 * is between archive_item() and archive_item_end(); archive_list_end() follows. An empty list is not written,
 * but archive_list_end() follows too. archive_item_text() - an item that is just a text. Reading: the text is
 * borrowed; NULL if the item is not a text, which is a failure. */
size_t archive_list(
	struct archive *archive, const char *key, size_t n, size_t max, struct archive_place *ret_place);
void archive_item(struct archive *archive, size_t i);
void archive_item_end(struct archive *archive);
const char *archive_item_text(struct archive *archive, size_t i, const char *text);
void archive_list_end(struct archive *archive, const struct archive_place *place);

/* archive_room() - reading: replaces *list by room for n zeroed items of this size, and frees the old list.
 * Returns n, or 0 if out of memory. Writing: returns n. */
size_t archive_room(struct archive *archive, size_t n, size_t size, void **list);

/* archive_begin(), archive_end() - enclose the members of the outermost object. Reading: they do nothing. */
void archive_begin(struct archive *archive);
void archive_end(struct archive *archive);
