/* json-split.h - cuts a stream of JSON into its objects while it arrives, so that a LIST of 20,000 pods never
 * stands in memory as one text or one document. It only counts brackets: whether an object is valid JSON is
 * for json_parse() to say.
 *
 * metadata.managedFields, a third of an average object and of no use to us, is left out (replaced by []); so
 * is what else the caller has no use for (json_split_leave_out()).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

enum json_split_mode {
	JSON_SPLIT_STREAM, /* objects one after the other: the events of a WATCH */
	JSON_SPLIT_LIST,   /* one object, whose "items" are the objects */
};

/* Called with each object; negative ends the feeding with that result. NUL-terminated, valid for the call. */
typedef int (*json_split_fn)(void *userdata, const char *object, size_t len);

#define JSON_SPLIT_KEY_MAX 32

struct json_split {
	enum json_split_mode mode;
	json_split_fn fn;
	void *userdata;
	int state; /* enum in json-split.c */
	struct strbuf item;
	size_t item_seen, item_max; /* bytes of this object, those left out included */
	struct strbuf rest;	    /* LIST: everything around the items, "items":[] */
	int depth;		    /* of brackets, within the item or the rest */
	bool in_string, escaped;
	/* The current string, or the one just ended, as far as it may be a key. */
	struct {
		char text[JSON_SPLIT_KEY_MAX];
		size_t len; /* over JSON_SPLIT_KEY_MAX: it is none that we look for */
		bool ended; /* it has just ended, or its ':' has just passed */
	} key;
	int skip_depth;		     /* in what is left out: the depth at which it ends */
	const char *const *unwanted; /* keys; NULL at the end */
	int unwanted_depth_max;
};

/* json_split_init() - item_max: an object over that many bytes is -EMSGSIZE. */
void json_split_init(struct json_split *split, enum json_split_mode mode, size_t item_max, json_split_fn fn,
	void *userdata);

/* json_split_leave_out() - members of these names (under JSON_SPLIT_KEY_MAX bytes; NULL at the end; borrowed)
 * whose value is an array or an object are replaced by an empty one, in items and down to this depth in them,
 * their own members being at 1. Instead of managedFields, which must be among them. Before the first feed. */
void json_split_leave_out(struct json_split *split, const char *const *keys, int depth_max);
void json_split_release(struct json_split *split);

/* json_split_feed() - the next bytes. 0, the callback's result, -EMSGSIZE, -EBADMSG (no such structure),
 * -ENOMEM. After a failure only json_split_release() is allowed. */
int json_split_feed(struct json_split *split, const char *data, size_t len);

/* json_split_end() - nothing more comes: 0, or -EBADMSG if that is in the middle of something. */
int json_split_end(const struct json_split *split);

/* json_split_rest() - LIST: the list without its items, as text of a JSON object. */
const char *json_split_rest(const struct json_split *split);
