/* watch-internal.h - the state of a watch of one collection, and the functions that watch.c, watch-list.c and
 * watch-follow.c call of each other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "kube/client.h"
#include "kube/json-split.h"
#include "kube/watch.h"

struct json_object;
struct strbuf;

#define WATCH_PATH_MAX (16 * 1024)
#define RESOURCE_VERSION_MAX 64
#define CONTINUE_MAX (8 * 1024)

struct kube_watch {
	struct kube_client *client;
	struct loop *loop;
	char *collection, *query;
	const char *first_list_query;
	struct kube_watch_ops ops;
	void *userdata;
	int idle_ms;
	uint32_t backoff_max_ms;

	struct kube_request *request;
	struct loop_timer *retry_timer;
	struct json_split split;
	char version[RESOURCE_VERSION_MAX]; /* "" when a LIST is due */
	char continue_[CONTINUE_MAX];	    /* for the next page; "" for the first */
	struct table seen;		    /* uid -> number of the LIST or WATCH that last showed it */
	uintptr_t round;		    /* number of the LIST, from 1 */
	size_t unreadable;		    /* objects of this LIST that are not readable */
	int64_t opened_ns;
	unsigned int failures, bad_watches;
	bool list_only; /* no WATCH follows */
	bool synced, connected, expired, progress;
	struct kube_watch_counts counts;
	char trouble[512]; /* the last trouble that was logged, "" when all is well */
};

/* watch_list() - requests the next page, or the first of a new LIST; after the last page it calls
 * watch_follow(), which opens a WATCH. A failure of either is logged, and the request is tried again later.
 */
void watch_list(struct kube_watch *watch);
void watch_follow(struct kube_watch *watch);

/* The text is logged once, until another one is logged or watch_log_recovery() is called. */
void watch_log_trouble(struct kube_watch *watch, const char *verb, const char *text);
void watch_log_recovery(struct kube_watch *watch);
void watch_retry(struct kube_watch *watch);
void watch_forget_version(struct kube_watch *watch); /* a LIST is due */
uint32_t watch_chance(uint32_t below);

/* watch_show() - handles an object of a LIST or WATCH. -ENOMEM: it was not handled. watch_remove_unseen() -
 * call at the end of a LIST. */
int watch_show(struct kube_watch *watch, struct json_object *object);
void watch_remove(struct kube_watch *watch, struct json_object *object);
void watch_remove_unseen(struct kube_watch *watch);

/* watch_set_connected() - sets the state and reports a change. */
void watch_set_connected(struct kube_watch *watch, bool connected);

/* watch_begin() - requests the path, with the watch's own query added. The answer is cut into items by
 * `mode`, and fn gets them one by one. */
int watch_begin(struct kube_watch *watch, struct strbuf *path, enum json_split_mode mode, json_split_fn fn,
	kube_response_fn end);
int watch_add_escaped(struct strbuf *path, const char *key, const char *value);
const char *watch_failure_text(int r);
