#include "kube/json-split.h"

#include <errno.h>
#include <string.h>

/* The limit for kind, apiVersion, resourceVersion and the continue token. */
#define REST_MAX (64 * 1024)

/* managedFields is a member of metadata: depth 2 in an item of a list, 3 in the object of an event. A label
 * or annotation of that name is a string, not an array. */
#define MANAGED_FIELDS_DEPTH_MAX 3

enum {
	STATE_BEFORE,	   /* nothing but blanks yet */
	STATE_REST,	   /* LIST: in the object, not in its items */
	STATE_FIRST_ITEM,  /* an object or the end */
	STATE_ITEM,	   /* in an object */
	STATE_AFTER_ITEM,  /* LIST: a comma or the end */
	STATE_AFTER_COMMA, /* LIST: an object */
	STATE_AFTER,	   /* LIST: the object has ended */
};

static const char *const managed_fields[] = {"managedFields", NULL};

void json_split_init(struct json_split *split, enum json_split_mode mode, size_t item_max, json_split_fn fn,
	void *userdata)
{
	*split = (struct json_split){.mode = mode, .fn = fn, .userdata = userdata, .item_max = item_max};
	json_split_leave_out(split, managed_fields, MANAGED_FIELDS_DEPTH_MAX);
	split->state = mode == JSON_SPLIT_LIST ? STATE_BEFORE : STATE_FIRST_ITEM;
	strbuf_init(&split->item, item_max);
	strbuf_init(&split->rest, REST_MAX);
}

void json_split_leave_out(struct json_split *split, const char *const *keys, int depth_max)
{
	split->unwanted = keys;
	split->unwanted_depth_max = depth_max;
}

void json_split_release(struct json_split *split)
{
	strbuf_release(&split->item);
	strbuf_release(&split->rest);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Reads one byte inside a string; detects the end of the string, and remembers what may be a key. */
static void scan_string(struct json_split *split, char c)
{
	if (split->escaped) {
		split->escaped = false;
	} else if (c == '"') {
		split->in_string = false;
		split->key.ended = true;
		return;
	} else if (c == '\\') {
		split->escaped = true;
	}
	if (split->key.len < JSON_SPLIT_KEY_MAX)
		split->key.text[split->key.len] = c;
	if (split->key.len <= JSON_SPLIT_KEY_MAX)
		split->key.len++;
}

static bool is_key(const struct json_split *split, const char *key)
{
	return split->key.len == strlen(key) && split->key.len <= JSON_SPLIT_KEY_MAX &&
	       memcmp(split->key.text, key, split->key.len) == 0;
}

static bool is_unwanted(const struct json_split *split)
{
	for (size_t i = 0; split->unwanted[i]; i++)
		if (is_key(split, split->unwanted[i]))
			return true;
	return false;
}

/* Reads one byte outside of strings: brackets, and whether a key is followed by its ':' and an array or
 * object. Returns true where the value of such a key begins. */
static bool scan_structure(struct json_split *split, char c)
{
	bool begins = split->key.ended && (c == '[' || c == '{');

	if (is_blank(c) || (split->key.ended && c == ':'))
		return false;
	split->key.ended = false;
	if (c == '"') {
		split->in_string = true;
		split->key.len = split->skip_depth ? JSON_SPLIT_KEY_MAX + 1 : 0;
	} else if (c == '{' || c == '[') {
		split->depth++;
	} else if (c == '}' || c == ']') {
		split->depth--;
	}
	return begins;
}

static int item_done(struct json_split *split)
{
	int r;

	split->state = split->mode == JSON_SPLIT_LIST ? STATE_AFTER_ITEM : STATE_FIRST_ITEM;
	r = split->item.failed ? split->item.failed
			       : split->fn(split->userdata, strbuf_cstr(&split->item), split->item.len);
	strbuf_clear(&split->item);
	return r < 0 ? r : 0;
}

static void scan_item_byte(struct json_split *split, char c)
{
	if (split->in_string) {
		scan_string(split, c);
		return;
	}
	if (scan_structure(split, c) && !split->skip_depth && split->depth - 1 <= split->unwanted_depth_max &&
		is_unwanted(split))
		split->skip_depth = split->depth;
}

/* The number of bytes of a string that are only text; most of an object is. */
static size_t plain_text(const struct json_split *split, const char *data, size_t len)
{
	size_t i = 0;

	if (!split->in_string || split->escaped || split->key.len <= JSON_SPLIT_KEY_MAX)
		return 0;
	while (i < len && data[i] != '"' && data[i] != '\\')
		i++;
	return i;
}

/* Reads bytes of an object, up to its end. It copies everything except what is between the brackets of
 * members that are left out. *ret_used is how much of data belonged to the object. */
static int feed_item(struct json_split *split, const char *data, size_t len, size_t *ret_used)
{
	size_t copied = 0, i = 0;
	bool skipping = split->skip_depth != 0;

	while (i < len && split->depth > 0) {
		i += plain_text(split, data + i, len - i);
		if (i == len)
			break;
		scan_item_byte(split, data[i]);
		if (!skipping && split->skip_depth) {
			strbuf_add(&split->item, data + copied, i + 1 - copied);
			skipping = true;
		} else if (skipping && split->depth < split->skip_depth) {
			split->skip_depth = 0;
			skipping = false;
			copied = i;
		}
		i++;
	}
	if (!skipping)
		strbuf_add(&split->item, data + copied, i - copied);
	split->item_seen += i;
	*ret_used = i;
	if (split->item_seen > split->item_max)
		return -EMSGSIZE;
	return split->depth == 0 ? item_done(split) : split->item.failed;
}

static int feed_between(struct json_split *split, char c)
{
	bool list = split->mode == JSON_SPLIT_LIST;

	if (is_blank(c))
		return 0;
	if (list && c == ']' && split->state != STATE_AFTER_COMMA) {
		/* The stream is back in the list object, whose depth is 1. */
		split->state = STATE_REST;
		split->depth = 1;
		split->in_string = split->escaped = split->key.ended = false;
		return strbuf_adds(&split->rest, "]");
	}
	if (split->state == STATE_AFTER_ITEM) {
		split->state = STATE_AFTER_COMMA;
		return c == ',' ? 0 : -EBADMSG;
	}
	if (c != '{')
		return -EBADMSG;
	split->state = STATE_ITEM;
	split->depth = 1;
	split->in_string = split->escaped = split->key.ended = false;
	split->skip_depth = 0;
	split->item_seen = 1;
	return strbuf_add(&split->item, &c, 1);
}

static int feed_rest(struct json_split *split, char c)
{
	bool begins = false;

	if (split->in_string) {
		scan_string(split, c);
	} else {
		begins = scan_structure(split, c) && c == '[' && split->depth == 2 && is_key(split, "items");
	}
	if (split->depth == 0)
		split->state = STATE_AFTER;
	else if (begins)
		split->state = STATE_FIRST_ITEM;
	return strbuf_add(&split->rest, &c, 1);
}

static int feed_outside(struct json_split *split, char c)
{
	switch (split->state) {
	case STATE_BEFORE:
		if (is_blank(c))
			return 0;
		split->state = STATE_REST;
		return c == '{' ? feed_rest(split, c) : -EBADMSG;
	case STATE_REST:
		return feed_rest(split, c);
	case STATE_AFTER:
		return is_blank(c) ? 0 : -EBADMSG;
	default:
		return feed_between(split, c);
	}
}

int json_split_feed(struct json_split *split, const char *data, size_t len)
{
	size_t i = 0, used;
	int r = 0;

	while (i < len && r == 0) {
		if (split->state == STATE_ITEM) {
			r = feed_item(split, data + i, len - i, &used);
			i += used;
		} else {
			r = feed_outside(split, data[i++]);
		}
	}
	return r;
}

int json_split_end(const struct json_split *split)
{
	int complete = split->mode == JSON_SPLIT_LIST ? STATE_AFTER : STATE_FIRST_ITEM;

	return split->state == complete ? 0 : -EBADMSG;
}

const char *json_split_rest(const struct json_split *split)
{
	return strbuf_cstr(&split->rest);
}
