#include "scheduler/sync.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/table.h"
#include "kube/json.h"
#include "kube/kube-metrics.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "kube/watch.h"
#include "scheduler/agents.h"
#include "scheduler/gangs.h"
#include "scheduler/policies.h"
#include "scheduler/preempt.h"
#include "scheduler/requeue.h"
#include "scheduler/resize.h"
#include "scheduler/scheduler.h"
#include "scheduler/verify-unlisted.h"

/* Pods that have succeeded occupy nothing: at the start a cluster's old Jobs cost neither time nor memory.
 * Containers of one that failed may run. */
#define PODS_QUERY "fieldSelector=status.phase%21%3DSucceeded"

/* No answer of the API server is that late: our requests wait 5 s at most. */
#define FORGOTTEN_S 15
/* There are few of us, and what we do not see keeps GPUs from pods. */
#define BACKOFF_MAX_MS 1000

struct sync {
	struct scheduler *scheduler;
	struct kube_watch *nodes, *pods;
	struct agents *agents;
	struct table node_names; /* node uid -> name (malloc'ed): deletions may come without the object */
	struct table complaints; /* uid -> last sentence logged about this object (malloc'ed) */
	struct table
		forgotten;     /* uid of a pod -> second of the monotonic clock when the watch told its end */
	struct table verdicts; /* uid of an unbound GPU pod -> hash of its PodScheduled=False condition */
	struct table failed;   /* uid -> facts (ours) of a pod of the first LIST whose containers may run */
};

/* Once per object and sentence: a malformed annotation stays in every event of its pod. */
static void complain(struct sync *sync, const char *uid, const char *what, const char *name, const char *text)
{
	const char *before = table_get(&sync->complaints, uid);
	char *copy;

	if (*text ? (before && strcmp(before, text) == 0) : !before)
		return;
	free(table_remove(&sync->complaints, uid));
	if (!*text)
		return;
	log_warning("%s %s: %s", what, name, text);
	copy = strdup(text);
	if (copy && table_set(&sync->complaints, uid, copy) < 0)
		free(copy);
}

static void on_node(void *userdata, struct json_object *object)
{
	_cleanup_node_facts_ struct node_facts facts;
	struct sync *sync = userdata;
	struct error err = {0};
	char *name;

	node_facts_init(&facts);
	if (node_facts_from_json(object, &facts, &err) < 0) {
		log_warning("a node that cannot be read: %s, ignoring", err.text);
		return;
	}
	facts.instances_max = gpu_instances_max(
		facts.mode, facts.unit_mib, sync->scheduler->max_pods_per_gpu);
	facts.mixing = sync->scheduler->job_mixing;
	complain(sync, facts.uid, "node", facts.name, err.text);
	if (!table_get(&sync->node_names, facts.uid)) {
		name = strdup(facts.name);
		if (!name || table_set(&sync->node_names, facts.uid, name) < 0)
			free(name);
	}
	if (ledger_set_node(&sync->scheduler->ledger, &facts) < 0)
		log_error("node %s: out of memory", facts.name);
	policies_see_node(sync->scheduler->policies, facts.name, object);
	agents_tell(sync->agents, facts.name);
	requeuer_look(sync->scheduler->requeuer);
}

static void on_node_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct sync *sync = userdata;
	struct ledger *ledger = &sync->scheduler->ledger;
	_cleanup_free_ char *name = table_remove(&sync->node_names, uid);
	const struct node_ledger *other;

	free(table_remove(&sync->complaints, uid));
	if (!name)
		return;
	ledger_remove_node(ledger, name, uid);
	other = ledger_node(ledger, name); /* that has taken the name, or one that only pods name */
	if (!other || !other->facts.uid)
		policies_forget_node(sync->scheduler->policies, name);
}

static void failed_pod_free(struct pod_facts *facts)
{
	pod_facts_release(facts);
	free(facts);
}

/* The API server does not say when a pod failed or whether its containers have ended since then. Only what
 * fits can run: a hundred pods that a kubelet rejected long ago take no more than the GPU has. */
static void count_failed_pod(struct ledger *ledger, struct pod_facts *facts)
{
	_cleanup_free_ char *node = TAKE_PTR(facts->node);

	facts->finished = false;
	if (ledger_reserve(ledger, facts, node, &facts->placement) < 0)
		return;
	ledger_confirm(ledger, facts->uid);
	ledger_delete_pod(ledger, facts->uid, monotonic_ns() + ORPHAN_NS);
}

/* The first LISTs have told all: what failed before we started stays as an orphan, until its node is heard.
 */
static void count_failed_pods(struct sync *sync)
{
	void *facts;

	if (!sync->scheduler->nodes_synced || !sync->scheduler->pods_synced)
		return;
	table_for_each (&sync->failed, cursor, facts) {
		count_failed_pod(&sync->scheduler->ledger, facts);
		failed_pod_free(facts);
	}
	table_release(&sync->failed);
}

static void on_nodes_synced(void *userdata)
{
	struct sync *sync = userdata;

	if (!sync->scheduler->nodes_synced)
		log_info("nodes are read: %zu", sync->node_names.count);
	sync->scheduler->nodes_synced = true;
	policies_look_anew(sync->scheduler->policies, false);
	count_failed_pods(sync);
	nominations_follow_all(sync->scheduler);
}

/* A number that changes when kube-scheduler says anew that the pod is unschedulable; 0 if it does not say so.
 */
static uintptr_t verdict_of(struct json_object *pod)
{
	struct json_object *conditions = json_member(json_member(pod, "status"), "conditions");

	if (!json_object_is_type(conditions, json_type_array))
		return 0;
	for (size_t i = 0; i < json_object_array_length(conditions); i++) {
		struct json_object *condition = json_object_array_get_idx(conditions, i);
		uintptr_t hash = 1469598103934665603u;

		const char *type = json_member_string(condition, "type");
		const char *value = json_member_string(condition, "status");

		if (!type || strcmp(type, "PodScheduled") != 0 || !value || strcmp(value, "False") != 0)
			continue;
		for (const char *p = json_object_to_json_string(condition); *p; p++)
			hash = (hash ^ (unsigned char)*p) * 1099511628211u;
		return hash | 1;
	}
	return 0;
}

/* "Unschedulable" after our filter said yes: something else rejected the pod, and its hold would only be in
 * the way. A late event of an earlier verdict may end a good hold; bind then chooses again. */
static void end_hold_on_new_verdict(struct sync *sync, const char *uid, struct json_object *pod)
{
	uintptr_t now = verdict_of(pod), before = (uintptr_t)table_get(&sync->verdicts, uid);

	if (!now || now == before)
		return;
	table_set(&sync->verdicts, uid, (void *)now);
	if (!gang_controller_holds(sync->scheduler->gangs, uid))
		ledger_drop_hold(&sync->scheduler->ledger, uid);
}

/* ended: its containers have, too. Otherwise it may stay as an orphan. */
static void forget_pod(struct sync *sync, const char *uid, bool ended)
{
	struct ledger *ledger = &sync->scheduler->ledger;
	uintptr_t second = (uintptr_t)(monotonic_ns() / NS_PER_S) + 1;

	if (ledger_pod(ledger, uid) && table_set(&sync->forgotten, uid, (void *)second) < 0)
		log_error("pod %s: out of memory", uid);
	if (ended)
		ledger_remove_pod(ledger, uid);
	else
		ledger_delete_pod(ledger, uid, monotonic_ns() + ORPHAN_NS);
	gang_controller_forget(sync->scheduler->gangs, uid, ended);
	requeuer_leave(sync->scheduler->requeuer, uid);
	table_remove(&sync->verdicts, uid);
	free(table_remove(&sync->complaints, uid));
}

/* PodGC makes pods of a lost node Failed while their containers run (gc_controller.go, 1.36.3), and a kubelet
 * rejects pods that run when it has lost its record of devices. */
static void on_pod_finished(struct sync *sync, const struct pod_facts *facts)
{
	bool may_run = !facts->succeeded && facts->running;
	struct pod_facts *copy = NULL;

	if (may_run && !sync->scheduler->pods_synced && facts->has_placement)
		copy = calloc(1, sizeof(*copy));
	if (copy && (pod_facts_copy(facts, copy) < 0 || table_set(&sync->failed, copy->uid, copy) < 0)) {
		log_error("pod %s/%s: out of memory", facts->namespace_, facts->name);
		failed_pod_free(copy);
	}
	forget_pod(sync, facts->uid, !may_run);
}

static void on_pod(void *userdata, struct json_object *object)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct sync *sync = userdata;
	struct error err = {0};

	policies_see_pod(sync->scheduler->policies, object);
	pod_facts_init(&facts);
	if (pod_facts_from_json(object, &facts, &err) < 0 && !facts.uid) {
		log_warning("a pod that cannot be read: %s, ignoring", err.text);
		return;
	}
	gang_controller_see(sync->scheduler->gangs, &facts, true);
	if (request_is_empty(&facts.request) && !*err.text)
		return;
	complain(sync, facts.uid, "pod", facts.name ? facts.name : facts.uid, err.text);
	if (facts.finished) {
		on_pod_finished(sync, &facts);
		requeuer_look(sync->scheduler->requeuer);
		return;
	}
	if (ledger_set_pod(&sync->scheduler->ledger, &facts) < 0)
		log_error("pod %s/%s: out of memory", facts.namespace_, facts.name);
	if (facts.node && *facts.node) {
		resizes_see(sync->scheduler->resizes, &facts);
		requeuer_leave(sync->scheduler->requeuer, facts.uid);
		table_remove(&sync->verdicts, facts.uid);
	} else {
		end_hold_on_new_verdict(sync, facts.uid, object);
		nomination_follow(sync->scheduler, &facts);
	}
	requeuer_look(sync->scheduler->requeuer);
}

/* Only a new LIST lacks the pod: its last state is not known, and its containers may live. */
static void assume_running(struct sync *sync, const char *uid)
{
	const struct ledger_pod *pod = ledger_pod(&sync->scheduler->ledger, uid);
	_cleanup_pod_facts_ struct pod_facts facts = {0};

	if (!pod || pod->occupancy != OCCUPANCY_BOUND || pod->facts.running)
		return;
	if (pod_facts_copy(&pod->facts, &facts) < 0)
		return;
	facts.running = true;
	if (ledger_set_pod(&sync->scheduler->ledger, &facts) < 0)
		log_error("pod %s: out of memory", uid);
}

void sync_pod_is_gone(struct sync *sync, const char *uid)
{
	assume_running(sync, uid);
	forget_pod(sync, uid, false);
	requeuer_look(sync->scheduler->requeuer);
}

void sync_pod_has_finished(struct sync *sync, const struct pod_facts *facts)
{
	on_pod_finished(sync, facts);
	requeuer_look(sync->scheduler->requeuer);
}

static void on_pod_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct sync *sync = userdata;

	policies_forget_pod(sync->scheduler->policies, uid, last);
	if (last)
		forget_pod(sync, uid, false);
	else
		sync_pod_is_gone(sync, uid);
	requeuer_look(sync->scheduler->requeuer);
}

/* kube-scheduler keeps them back until something happens to them, whoever of us rejected them. Also those of
 * which it does not say so: in an outage of the API server it could not. */
static void find_waiting(struct sync *sync)
{
	const struct ledger_pod *pod;

	table_for_each (&sync->scheduler->ledger.pods, cursor, pod)
		if (pod->occupancy == OCCUPANCY_WAITING)
			requeuer_found(sync->scheduler->requeuer, &pod->facts);
}

static void on_pods_synced(void *userdata)
{
	struct sync *sync = userdata;

	if (!sync->scheduler->pods_synced) {
		log_info("pods are read: %zu ask for a GPU", sync->scheduler->ledger.pods.count);
		find_waiting(sync);
		requeuer_look(sync->scheduler->requeuer);
	}
	sync->scheduler->pods_synced = true;
	policies_look_anew(sync->scheduler->policies, true);
	count_failed_pods(sync);
	nominations_follow_all(sync->scheduler);
	verify_unlisted(sync->scheduler);
}

static const struct kube_watch_ops node_ops = {
	.object = on_node, .deleted = on_node_deleted, .synced = on_nodes_synced};
static const struct kube_watch_ops pod_ops = {
	.object = on_pod, .deleted = on_pod_deleted, .synced = on_pods_synced};

int sync_start(struct scheduler *scheduler, struct sync **ret_sync)
{
	struct sync *sync = calloc(1, sizeof(*sync));
	int r;

	if (!sync)
		return -ENOMEM;
	sync->scheduler = scheduler;
	table_init(&sync->node_names);
	table_init(&sync->complaints);
	table_init(&sync->verdicts);
	table_init(&sync->failed);
	table_init(&sync->forgotten);
	r = kube_watch_start(
		scheduler->client, scheduler->loop, "/api/v1/nodes", NULL, &node_ops, sync, &sync->nodes);
	if (r == 0)
		r = kube_watch_start(scheduler->client, scheduler->loop, "/api/v1/pods", NULL, &pod_ops, sync,
			&sync->pods);
	if (r == 0)
		r = agents_start(scheduler, &sync->agents);
	if (r < 0) {
		sync_stop(sync);
		return r;
	}
	kube_watch_set_first_list_query(sync->pods, PODS_QUERY);
	kube_watch_set_backoff_max_ms(sync->pods, BACKOFF_MAX_MS);
	kube_watch_set_backoff_max_ms(sync->nodes, BACKOFF_MAX_MS);
	*ret_sync = sync;
	return 0;
}

const char *sync_pods_version(const struct sync *sync)
{
	return kube_watch_version(sync->pods);
}

bool sync_is_following(const struct sync *sync)
{
	return kube_watch_connected(sync->pods);
}

int64_t sync_heard_ns(const struct sync *sync)
{
	return sync_is_following(sync) ? kube_watch_counts(sync->pods)->last_message_ns : 0;
}

bool sync_has_forgotten(const struct sync *sync, const char *uid)
{
	return sync && table_get(&sync->forgotten, uid) != NULL;
}

void sync_tick(struct sync *sync)
{
	uintptr_t now = (uintptr_t)(monotonic_ns() / NS_PER_S);
	const char *uid;
	void *second;

	for (size_t cursor = 0; table_next(&sync->forgotten, &cursor, &uid, &second);)
		if (now > (uintptr_t)second + FORGOTTEN_S)
			table_remove(&sync->forgotten, uid);
	agents_tick(sync->agents);
}

void sync_metrics(const struct sync *sync, struct metrics *metrics)
{
	const struct kube_watch_metric watches[] = {
		{"nodes", sync->nodes}, {"pods", sync->pods}, {"leases", agents_watch(sync->agents)}};

	kube_watch_metrics(metrics, watches, ARRAY_SIZE(watches));
}

static void free_values(struct table *table)
{
	void *value;

	table_for_each (table, cursor, value)
		free(value);
	table_release(table);
}

void sync_stop(struct sync *sync)
{
	void *facts;

	if (!sync)
		return;
	kube_watch_free(sync->nodes);
	kube_watch_free(sync->pods);
	agents_stop(sync->agents);
	free_values(&sync->node_names);
	free_values(&sync->complaints);
	table_for_each (&sync->failed, cursor, facts)
		failed_pod_free(facts);
	table_release(&sync->failed);
	table_release(&sync->verdicts);
	table_release(&sync->forgotten);
	free(sync);
}
