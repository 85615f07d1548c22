/* json-split.h - cuts a stream of JSON into its objects while it arrives. So a LIST of 20,000 pods is never
 * in memory as one text or one document. It only counts brackets; json_parse() checks whether an object is
 * valid JSON.
 *
 * metadata.managedFields, a third of an average object, is not needed and is replaced by []. The caller can
 * name further members to leave out (json_split_leave_out()). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

enum json_split_mode {
	JSON_SPLIT_STREAM, /* objects one after the other: the events of a WATCH */
	JSON_SPLIT_LIST,   /* one object, whose "items" are the objects */
};

/* Called with each object, which is NUL-terminated and valid during the call. If it returns a negative value,
 * json_split_feed() ends with that result. */
typedef int (*json_split_fn)(void *userdata, const char *object, size_t len);

#define JSON_SPLIT_KEY_MAX 32

struct json_split {
	enum json_split_mode mode;
	json_split_fn fn;
	void *userdata;
	int state; /* an enum in json-split.c */
	struct strbuf item;
	size_t item_seen, item_max; /* bytes of this object, including those left out */
	struct strbuf rest;	    /* LIST: everything around the items, "items":[] */
	int depth;		    /* of brackets, within the item or the rest */
	bool in_string, escaped;
	/* The current string, or the one that has just ended, as far as it may be a key. */
	struct {
		char text[JSON_SPLIT_KEY_MAX];
		size_t len; /* over JSON_SPLIT_KEY_MAX: this is not a searched key */
		bool ended; /* it has just ended, or its ':' has just passed */
	} key;
	int skip_depth;		     /* inside a member that is left out: the depth at which it ends */
	const char *const *unwanted; /* keys; NULL at the end */
	int unwanted_depth_max;
};

/* json_split_init() - item_max: an object with more bytes gives -EMSGSIZE. */
void json_split_init(struct json_split *split, enum json_split_mode mode, size_t item_max, json_split_fn fn,
	void *userdata);

/* json_split_leave_out() - members with these names whose value is an array or an object are replaced by an
 * empty one. It applies to items down to this depth; their own members have depth 1. keys: each under
 * JSON_SPLIT_KEY_MAX bytes, NULL at the end, borrowed. They replace the default, so they must include
 * managedFields. Call before the first feed. */
void json_split_leave_out(struct json_split *split, const char *const *keys, int depth_max);
void json_split_release(struct json_split *split);

/* json_split_feed() - reads the next bytes. 0, the callback's result, -EMSGSIZE, -EBADMSG (another
 * structure), -ENOMEM. After a failure only json_split_release() is allowed. */
int json_split_feed(struct json_split *split, const char *data, size_t len);

/* json_split_end() - the stream has ended: 0, or -EBADMSG if it ended inside an object. */
int json_split_end(const struct json_split *split);

/* json_split_rest() - LIST: the list without its items, as text of a JSON object. */
const char *json_split_rest(const struct json_split *split);
