#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/json.h"
#include "kube/object-name.h"
#include "kube/resource-policy.h"
#include "kube/watch.h"
#include "scheduler/levels-internal.h"
#include "scheduler/scheduler.h"

/* Pods that have ended are in no level. */
#define PODS_QUERY "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
/* Where there is no such collection, it may come later. */
#define ABSENT_BACKOFF_MS 30000
#define BACKOFF_MAX_MS 1000
#define LIST_AGAIN_NS (5 * NS_PER_S)
/* A verdict that the watch shows so soon after a claim may be that of the question before. */
#define CLAIM_GRACE_NS (2 * NS_PER_S)

/* ---- pods of a namespace ---- */

/* kube-scheduler has said no after we said yes: something else rejected the pod. And who is unschedulable
 * without that we were asked has found no room in its first level since then. */
static void take_verdict(struct level_space *space, struct level_pod *pod, uint64_t before)
{
	uint64_t preempted = pod->wait.preempted;
	struct level_answer ignored;
	int64_t now = monotonic_ns();

	if (*pod->facts.node || !pod->facts.verdict || pod->facts.verdict == before || !pod->group)
		return;
	if (pod->claim >= 0 && now - pod->claim_began_ns > CLAIM_GRACE_NS)
		level_book_drop_claim(&space->book, pod);
	if (pod->claim >= 0 || !levels_space_is_ready(space))
		return;
	level_book_ask(&space->book, pod, 1, 0, now, &ignored);
	pod->wait.preempted = preempted;
}

/* While the namespace is listed, its list may be older than what the watch tells. */
static void note_end(struct level_space *space, const char *uid)
{
	if (space->list && table_set(&space->ended, uid, space) < 0)
		log_error("pod %s: out of memory", uid);
}

/* listed: by the list of the namespace, else by the watch of pods, which may be ahead of it: the list says
 * nothing about pods that the watch has shown, or has told the end of, since the list began. */
static void take_pod(struct level_space *space, struct json_object *object, bool listed)
{
	_cleanup_level_pod_facts_ struct level_pod_facts facts;
	const struct level_pod *known;
	struct level_pod *pod;
	uint64_t before;

	if (level_pod_facts_from_json(object, &space->book.annotation_keys, &facts) < 0)
		return;
	if (listed && (level_book_is_shown(&space->book, facts.uid) || table_get(&space->ended, facts.uid)))
		return;
	if (facts.finished)
		note_end(space, facts.uid);
	known = level_book_pod(&space->book, facts.uid);
	before = known ? known->facts.verdict : 0;
	pod = level_book_set_pod(&space->book, &facts, true);
	if (pod)
		take_verdict(space, pod, before);
	space->unwritten = true;
	levels_look_soon(space->levels);
}

static const char *namespace_of(struct json_object *object)
{
	return json_member_string(json_member(object, "metadata"), "namespace");
}

void levels_see_pod(struct levels *levels, struct json_object *object)
{
	const char *namespace_ = levels_are_used(levels) ? namespace_of(object) : NULL;
	struct level_space *space = namespace_ ? levels_space(levels, namespace_) : NULL;

	if (space)
		take_pod(space, object, false);
}

static void forget_pod(struct level_space *space, const char *uid)
{
	note_end(space, uid);
	level_book_delete_pod(&space->book, uid);
	levels_look_soon(space->levels);
}

void levels_forget_pod(struct levels *levels, const char *uid, struct json_object *last)
{
	const char *namespace_ = last ? namespace_of(last) : NULL;
	struct level_space *space = NULL;

	if (!levels_are_used(levels))
		return;
	if (namespace_ && (space = levels_space(levels, namespace_)))
		forget_pod(space, uid);
	if (namespace_)
		return;
	table_for_each (&levels->spaces, cursor, space)
		if (space->list || level_book_pod(&space->book, uid))
			forget_pod(space, uid);
}

static void on_listed_pod(void *userdata, struct json_object *object)
{
	take_pod(userdata, object, true);
}

/* Whom kube-scheduler was told no about before we started it keeps back until something happens to them. */
static void find_waiting(struct level_space *space)
{
	struct level_pod *pod;

	table_for_each (&space->book.pods, cursor, pod)
		if (pod->policy && pod->facts.ours && !*pod->facts.node && !pod->facts.terminating &&
			!pod->asked && !pod->waits) {
			pod->waits = true;
			pod->waits_since_ns = pod->wake_ns = monotonic_ns();
		}
}

static void on_pods_listed(void *userdata)
{
	struct level_space *space = userdata;

	level_book_settle(&space->book);
	space->book.freed++; /* who was told to wait for this */
	if (space->is_older)
		find_waiting(space);
	space->is_older = false;
	space->is_read = true;
	levels_look_soon(space->levels);
}

static void stop_reading(struct level_space *space)
{
	kube_watch_free(space->list);
	space->list = NULL;
	table_release(&space->ended);
	table_init(&space->ended);
}

/* Before there was a policy, or before one named a certain annotation, the pods that the watch showed were
 * not kept: they are listed once. */
static int read_pods(struct level_space *space)
{
	static const struct kube_watch_ops ops = {.object = on_listed_pod, .synced = on_pods_listed};
	struct scheduler *scheduler = space->levels->scheduler;
	char path[512];
	int r;

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods", space->name);
	stop_reading(space);
	level_book_begin_list(&space->book);
	r = kube_list_start(scheduler->client, scheduler->loop, path, PODS_QUERY, &ops, space, &space->list);
	if (r < 0)
		return r;
	kube_watch_set_backoff_max_ms(space->list, BACKOFF_MAX_MS);
	return 0;
}

/* ---- nodes ---- */

void levels_see_node(struct levels *levels, const char *name, struct json_object *object)
{
	_cleanup_free_ char *labels = NULL;

	if (!levels || labels_from_json(json_member(json_member(object, "metadata"), "labels"), &labels) < 0)
		return;
	if (level_nodes_set(&levels->nodes, name, labels) < 0)
		log_error("node %s: out of memory", name);
	if (levels->spaces.count)
		levels_look_soon(levels);
}

void levels_forget_node(struct levels *levels, const char *name)
{
	if (!levels)
		return;
	level_nodes_remove(&levels->nodes, name);
	if (levels->spaces.count)
		levels_look_soon(levels);
}

/* ---- policies ---- */

static struct level_space *space_get_or_add(struct levels *levels, const char *name)
{
	struct level_space *space = levels_space(levels, name);

	if (space)
		return space;
	space = calloc(1, sizeof(*space));
	if (!space)
		return NULL;
	space->levels = levels;
	space->is_older = !levels->known;
	space->name = strdup(name);
	table_init(&space->statuses);
	table_init(&space->ended);
	level_book_init(&space->book, &levels->nodes);
	if (!space->name || table_set(&levels->spaces, name, space) < 0) {
		free(space->name);
		free(space);
		return NULL;
	}
	return space;
}

static void space_free(struct level_space *space)
{
	struct level_status *status;

	stop_reading(space);
	table_for_each (&space->statuses, cursor, status)
		level_status_drop(space, status->uid);
	table_release(&space->statuses);
	level_book_release(&space->book);
	free(space->name);
	free(space);
}

/* Only bound pods have got one from us: on another it is somebody's copy. */
static bool has_costs_of_ours(const struct level_space *space)
{
	const struct level_pod *pod;

	table_for_each (&space->book.pods, cursor, pod)
		if (pod->facts.cost == LEVEL_COST_OURS && *pod->facts.node)
			return true;
	return false;
}

/* One whose last policy has gone is kept until its pods are clean again. */
void levels_follow(struct levels *levels)
{
	struct level_space *space;

	table_for_each (&levels->spaces, cursor, space) {
		bool used = !list_empty(&space->book.policies);

		if (space->is_read && space->list)
			stop_reading(space);
		if (used && !space->is_read && !space->list && read_pods(space) < 0)
			log_error("the pods of namespace %s cannot be listed, trying again", space->name);
		if (used || space->statuses.count || (space->is_read && has_costs_of_ours(space)))
			continue;
		table_remove(&levels->spaces, space->name);
		space_free(space);
	}
}

static void remember_space(struct levels *levels, const char *uid, const char *name)
{
	char *copy = table_get(&levels->space_names, uid) ? NULL : strdup(name);

	if (copy && table_set(&levels->space_names, uid, copy) < 0)
		free(copy);
}

static size_t policies_of(const struct level_space *space)
{
	size_t n = 0;

	list_for_each (item, &space->book.policies)
		n++;
	return n;
}

static size_t used_spaces(const struct levels *levels)
{
	const struct level_space *space;
	size_t n = 0;

	table_for_each (&levels->spaces, cursor, space)
		n += !list_empty(&space->book.policies);
	return n;
}

static int check_crowd(const struct level_space *space, const struct level_policy *policy, struct error *err)
{
	if (level_book_policy(&space->book, policy->uid))
		return 0;
	if (policies_of(space) >= POLICIES_MAX)
		return error_set(err, E2BIG, "its namespace has %d others already", POLICIES_MAX);
	if (list_empty(&space->book.policies) && used_spaces(space->levels) >= SPACES_MAX)
		return error_set(err, E2BIG, "%d other namespaces have ResourcePolicies already", SPACES_MAX);
	return 0;
}

/* Annotations that no policy named before were not kept: the pods are listed anew. */
static int take_policy(struct level_space *space, struct level_policy *policy, struct error *err)
{
	bool annotations = false;
	int r = check_crowd(space, policy, err);

	if (r < 0) {
		level_policy_free(policy);
		return r;
	}
	for (size_t i = 0; i < policy->n_levels; i++)
		annotations = annotations || policy->levels[i].pod_annotations.n;
	if (level_book_set_policy(&space->book, policy) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (annotations) {
		stop_reading(space);
		space->is_read = false;
	}
	return 0;
}

static bool is_unchanged(const struct level_space *space, const char *uid, struct json_object *metadata)
{
	const struct level_status *status = table_get(&space->statuses, uid);
	int64_t generation = 0;

	return status && !status->crowded &&
	       json_whole(json_member(metadata, "generation"), 1, INT64_MAX, &generation) == 0 &&
	       generation == status->generation;
}

/* Those who were refused for others are asked about again. */
static void make_room(struct levels *levels)
{
	levels->made_room = levels->made_room || levels->n_crowded || levels->ignored;
}

static void judge_policy(struct level_space *space, struct level_status *status, struct json_object *object)
{
	struct level_policy *policy = NULL;
	struct error err = {0};
	int r = level_policy_from_json(object, &policy, &err);

	if (r == 0)
		r = take_policy(space, policy, &err);
	if (r < 0) {
		log_warning("ResourcePolicy %s/%s: %s, ignoring it", space->name, status->name, err.text);
		level_book_remove_policy(&space->book, status->uid);
	}
	level_status_set(status, object, r, err.text);
	if (r < 0 && r != -E2BIG)
		make_room(space->levels);
	space->unwritten = true;
}

static void on_policy(void *userdata, struct json_object *object)
{
	struct levels *levels = userdata;
	struct json_object *metadata = json_member(object, "metadata");
	const char *uid = json_member_string(metadata, "uid"), *name = json_member_string(metadata, "name"),
		   *namespace_ = json_member_string(metadata, "namespace");
	struct level_space *space;
	struct level_status *status;

	if (!uid || !name || !object_name_is_valid(name) || !namespace_ || !object_name_is_valid(namespace_))
		return;
	space = space_get_or_add(levels, namespace_);
	status = space ? level_status_of(space, uid, name) : NULL;
	if (!status) {
		log_warning("ResourcePolicy %s/%s: ignored, there are %d already", namespace_, name,
			STATUSES_MAX);
		levels->ignored = true;
		levels_follow(levels);
		return;
	}
	status->round = levels->round;
	if (is_unchanged(space, uid, metadata))
		return;
	remember_space(levels, uid, namespace_);
	judge_policy(space, status, object);
	levels_follow(levels);
	levels_look_soon(levels);
}

static void on_policy_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct levels *levels = userdata;
	_cleanup_free_ char *name = table_remove(&levels->space_names, uid);
	struct level_space *space = name ? levels_space(levels, name) : NULL;

	(void)last;
	if (!space)
		return;
	level_book_remove_policy(&space->book, uid);
	level_status_drop(space, uid);
	make_room(levels);
	space->unwritten = true;
	levels_follow(levels);
	levels_look_soon(levels);
}

/* What was deleted while nobody watched: after a LIST that we asked for ourselves. */
static bool forget_one_unshown(struct levels *levels)
{
	struct level_space *space;
	struct level_status *status;

	table_for_each (&levels->spaces, cursor, space)
		table_for_each (&space->statuses, at, status)
			if (status->round != levels->round) {
				on_policy_deleted(levels, status->uid, NULL);
				return true;
			}
	return false;
}

static void on_policies_synced(void *userdata)
{
	struct levels *levels = userdata;

	while (forget_one_unshown(levels))
		; /* spaces go with their last one */

	if (levels->absent)
		log_info("ResourcePolicies are known to the API server now");
	levels->known = true;
	levels->absent = false;
}

static void on_policies_absent(void *userdata)
{
	struct levels *levels = userdata;

	if (!levels->absent)
		log_info("the API server has no ResourcePolicies for us: no levels");
	levels->known = true;
	levels->absent = true;
}

int levels_watch_start(struct levels *levels)
{
	static const struct kube_watch_ops ops = {.object = on_policy,
		.deleted = on_policy_deleted,
		.synced = on_policies_synced,
		.absent = on_policies_absent};
	struct scheduler *scheduler = levels->scheduler;
	int r = kube_watch_start(scheduler->client, scheduler->loop, RESOURCE_POLICIES, NULL, &ops, levels,
		&levels->policies_watch);

	if (r == 0)
		kube_watch_set_backoff_max_ms(levels->policies_watch, ABSENT_BACKOFF_MS);
	return r;
}

/* Not from within a watch. */
void levels_list_again(struct levels *levels)
{
	int64_t now = monotonic_ns();

	if (levels->policies_watch && (!levels->made_room || now - levels->listed_ns < LIST_AGAIN_NS ||
					      !kube_watch_synced(levels->policies_watch)))
		return;
	kube_watch_free(levels->policies_watch);
	levels->policies_watch = NULL;
	levels->made_room = levels->ignored = false;
	levels->listed_ns = now;
	levels->round++;
	if (levels_watch_start(levels) < 0)
		log_error("ResourcePolicies cannot be watched, trying again");
}

void levels_watch_stop(struct levels *levels)
{
	struct level_space *space;
	char *name;

	kube_watch_free(levels->policies_watch);
	table_for_each (&levels->spaces, cursor, space) {
		table_remove(&levels->spaces, space->name);
		space_free(space);
	}
	table_for_each (&levels->space_names, at, name)
		free(name);
}
