#include "kube/watch.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <curl/curl.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "kube/client.h"
#include "kube/json-split.h"
#include "kube/json.h"
#include "net/loop.h"

#define PAGE_ITEMS 500
#define ITEM_MAX (4 * 1024 * 1024)
#define PATH_LEN_MAX (16 * 1024)
#define RESOURCE_VERSION_MAX 64
#define CONTINUE_MAX (8 * 1024)

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS_DEFAULT 5000
/* A watch lives this long at most; half as much again is drawn by chance, so that replicas do not return at
 * once. */
#define WATCH_TIMEOUT_S 240
/* Longer than the minute between two bookmarks (apiserver storage/cacher defaultBookmarkFrequency). */
#define IDLE_MS_DEFAULT 90000
/* A watch that was open this long and ended well has served, even if there was nothing to say. */
#define QUIET_WATCH_NS (5 * NS_PER_S)
/* Watches in a row that end with something else than a broken connection: then the version is to blame. */
#define BAD_WATCHES_MAX 5

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
	char continue_[CONTINUE_MAX];	    /* of the next page, "" for the first */
	struct table seen;		    /* uid -> number of the LIST or WATCH that showed it last */
	uintptr_t round;		    /* of LISTs; counts from 1 */
	size_t unreadable;		    /* objects of this LIST that could not be read */
	int64_t opened_ns;
	unsigned int failures, bad_watches;
	bool synced, connected, expired, progress;
	struct kube_watch_counts counts;
	char trouble[512]; /* the last one logged, "" when all is well */
};

static void watch_list(struct kube_watch *watch);
static void watch_follow(struct kube_watch *watch);

/* ---- trouble ---- */

static uint32_t chance(uint32_t below)
{
	uint32_t value = 0;

	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value))
		value = (uint32_t)monotonic_ns();
	return value % below;
}

static void watch_log_trouble(struct kube_watch *watch, const char *verb, const char *text)
{
	char line[sizeof(watch->trouble)];

	snprintf(line, sizeof(line), "cannot %s %s: %s", verb, watch->collection, text);
	if (strcmp(line, watch->trouble) == 0)
		return;
	log_warning("%s", line);
	memcpy(watch->trouble, line, sizeof(line));
}

static void watch_log_recovery(struct kube_watch *watch)
{
	watch->failures = 0;
	if (!watch->trouble[0])
		return;
	watch->trouble[0] = '\0';
	log_info("following %s again", watch->collection);
}

/* 0.1, 0.2 .. 5 s (or what the caller says), of which up to half is left off by chance. */
static void watch_retry(struct kube_watch *watch)
{
	uint32_t ms = BACKOFF_FIRST_MS << (watch->failures < 6 ? watch->failures : 6);

	if (ms > watch->backoff_max_ms)
		ms = watch->backoff_max_ms;
	watch->failures++;
	loop_timer_set(watch->retry_timer, (int64_t)(ms - chance(ms / 2)) * NS_PER_MS);
}

static void watch_on_retry(void *userdata)
{
	struct kube_watch *watch = userdata;

	if (watch->version[0])
		watch_follow(watch);
	else
		watch_list(watch);
}

static void watch_forget_version(struct kube_watch *watch)
{
	watch->version[0] = '\0';
	watch->continue_[0] = '\0';
}

/* ---- objects ---- */

static const char *uid_of(struct json_object *object)
{
	const char *uid = json_member_string(json_member(object, "metadata"), "uid");

	return uid && *uid ? uid : NULL;
}

static int watch_show(struct kube_watch *watch, struct json_object *object)
{
	const char *uid = uid_of(object);

	if (!uid) {
		log_warning("%s: an object without metadata.uid, ignoring", watch->collection);
		return 0;
	}
	if (table_set(&watch->seen, uid, (void *)watch->round) < 0)
		return -ENOMEM;
	watch->ops.object(watch->userdata, object);
	return 0;
}

static void watch_remove(struct kube_watch *watch, struct json_object *object)
{
	const char *uid = uid_of(object);

	if (!uid) {
		log_warning("%s: an object without metadata.uid, ignoring", watch->collection);
		return;
	}
	table_remove(&watch->seen, uid);
	watch->ops.deleted(watch->userdata, uid, object);
}

/* What this LIST did not show any more was deleted while nobody looked. Not if something in the LIST could
 * not be read: that may be what is missing, and to count too much is better than to forget what runs. */
static void watch_remove_unseen(struct kube_watch *watch)
{
	const char *uid;
	void *round;

	if (watch->unreadable)
		return;
	for (size_t cursor = 0; table_next(&watch->seen, &cursor, &uid, &round);) {
		_cleanup_free_ char *copy = NULL;

		if ((uintptr_t)round == watch->round)
			continue;
		copy = strdup(uid);
		table_remove(&watch->seen, uid);
		if (copy)
			watch->ops.deleted(watch->userdata, copy, NULL);
	}
}

/* ---- LIST ---- */

/* An object that cannot be read must not stop all others from being seen. */
static int watch_on_listed(void *userdata, const char *text, size_t len)
{
	struct kube_watch *watch = userdata;
	_cleanup_json_ struct json_object *object = NULL;
	struct error err;
	int r;

	r = json_parse(text, len, &object, &err);
	if (r == -EINVAL) {
		watch->unreadable++;
		log_warning("%s: an object that cannot be read, ignoring: %s", watch->collection, err.text);
		return 0;
	}
	return r < 0 ? r : watch_show(watch, object);
}

static int watch_on_data(void *userdata, const char *data, size_t len)
{
	struct kube_watch *watch = userdata;

	if (len == 0) {
		watch->connected = watch->version[0] != '\0';
		watch->counts.connections += watch->connected;
		watch->opened_ns = monotonic_ns();
	}
	return json_split_feed(&watch->split, data, len);
}

static int copy_member(struct json_object *object, const char *key, char *ret_text, size_t size)
{
	const char *text = json_member_string(object, key);

	if (json_member(object, key) && (!text || strlen(text) >= size))
		return -EBADMSG;
	snprintf(ret_text, size, "%s", text ? text : "");
	return 0;
}

/* The page is complete: what stands around its items says whether there is another, and where a WATCH goes
 * on. */
static int watch_read_page(struct kube_watch *watch, char *ret_version)
{
	_cleanup_json_ struct json_object *list = NULL;
	const char *rest = json_split_rest(&watch->split);
	struct json_object *metadata;

	if (json_split_end(&watch->split) < 0 || json_parse(rest, strlen(rest), &list, NULL) < 0)
		return -EBADMSG;
	metadata = json_member(list, "metadata");
	if (!json_object_is_type(json_member(list, "items"), json_type_array) &&
		json_member(list, "items") != NULL)
		return -EBADMSG;
	if (copy_member(metadata, "resourceVersion", ret_version, RESOURCE_VERSION_MAX) < 0 ||
		copy_member(metadata, "continue", watch->continue_, CONTINUE_MAX) < 0)
		return -EBADMSG;
	return ret_version[0] ? 0 : -EBADMSG;
}

static void watch_list_failed(struct kube_watch *watch, const char *text)
{
	watch_forget_version(watch);
	watch_log_trouble(watch, "list", text);
	watch_retry(watch);
}

static void watch_list_complete(struct kube_watch *watch, const char *version)
{
	watch_log_recovery(watch);
	watch->bad_watches = 0;
	memcpy(watch->version, version, RESOURCE_VERSION_MAX);
	watch_remove_unseen(watch);
	watch->synced = true;
	watch->counts.last_message_ns = monotonic_ns();
	if (watch->ops.synced)
		watch->ops.synced(watch->userdata);
	watch_follow(watch);
}

static const char *watch_failure_text(int r)
{
	return r == -EMSGSIZE  ? "an object over 4 MiB"
	       : r == -EBADMSG ? "the answer is no valid JSON of the expected form"
			       : strerror(-r);
}

static void watch_on_list_end(void *userdata, const struct kube_response *response)
{
	struct kube_watch *watch = userdata;
	char version[RESOURCE_VERSION_MAX];
	int r = 0;

	watch->request = NULL;
	if (response->result == 0 && response->status == 200)
		r = watch_read_page(watch, version);
	json_split_release(&watch->split);
	if (response->result == -EBADMSG || response->result == -EMSGSIZE)
		watch_list_failed(watch, watch_failure_text(response->result));
	else if (response->result < 0 || response->status != 200)
		watch_list_failed(watch, response->text);
	else if (r < 0)
		watch_list_failed(watch, watch_failure_text(r));
	else if (watch->continue_[0])
		watch_list(watch);
	else
		watch_list_complete(watch, version);
}

static int add_escaped(struct strbuf *path, const char *key, const char *value)
{
	_cleanup_free_ char *escaped = NULL;
	char *from_curl = curl_easy_escape(NULL, value, 0);

	escaped = from_curl ? strdup(from_curl) : NULL;
	curl_free(from_curl);
	return escaped ? strbuf_addf(path, "&%s=%s", key, escaped) : -ENOMEM;
}

static int watch_begin(struct kube_watch *watch, struct strbuf *path, enum json_split_mode mode,
	json_split_fn fn, kube_response_fn end)
{
	int r;

	if (watch->query && watch->query[0])
		strbuf_addf(path, "&%s", watch->query);
	if (path->failed)
		return path->failed;
	json_split_init(&watch->split, mode, ITEM_MAX, fn, watch);
	r = kube_stream(
		watch->client, strbuf_cstr(path), watch->idle_ms, watch_on_data, end, watch, &watch->request);
	if (r < 0)
		json_split_release(&watch->split);
	return r;
}

static void watch_begin_round(struct kube_watch *watch)
{
	watch->round++;
	watch->counts.lists++;
	watch->unreadable = 0;
}

/* The next page, or the first of a new LIST. No resourceVersion: the most recent state, read with quorum. */
static void watch_list(struct kube_watch *watch)
{
	_cleanup_strbuf_ struct strbuf path;
	int r;

	strbuf_init(&path, PATH_LEN_MAX);
	strbuf_addf(&path, "%s?limit=%d", watch->collection, PAGE_ITEMS);
	if (watch->first_list_query && !watch->synced)
		strbuf_addf(&path, "&%s", watch->first_list_query);
	if (watch->continue_[0])
		add_escaped(&path, "continue", watch->continue_);
	else
		watch_begin_round(watch);
	r = watch_begin(watch, &path, JSON_SPLIT_LIST, watch_on_listed, watch_on_list_end);
	if (r < 0)
		watch_list_failed(watch, strerror(-r));
}

/* ---- WATCH ---- */

static int watch_on_error_event(struct kube_watch *watch, struct json_object *status)
{
	const char *message = json_member_string(status, "message");
	int64_t code = 0;

	json_whole(json_member(status, "code"), 0, 999, &code);
	if (code == 410) {
		watch->expired = true;
		return -ECANCELED;
	}
	watch_log_trouble(watch, "watch", message ? message : "an ERROR event without a message");
	return -EBADMSG;
}

static void watch_note_version(struct kube_watch *watch, struct json_object *object)
{
	const char *version = json_member_string(json_member(object, "metadata"), "resourceVersion");

	if (version && *version && strlen(version) < sizeof(watch->version))
		snprintf(watch->version, sizeof(watch->version), "%s", version);
}

static void watch_note_progress(struct kube_watch *watch)
{
	watch->progress = true;
	watch_log_recovery(watch);
}

static int watch_on_event(void *userdata, const char *text, size_t len)
{
	struct kube_watch *watch = userdata;
	_cleanup_json_ struct json_object *event = NULL;
	struct json_object *object;
	const char *type;
	int r = 0;

	r = json_parse(text, len, &event, NULL);
	if (r < 0)
		return r == -EINVAL ? -EBADMSG : r;
	type = json_member_string(event, "type");
	object = json_member(event, "object");
	if (!type || !json_object_is_type(object, json_type_object))
		return -EBADMSG;
	if (strcmp(type, "ERROR") == 0)
		return watch_on_error_event(watch, object);
	if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0)
		r = watch_show(watch, object);
	else if (strcmp(type, "DELETED") == 0)
		watch_remove(watch, object);
	/* BOOKMARK, and types to come, only move the version. */
	if (r < 0)
		return r;
	watch->counts.events++;
	watch->counts.last_message_ns = monotonic_ns();
	watch_note_version(watch, object);
	watch_note_progress(watch);
	return 0;
}

static bool watch_blames_version(struct kube_watch *watch, const struct kube_response *response)
{
	if (watch->expired || response->status == 410)
		return true;
	if (response->result == -EBADMSG || response->result == -EMSGSIZE || response->status >= 400)
		watch->bad_watches++;
	return watch->bad_watches >= BAD_WATCHES_MAX;
}

static void watch_on_follow_end(void *userdata, const struct kube_response *response)
{
	struct kube_watch *watch = userdata;
	bool ended_well = response->result == 0 && response->status == 200;

	watch->request = NULL;
	if (ended_well && monotonic_ns() - watch->opened_ns > QUIET_WATCH_NS)
		watch_note_progress(watch);
	watch->connected = false;
	json_split_release(&watch->split);
	if (watch->progress)
		watch->bad_watches = 0;
	if (watch_blames_version(watch, response)) {
		log_info("%s: version %s is gone, listing again", watch->collection, watch->version);
		watch_forget_version(watch);
		watch->failures = 0; /* it answers: what was waited for is over */
	} else if (response->result == -EBADMSG || response->result == -EMSGSIZE) {
		watch_log_trouble(watch, "watch", watch_failure_text(response->result));
	} else if (!ended_well) {
		watch_log_trouble(watch, "watch", response->text);
	}
	/* A watch that served ends by its own timeout: the next one follows at once. */
	if (ended_well && watch->progress)
		watch_follow(watch);
	else
		watch_retry(watch);
}

static void watch_follow(struct kube_watch *watch)
{
	_cleanup_strbuf_ struct strbuf path;
	int r;

	watch->expired = watch->progress = false;
	strbuf_init(&path, PATH_LEN_MAX);
	strbuf_addf(&path, "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%u", watch->collection,
		WATCH_TIMEOUT_S + chance(WATCH_TIMEOUT_S / 2));
	add_escaped(&path, "resourceVersion", watch->version);
	r = watch_begin(watch, &path, JSON_SPLIT_STREAM, watch_on_event, watch_on_follow_end);
	if (r < 0) {
		watch_log_trouble(watch, "watch", strerror(-r));
		watch_retry(watch);
	}
}

/* ---- life ---- */

int kube_watch_start(struct kube_client *client, struct loop *loop, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_watch)
{
	struct kube_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->client = client;
	watch->loop = loop;
	watch->ops = *ops;
	watch->userdata = userdata;
	watch->idle_ms = IDLE_MS_DEFAULT;
	watch->backoff_max_ms = BACKOFF_MAX_MS_DEFAULT;
	table_init(&watch->seen);
	watch->collection = strdup(collection);
	watch->query = query ? strdup(query) : NULL;
	r = loop_add_timer(loop, watch_on_retry, watch, &watch->retry_timer);
	if (r < 0 || !watch->collection || (query && !watch->query)) {
		kube_watch_free(watch);
		return -ENOMEM;
	}
	loop_timer_set(watch->retry_timer, 0);
	*ret_watch = watch;
	return 0;
}

void kube_watch_set_idle_ms(struct kube_watch *watch, int idle_ms)
{
	watch->idle_ms = idle_ms;
}

void kube_watch_set_backoff_max_ms(struct kube_watch *watch, uint32_t backoff_max_ms)
{
	watch->backoff_max_ms = backoff_max_ms;
}

void kube_watch_set_first_list_query(struct kube_watch *watch, const char *query)
{
	watch->first_list_query = query;
}

void kube_watch_free(struct kube_watch *watch)
{
	if (!watch)
		return;
	if (watch->request) {
		kube_request_cancel(watch->request);
		json_split_release(&watch->split);
	}
	loop_timer_remove(watch->retry_timer);
	table_release(&watch->seen);
	free(watch->collection);
	free(watch->query);
	free(watch);
}

bool kube_watch_synced(const struct kube_watch *watch)
{
	return watch->synced;
}

bool kube_watch_connected(const struct kube_watch *watch)
{
	return watch->connected;
}

const struct kube_watch_counts *kube_watch_counts(const struct kube_watch *watch)
{
	return &watch->counts;
}
