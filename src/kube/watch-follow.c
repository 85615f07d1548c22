/* watch-follow.c - the WATCH of a collection: takes its events until it ends. */
#include "base/cleanup.h"
#include "kube/watch-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "kube/json.h"

/* The minimum life of a watch. Up to half as much is added at random, so that replicas do not reconnect at
 * the same time. */
#define WATCH_TIMEOUT_S 240
/* A watch that was open this long and ended well counts as successful, even if no event came. */
#define QUIET_WATCH_NS (5 * NS_PER_S)
/* If this many watches in a row end for another reason than a broken connection, the version is assumed to be
 * the cause. */
#define BAD_WATCHES_MAX 5

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
	const char *version;

	r = json_parse(text, len, &event, NULL);
	if (r < 0)
		return r == -EINVAL ? -EBADMSG : r;
	type = json_member_string(event, "type");
	object = json_member(event, "object");
	if (!type || !json_object_is_type(object, json_type_object))
		return -EBADMSG;
	if (strcmp(type, "ERROR") == 0) {
		const char *message = json_member_string(object, "message");
		int64_t code = 0;

		json_whole(json_member(object, "code"), 0, 999, &code);
		if (code == 410) {
			watch->expired = true;
			return -ECANCELED;
		}
		watch_log_trouble(watch, "watch", message ? message : "an ERROR event without a message");
		return -EBADMSG;
	}
	if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0)
		r = watch_show(watch, object);
	else if (strcmp(type, "DELETED") == 0)
		watch_remove(watch, object);
	/* BOOKMARK, and unknown future types, only move the version. */
	if (r < 0)
		return r;
	watch->counts.events++;
	watch->counts.last_message_ns = monotonic_ns();
	version = json_member_string(json_member(object, "metadata"), "resourceVersion");
	if (version && *version && strlen(version) < sizeof(watch->version))
		snprintf(watch->version, sizeof(watch->version), "%s", version);
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
	watch_set_connected(watch, false);
	json_split_release(&watch->split);
	if (watch->progress)
		watch->bad_watches = 0;
	if (watch_blames_version(watch, response)) {
		log_info("%s: version %s is gone, listing again", watch->collection, watch->version);
		watch_forget_version(watch);
		watch->failures = 0; /* the API server answers, so the trouble is over */
	} else if (response->result == -EBADMSG || response->result == -EMSGSIZE) {
		watch_log_trouble(watch, "watch", watch_failure_text(response->result));
	} else if (!ended_well) {
		watch_log_trouble(watch, "watch", response->text);
	}
	/* A successful watch ends by its own timeout: the next one follows at once. */
	if (ended_well && watch->progress)
		watch_follow(watch);
	else
		watch_retry(watch);
}

void watch_follow(struct kube_watch *watch)
{
	_cleanup_strbuf_ struct strbuf path;
	int r;

	watch->expired = watch->progress = false;
	strbuf_init(&path, WATCH_PATH_MAX);
	strbuf_addf(&path, "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%u", watch->collection,
		WATCH_TIMEOUT_S + watch_chance(WATCH_TIMEOUT_S / 2));
	watch_add_escaped(&path, "resourceVersion", watch->version);
	r = watch_begin(watch, &path, JSON_SPLIT_STREAM, watch_on_event, watch_on_follow_end);
	if (r < 0) {
		watch_log_trouble(watch, "watch", strerror(-r));
		watch_retry(watch);
	}
}
