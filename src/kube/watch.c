#include "kube/watch-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <curl/curl.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "kube/json.h"
#include "net/loop.h"

#define ITEM_MAX (4 * 1024 * 1024)
#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS_DEFAULT 5000
/* Longer than the minute between two bookmarks (apiserver storage/cacher defaultBookmarkFrequency). */
#define IDLE_MS_DEFAULT 90000

/* ---- trouble ---- */

uint32_t watch_chance(uint32_t below)
{
	uint32_t value = 0;

	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value))
		value = (uint32_t)monotonic_ns();
	return value % below;
}

void watch_log_trouble(struct kube_watch *watch, const char *verb, const char *text)
{
	char line[sizeof(watch->trouble)];

	snprintf(line, sizeof(line), "cannot %s %s: %s", verb, watch->collection, text);
	if (strcmp(line, watch->trouble) == 0)
		return;
	log_warning("%s", line);
	memcpy(watch->trouble, line, sizeof(line));
}

void watch_log_recovery(struct kube_watch *watch)
{
	watch->failures = 0;
	if (!watch->trouble[0])
		return;
	watch->trouble[0] = '\0';
	log_info("following %s again", watch->collection);
}

/* The delay is 0.1, 0.2 .. 5 s (or the caller's maximum), less up to half of it at random. */
void watch_retry(struct kube_watch *watch)
{
	uint32_t ms = BACKOFF_FIRST_MS << (watch->failures < 10 ? watch->failures : 10);

	if (ms > watch->backoff_max_ms)
		ms = watch->backoff_max_ms;
	watch->failures++;
	loop_timer_set(watch->retry_timer, (int64_t)(ms - watch_chance(ms / 2)) * NS_PER_MS);
}

static void watch_on_retry(void *userdata)
{
	struct kube_watch *watch = userdata;

	if (watch->version[0])
		watch_follow(watch);
	else
		watch_list(watch);
}

void watch_forget_version(struct kube_watch *watch)
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

int watch_show(struct kube_watch *watch, struct json_object *object)
{
	const char *uid = uid_of(object);

	if (!uid) {
		log_warning("%s: an object without metadata.uid, ignoring", watch->collection);
		return 0;
	}
	if (!watch->list_only && table_set(&watch->seen, uid, (void *)watch->round) < 0)
		return -ENOMEM;
	watch->ops.object(watch->userdata, object);
	return 0;
}

void watch_remove(struct kube_watch *watch, struct json_object *object)
{
	const char *uid = uid_of(object);

	if (!uid) {
		log_warning("%s: an object without metadata.uid, ignoring", watch->collection);
		return;
	}
	table_remove(&watch->seen, uid);
	watch->ops.deleted(watch->userdata, uid, object);
}

/* An object that this LIST did not show was deleted while no watch was open. If an object in the LIST was not
 * readable, it may be the missing one. Then nothing is removed: to count too much is better than to forget
 * what runs. */
void watch_remove_unseen(struct kube_watch *watch)
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

/* ---- requests ---- */

void watch_set_connected(struct kube_watch *watch, bool connected)
{
	bool before = watch->connected;

	watch->connected = connected;
	if (watch->ops.connected && connected != before)
		watch->ops.connected(watch->userdata, connected);
}

static int watch_on_data(void *userdata, const char *data, size_t len)
{
	struct kube_watch *watch = userdata;

	if (len == 0) {
		watch_set_connected(watch, watch->version[0] != '\0');
		watch->counts.connections += watch->connected;
		watch->opened_ns = monotonic_ns();
	}
	return json_split_feed(&watch->split, data, len);
}

const char *watch_failure_text(int r)
{
	return r == -EMSGSIZE  ? "an object over 4 MiB"
	       : r == -EBADMSG ? "the answer is no valid JSON of the expected form"
			       : strerror(-r);
}

int watch_add_escaped(struct strbuf *path, const char *key, const char *value)
{
	_cleanup_free_ char *escaped = NULL;
	char *from_curl = curl_easy_escape(NULL, value, 0);

	escaped = from_curl ? strdup(from_curl) : NULL;
	curl_free(from_curl);
	return escaped ? strbuf_addf(path, "&%s=%s", key, escaped) : -ENOMEM;
}

int watch_begin(struct kube_watch *watch, struct strbuf *path, enum json_split_mode mode, json_split_fn fn,
	kube_response_fn end)
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

int kube_list_start(struct kube_client *client, struct loop *loop, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_list)
{
	int r = kube_watch_start(client, loop, collection, query, ops, userdata, ret_list);

	if (r == 0)
		(*ret_list)->list_only = true;
	return r;
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

const char *kube_watch_version(const struct kube_watch *watch)
{
	return watch->version;
}

const struct kube_watch_counts *kube_watch_counts(const struct kube_watch *watch)
{
	return &watch->counts;
}
