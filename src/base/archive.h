/* archive.h - a struct is written as text, or read from text, by one and the same function.
 *
 * The function names each member once:
 *
 *	void archive_point(struct archive *archive, struct point *point)
 *	{
 *		archive_int64(archive, "x", &point->x, INT64_MIN, INT64_MAX);
 *		archive_text(archive, "name", &point->name);
 *	}
 *
 * Writing changes nothing in the struct, and omits a member that is 0, false or NULL. Reading leaves a member
 *that is absent as it is, so that the caller begins with an empty struct. Texts come from outside: numbers
 *have bounds, lists have a maximum.
 *
 * The first failure is kept, with a sentence; after it nothing is read any more, and nothing more need be
 * written. The struct may then be partly read, and can be released as usual.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

/* How text is written and read. src/kube/json-archive.h has the only one: JSON. */
struct archive_format {
	void (*add_text)(struct strbuf *out, const char *text);
	void (*add_number)(struct strbuf *out, int64_t number);
	/* NULL: absent, or value is no object, no list, no text. */
	void *(*member)(void *value, const char *key);
	void *(*item)(void *value, size_t i);
	const char *(*text)(void *value);
	bool (*length)(void *value, size_t *ret_n);
	/* False: it is no whole number within min..max, no boolean. */
	bool (*number)(void *value, int64_t min, int64_t max, int64_t *ret_number);
	bool (*boolean)(void *value, bool *ret_boolean);
};

struct archive {
	const struct archive_format *format;
	struct strbuf *out; /* NULL: this archive reads */
	void *in;	    /* the object that is read */
	void *list;	    /* the list that is read */
	bool follows;	    /* a comma is due before what is written next */
	bool writes_zeros;  /* set by the caller: members that are 0, false or "" are written, too */
	int failed;	    /* the first failure: -EINVAL, -E2BIG, -ENOMEM; 0: none */
	struct error error;
};

/* Both are for one object, which is begun and ended by the caller's archive_begin() and archive_end(). */
void archive_to_write(struct archive *archive, const struct archive_format *format, struct strbuf *out);
void archive_to_read(struct archive *archive, const struct archive_format *format, void *in);

static inline bool archive_reads(const struct archive *archive)
{
	return !archive->out;
}

/* archive_fail() - nothing more is read. Returns the first failure. */
int archive_fail(struct archive *archive, int errnum, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void archive_bool(struct archive *archive, const char *key, bool *value);
void archive_int64(struct archive *archive, const char *key, int64_t *value, int64_t min, int64_t max);
/* Of every value up to INT64_MAX; what is larger, in a table of generations for example, is written as -1 and
 * read as UINT64_MAX. */
void archive_uint64(struct archive *archive, const char *key, uint64_t *value);
void archive_uint32(struct archive *archive, const char *key, uint32_t *value, uint32_t max);
void archive_int(struct archive *archive, const char *key, int *value, int min, int max);
void archive_size(struct archive *archive, const char *key, size_t *value, size_t max);

/* archive_enum() - below max. */
#define archive_enum(archive, key, value, max)                                                               \
	do {                                                                                                 \
		uint32_t archived_ = (uint32_t) * (value);                                                   \
		archive_uint32(archive, key, &archived_, (uint32_t)(max)-1);                                 \
		if (archive_reads(archive))                                                                  \
			*(value) = (typeof(*(value)))archived_;                                              \
	} while (0)

/* archive_text() - malloc'ed; reading releases what was there. archive_need_text() - its absence is an error.
 * archive_chars() - into an array. */
void archive_text(struct archive *archive, const char *key, char **value);
void archive_need_text(struct archive *archive, const char *key, char **value);
void archive_chars(struct archive *archive, const char *key, char *value, size_t size);

/* archive_enter() - what follows is in an object of its own, until archive_leave(). False, with nothing to
 * leave: the text that is read has no such object, or `present` is false and none is written. */
struct archive_place {
	void *in, *list;
};
bool archive_enter(struct archive *archive, const char *key, bool present, struct archive_place *ret_place);
void archive_leave(struct archive *archive, const struct archive_place *place);

/* archive_list() - what follows are n items (writing), or as many as it returns (reading, at most max), each
 * between archive_item() and archive_item_end(); then archive_list_end(). An empty list is not written; then,
 * too, archive_list_end() follows. archive_item_text() - an item that is a text alone; reading: borrowed,
 * NULL if the item is no text, which is a failure. */
size_t archive_list(
	struct archive *archive, const char *key, size_t n, size_t max, struct archive_place *ret_place);
void archive_item(struct archive *archive, size_t i);
void archive_item_end(struct archive *archive);
const char *archive_item_text(struct archive *archive, size_t i, const char *text);
void archive_list_end(struct archive *archive, const struct archive_place *place);

/* archive_room() - reading: room for n items of this size, zeros, in place of *list, which is freed; returns
 * n, or 0 when out of memory. Writing: returns n. */
size_t archive_room(struct archive *archive, size_t n, size_t size, void **list);

/* archive_begin(), archive_end() - around the members of the outermost object. Reading: they do nothing. */
void archive_begin(struct archive *archive);
void archive_end(struct archive *archive);
