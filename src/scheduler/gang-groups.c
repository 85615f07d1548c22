#include "scheduler/gang-groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/table.h"
#include "core/gang/gang.h"
#include "kube/client.h"
#include "kube/gang.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/watch.h"
#include "scheduler/scheduler.h"

/* The CRD may be installed at any time. */
#define ASK_EVERY_NS (60 * NS_PER_S)
/* Until it is known whether the API server has PodGroups, no gang is placed. */
#define ASK_AGAIN_NS NS_PER_S
#define TIMEOUT_MS 5000

struct gang_groups {
	struct scheduler *scheduler;
	struct kube_watch *watch;
	struct table keys; /* uid -> namespace/name (malloc'ed): deletions may come without the object */
	bool asking, known;
	int64_t ask_ns;
};

static void on_group(void *userdata, struct json_object *object)
{
	struct gang_groups *groups = userdata;
	_cleanup_free_ char *key = NULL;
	const char *uid = json_member_string(json_member(object, "metadata"), "uid");
	struct gang_group group;
	struct error err = {0};

	if (pod_group_from_json(object, &key, &group, &err) < 0)
		log_warning("%s; until then the pods of its gang wait", err.text);
	if (!key)
		return;
	if (core_see_group(&groups->scheduler->core, key, &group, monotonic_ns()) < 0) {
		log_error("PodGroup %s: out of memory", key);
	} else if (uid && !table_get(&groups->keys, uid) && table_set(&groups->keys, uid, key) == 0) {
		TAKE_PTR(key);
	}
}

/* True if another object has this name. After a gap of the watch, the end of the old object is told after the
 * beginning of the new one. */
static bool was_made_anew(const struct gang_groups *groups, const char *key)
{
	const char *other;

	table_for_each (&groups->keys, cursor, other)
		if (strcmp(other, key) == 0)
			return true;
	return false;
}

static void on_group_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct gang_groups *groups = userdata;
	_cleanup_free_ char *key = table_remove(&groups->keys, uid);

	if (key && !was_made_anew(groups, key))
		core_group_is_gone(&groups->scheduler->core, key, monotonic_ns());
}

static void set_known(struct gang_groups *groups)
{
	if (groups->known)
		return;
	groups->known = true;
	core_set_groups_known(&groups->scheduler->core, true, monotonic_ns());
}

static void on_groups_synced(void *userdata)
{
	struct gang_groups *groups = userdata;

	set_known(groups);
	log_debug("PodGroups are read: %zu", groups->keys.count);
}

static void on_answer(void *userdata, const struct kube_response *response)
{
	static const struct kube_watch_ops ops = {
		.object = on_group, .deleted = on_group_deleted, .synced = on_groups_synced};
	struct gang_groups *groups = userdata;

	groups->asking = false;
	/* 404: the API server does not have the kind; 403: access is forbidden. */
	if (response->result == 0 && response->status / 100 == 4 && response->status != 429)
		set_known(groups);
	groups->ask_ns = monotonic_ns() + (groups->known ? ASK_EVERY_NS : ASK_AGAIN_NS);
	if (response->result < 0 || response->status != 200 || groups->watch)
		return;
	log_info("the cluster has PodGroups, which say how large a gang is");
	if (kube_watch_start(groups->scheduler->client, groups->scheduler->loop, POD_GROUPS_PATH, NULL, &ops,
		    groups, &groups->watch) < 0)
		log_error("cannot watch PodGroups, trying again");
}

int gang_groups_new(struct scheduler *scheduler, struct gang_groups **ret_groups)
{
	struct gang_groups *groups = calloc(1, sizeof(*groups));

	if (!groups)
		return -ENOMEM;
	groups->scheduler = scheduler;
	table_init(&groups->keys);
	*ret_groups = groups;
	return 0;
}

void gang_groups_stop(struct gang_groups *groups)
{
	if (!groups)
		return;
	kube_watch_free(groups->watch);
	groups->watch = NULL;
	groups->asking = true;
}

void gang_groups_free(struct gang_groups *groups)
{
	char *key;

	if (!groups)
		return;
	table_for_each (&groups->keys, cursor, key)
		free(key);
	table_release(&groups->keys);
	free(groups);
}

void gang_groups_tick(struct gang_groups *groups, int64_t now_ns)
{
	if (groups->watch || groups->asking || now_ns < groups->ask_ns)
		return;
	groups->asking = kube_request(groups->scheduler->client, "GET", POD_GROUPS_PATH "?limit=1", NULL,
				 NULL, TIMEOUT_MS, on_answer, groups, NULL) == 0;
	groups->ask_ns = now_ns + (groups->known ? ASK_EVERY_NS : ASK_AGAIN_NS);
}
