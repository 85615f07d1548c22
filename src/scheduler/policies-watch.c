/* policies-watch.c - follows ResourcePolicies, and the pods and nodes that these select. */
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
#include "scheduler/policies-internal.h"
#include "scheduler/scheduler.h"

/* Pods that have ended are in no unit. */
#define PODS_QUERY "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
/* If the API server does not have the collection, it may get it later. */
#define ABSENT_BACKOFF_MS 30000
#define BACKOFF_MAX_MS 1000
#define ENDED_MAX 10000 /* uids; a list that takes longer begins again */
#define LIST_AGAIN_NS (5 * NS_PER_S)

/* ---- pods of a namespace ---- */

/* While the namespace is listed, its list may be older than what the watch tells. If a pod's end cannot be
 * remembered, the namespace is listed again. */
static void note_end(struct policy_namespace *ns, const char *uid)
{
	if (ns->list && (ns->ended.count >= ENDED_MAX || table_set(&ns->ended, uid, ns) < 0))
		ns->again = true;
}

/* listed: from the list of the namespace; else from the watch of pods. The watch may be ahead of the list. So
 * the list does not count for pods that the watch has shown, or whose end it has told, since the list began.
 */
static void take_pod(struct policy_namespace *ns, struct json_object *object, bool listed)
{
	_cleanup_policy_pod_facts_ struct policy_pod_facts facts;

	if (policy_pod_facts_from_json(object, &ns->space->book.annotation_keys, &facts) < 0)
		return;
	if (listed && (policy_book_is_shown(&ns->space->book, facts.uid) || table_get(&ns->ended, facts.uid)))
		return;
	if (facts.finished)
		note_end(ns, facts.uid);
	core_see_policy_pod(&ns->policies->scheduler->core, ns->space, &facts, monotonic_ns());
	policies_look_soon(ns->policies);
}

static const char *namespace_of(struct json_object *object)
{
	return json_member_string(json_member(object, "metadata"), "namespace");
}

void policies_see_pod(struct policies *policies, struct json_object *object)
{
	const char *namespace_ = policies ? namespace_of(object) : NULL;
	struct policy_namespace *ns = namespace_ ? policies_namespace(policies, namespace_) : NULL;

	/* If all policies of a namespace are refused, its pods are not kept. */
	if (ns && (ns->space->is_read || ns->list || !list_empty(&ns->space->book.policies)))
		take_pod(ns, object, false);
}

static void forget_pod(struct policy_namespace *ns, const char *uid)
{
	note_end(ns, uid);
	core_policy_pod_is_gone(&ns->policies->scheduler->core, ns->space, uid);
	policies_look_soon(ns->policies);
}

void policies_forget_pod(struct policies *policies, const char *uid, struct json_object *last)
{
	const char *namespace_ = last ? namespace_of(last) : NULL;
	struct policy_namespace *ns = NULL;

	if (!policies)
		return;
	if (namespace_ && (ns = policies_namespace(policies, namespace_)))
		forget_pod(ns, uid);
	if (namespace_)
		return;
	table_for_each (&policies->namespaces, cursor, ns)
		if (ns->list || policy_book_pod(&ns->space->book, uid))
			forget_pod(ns, uid);
}

static void on_listed_pod(void *userdata, struct json_object *object)
{
	take_pod(userdata, object, true);
}

static void on_pods_listed(void *userdata)
{
	struct policy_namespace *ns = userdata;
	size_t lost = core_policy_pods_are_listed(
		&ns->policies->scheduler->core, ns->space, ns->is_older, monotonic_ns());

	if (lost)
		log_warning(
			"%zu pods of namespace %s will not be nudged when there is a place for them: too many pods wait",
			lost, ns->space->name);
	ns->is_older = false;
	ns->listed = true;
	policies_look_soon(ns->policies);
}

static void stop_reading(struct policy_namespace *ns)
{
	kube_watch_free(ns->list);
	ns->list = NULL;
	ns->listed = false;
	table_release(&ns->ended);
	table_init(&ns->ended);
}

/* The watch showed pods before there was a policy, or before a policy named a certain annotation. These pods
 * were not kept, so they are listed once. */
static int read_pods(struct policy_namespace *ns)
{
	static const struct kube_watch_ops ops = {.object = on_listed_pod, .synced = on_pods_listed};
	struct scheduler *scheduler = ns->policies->scheduler;
	char path[512];
	int r;

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods", ns->space->name);
	stop_reading(ns);
	ns->again = false;
	core_policy_pods_list_begins(&scheduler->core, ns->space);
	r = kube_list_start(scheduler->client, scheduler->loop, path, PODS_QUERY, &ops, ns, &ns->list);
	if (r < 0)
		return r;
	kube_watch_set_backoff_max_ms(ns->list, BACKOFF_MAX_MS);
	return 0;
}

/* The watch had a gap before this LIST. A pod that only the list of its namespace has shown may have ended in
 * the gap, so the namespaces are listed again. Pods that were told to wait for the first LISTs are asked
 * about again. */
void policies_look_anew(struct policies *policies, bool pods)
{
	struct policy_namespace *ns;

	if (!policies)
		return;
	table_for_each (&policies->namespaces, cursor, ns) {
		ns->again = ns->again || pods;
	}
	core_look_at_policies_anew(&policies->scheduler->core);
	if (policies->namespaces.count)
		policies_look_soon(policies);
}

/* ---- nodes ---- */

void policies_see_node(struct policies *policies, const char *name, struct json_object *object)
{
	_cleanup_free_ char *labels = NULL;

	if (!policies ||
		labels_from_json(json_member(json_member(object, "metadata"), "labels"), &labels) < 0)
		return;
	if (core_see_policy_node(&policies->scheduler->core, name, labels) < 0)
		log_error("node %s: out of memory", name);
	if (policies->namespaces.count)
		policies_look_soon(policies);
}

void policies_forget_node(struct policies *policies, const char *name)
{
	if (!policies)
		return;
	core_policy_node_is_gone(&policies->scheduler->core, name);
	if (policies->namespaces.count)
		policies_look_soon(policies);
}

/* ---- policies ---- */

static struct policy_namespace *namespace_get_or_add(struct policies *policies, const char *name)
{
	struct policy_namespace *ns = policies_namespace(policies, name);

	if (ns)
		return ns;
	ns = calloc(1, sizeof(*ns));
	if (!ns)
		return NULL;
	ns->policies = policies;
	ns->is_older = !policies_spaces(policies)->known;
	table_init(&ns->statuses);
	table_init(&ns->ended);
	ns->space = core_add_policy_space(&policies->scheduler->core, name);
	if (!ns->space || table_set(&policies->namespaces, name, ns) < 0) {
		core_remove_policy_space(&policies->scheduler->core, name);
		free(ns);
		return NULL;
	}
	return ns;
}

static void namespace_free(struct policy_namespace *ns)
{
	struct policy_status *status;

	stop_reading(ns);
	table_for_each (&ns->statuses, cursor, status)
		policy_status_drop(ns, status->uid);
	table_release(&ns->statuses);
	table_remove(&ns->policies->namespaces, ns->space->name);
	core_remove_policy_space(&ns->policies->scheduler->core, ns->space->name);
	free(ns);
}

/* The scheduler writes a cost to bound pods only. On a pod that is not bound it is a copy that a user made.
 */
static bool has_costs_of_ours(const struct policy_namespace *ns)
{
	const struct policy_pod *pod;

	table_for_each (&ns->space->book.pods, cursor, pod)
		if (pod->facts.cost == POLICY_COST_OURS && *pod->facts.node)
			return true;
	return false;
}

/* A namespace whose last policy is gone is kept until its pods have no costs of ration any more. A list
 * begins only while the watch of pods is open. Otherwise no event would tell the end of a pod that ends
 * before the watch's own LIST. */
void policies_follow(struct policies *policies)
{
	bool following = policies->scheduler->core.following;
	struct policy_namespace *ns;

	table_for_each (&policies->namespaces, cursor, ns) {
		bool needed = !list_empty(&ns->space->book.policies) || has_costs_of_ours(ns);

		if (ns->listed)
			stop_reading(ns);
		if (needed && following && (ns->again || (!ns->space->is_read && !ns->list)) &&
			read_pods(ns) < 0)
			log_error("the pods of namespace %s cannot be listed, trying again", ns->space->name);
		if (needed || ns->statuses.count)
			continue;
		namespace_free(ns);
	}
}

static size_t policies_of(const struct policy_namespace *ns)
{
	size_t n = 0;

	list_for_each (item, &ns->space->book.policies)
		n++;
	return n;
}

static size_t used_namespaces(const struct policies *policies)
{
	const struct policy_namespace *ns;
	size_t n = 0;

	table_for_each (&policies->namespaces, cursor, ns)
		n += !list_empty(&ns->space->book.policies);
	return n;
}

static int check_crowd(
	const struct policy_namespace *ns, const struct resource_policy *policy, struct error *err)
{
	if (policy_book_policy(&ns->space->book, policy->uid))
		return 0;
	if (policies_of(ns) >= POLICIES_MAX)
		return error_set(err, E2BIG, "its namespace has %d others already", POLICIES_MAX);
	if (list_empty(&ns->space->book.policies) && used_namespaces(ns->policies) >= NAMESPACES_MAX)
		return error_set(
			err, E2BIG, "%d other namespaces have ResourcePolicies already", NAMESPACES_MAX);
	return 0;
}

static int take_policy(struct policy_namespace *ns, struct resource_policy *policy, struct error *err)
{
	int r = check_crowd(ns, policy, err);

	if (r < 0) {
		resource_policy_free(policy);
		return r;
	}
	r = core_see_policy(&ns->policies->scheduler->core, ns->space, policy);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (r > 0)
		stop_reading(ns);
	return 0;
}

static bool is_unchanged(const struct policy_namespace *ns, const char *uid, struct json_object *metadata)
{
	const struct policy_status *status = table_get(&ns->statuses, uid);
	int64_t generation = 0;

	return status && !status->crowded &&
	       json_whole(json_member(metadata, "generation"), 1, INT64_MAX, &generation) == 0 &&
	       generation == status->generation;
}

/* Reads policies again that were refused because there are too many. */
static void make_room(struct policies *policies)
{
	policies->made_room = policies->made_room || policies->n_crowded || policies->ignored;
}

static void judge_policy(
	struct policy_namespace *ns, struct policy_status *status, struct json_object *object)
{
	struct resource_policy *policy = NULL;
	struct error err = {0};
	int r = resource_policy_from_json(object, &policy, &err);

	if (r == 0)
		r = take_policy(ns, policy, &err);
	if (r < 0) {
		log_warning("ResourcePolicy %s/%s: %s, ignoring it", ns->space->name, status->name, err.text);
		core_policy_is_gone(&ns->policies->scheduler->core, ns->space, status->uid);
	}
	policy_status_set(status, object, r, err.text);
	if (r < 0 && r != -E2BIG)
		make_room(ns->policies);
}

static void on_policy(void *userdata, struct json_object *object)
{
	struct policies *policies = userdata;
	struct json_object *metadata = json_member(object, "metadata");
	const char *uid = json_member_string(metadata, "uid"), *name = json_member_string(metadata, "name"),
		   *namespace_ = json_member_string(metadata, "namespace");
	struct policy_namespace *ns;
	struct policy_status *status;
	char *copy;

	if (!uid || !name || !object_name_is_valid(name) || !namespace_ || !object_name_is_valid(namespace_))
		return;
	ns = namespace_get_or_add(policies, namespace_);
	status = ns ? policy_status_of(ns, uid, name) : NULL;
	if (!status) {
		log_warning("ResourcePolicy %s/%s: ignored, there are %d already", namespace_, name,
			STATUSES_MAX);
		policies->ignored = true;
		policies_follow(policies);
		return;
	}
	status->round = policies->round;
	if (is_unchanged(ns, uid, metadata))
		return;
	copy = table_get(&policies->namespace_names, uid) ? NULL : strdup(namespace_);
	if (copy && table_set(&policies->namespace_names, uid, copy) < 0)
		free(copy);
	judge_policy(ns, status, object);
	policies_follow(policies);
	policies_look_soon(policies);
}

static void on_policy_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct policies *policies = userdata;
	_cleanup_free_ char *name = table_remove(&policies->namespace_names, uid);
	struct policy_namespace *ns = name ? policies_namespace(policies, name) : NULL;

	(void)last;
	if (!ns)
		return;
	core_policy_is_gone(&policies->scheduler->core, ns->space, uid);
	policy_status_drop(ns, uid);
	make_room(policies);
	policies_follow(policies);
	policies_look_soon(policies);
}

/* Finds a policy that was deleted while no watch was open: the new LIST did not show it. */
static bool forget_one_unshown(struct policies *policies)
{
	struct policy_namespace *ns;
	struct policy_status *status;

	table_for_each (&policies->namespaces, cursor, ns)
		table_for_each (&ns->statuses, at, status)
			if (status->round != policies->round) {
				on_policy_deleted(policies, status->uid, NULL);
				return true;
			}
	return false;
}

static void on_policies_synced(void *userdata)
{
	struct policies *policies = userdata;

	while (forget_one_unshown(policies))
		; /* a space is removed with its last policy */

	if (policies->absent)
		log_info("ResourcePolicies are known to the API server now");
	core_set_policies_known(&policies->scheduler->core, true);
	policies->absent = false;
}

static void on_policies_absent(void *userdata)
{
	struct policies *policies = userdata;

	if (!policies->absent)
		log_info("the API server has no ResourcePolicies for us: no levels");
	core_set_policies_known(&policies->scheduler->core, true);
	policies->absent = true;
}

int policies_watch_start(struct policies *policies)
{
	static const struct kube_watch_ops ops = {.object = on_policy,
		.deleted = on_policy_deleted,
		.synced = on_policies_synced,
		.absent = on_policies_absent};
	struct scheduler *scheduler = policies->scheduler;
	int r = kube_watch_start(scheduler->client, scheduler->loop, RESOURCE_POLICIES, NULL, &ops, policies,
		&policies->policies_watch);

	if (r == 0)
		kube_watch_set_backoff_max_ms(policies->policies_watch, ABSENT_BACKOFF_MS);
	return r;
}

/* Not to be called from within a watch. */
void policies_list_again(struct policies *policies)
{
	int64_t now = monotonic_ns();

	if (policies->policies_watch && (!policies->made_room || now - policies->listed_ns < LIST_AGAIN_NS ||
						!kube_watch_synced(policies->policies_watch)))
		return;
	kube_watch_free(policies->policies_watch);
	policies->policies_watch = NULL;
	policies->made_room = policies->ignored = false;
	policies->listed_ns = now;
	policies->round++;
	if (policies_watch_start(policies) < 0)
		log_error("ResourcePolicies cannot be watched, trying again");
}

void policies_watch_stop(struct policies *policies)
{
	struct policy_namespace *ns;
	char *name;

	kube_watch_free(policies->policies_watch);
	table_for_each (&policies->namespaces, cursor, ns)
		namespace_free(ns);
	table_for_each (&policies->namespace_names, at, name)
		free(name);
}
