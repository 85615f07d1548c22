/* watch-list.c - the LIST of a collection, page by page, from which a watch starts. */
#include "base/cleanup.h"
#include "kube/watch-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "kube/json.h"

#define PAGE_ITEMS 500

/* An invalid object must not prevent all others from being seen. */
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

static int copy_member(struct json_object *object, const char *key, char *ret_text, size_t size)
{
	const char *text = json_member_string(object, key);

	if (json_member(object, key) && (!text || strlen(text) >= size))
		return -EBADMSG;
	snprintf(ret_text, size, "%s", text ? text : "");
	return 0;
}

/* The page is complete. The text around its items says whether there is another page, and from which version
 * a WATCH continues. */
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

static void watch_is_absent(struct kube_watch *watch)
{
	watch_forget_version(watch);
	watch_retry(watch);
	watch->ops.absent(watch->userdata);
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
	if (!watch->list_only)
		watch_follow(watch);
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
	else if (watch->ops.absent && response->result == 0 &&
		 (response->status == 404 || response->status == 403))
		watch_is_absent(watch);
	else if (response->result < 0 || response->status != 200)
		watch_list_failed(watch, response->text);
	else if (r < 0)
		watch_list_failed(watch, watch_failure_text(r));
	else if (watch->continue_[0])
		watch_list(watch);
	else
		watch_list_complete(watch, version);
}

static void watch_begin_round(struct kube_watch *watch)
{
	watch->round++;
	watch->counts.lists++;
	watch->unreadable = 0;
}

/* Requests the next page, or the first of a new LIST. Without a resourceVersion the API server returns the
 * most recent state, read with quorum. */
void watch_list(struct kube_watch *watch)
{
	_cleanup_strbuf_ struct strbuf path;
	int r;

	strbuf_init(&path, WATCH_PATH_MAX);
	strbuf_addf(&path, "%s?limit=%d", watch->collection, PAGE_ITEMS);
	if (watch->first_list_query && !watch->synced)
		strbuf_addf(&path, "&%s", watch->first_list_query);
	if (watch->continue_[0])
		watch_add_escaped(&path, "continue", watch->continue_);
	else
		watch_begin_round(watch);
	r = watch_begin(watch, &path, JSON_SPLIT_LIST, watch_on_listed, watch_on_list_end);
	if (r < 0)
		watch_list_failed(watch, strerror(-r));
}
