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
#include "scheduler/policies.h"
#include "scheduler/scheduler.h"
#include "scheduler/verify-unlisted.h"

/* Pods that have succeeded occupy nothing. Without them, the old Jobs of a cluster cost neither time nor
 * memory at the start. The containers of a failed pod may run. */
#define PODS_QUERY "fieldSelector=status.phase%21%3DSucceeded"

/* The back-off is short, because there are few schedulers, and an event that the scheduler misses keeps GPUs
 * from pods. */
#define BACKOFF_MAX_MS 1000

struct sync {
	struct scheduler *scheduler;
	struct kube_watch *nodes, *pods;
	struct agents *agents;
	struct table node_names; /* node uid -> name (malloc'ed): deletions may come without the object */
	struct table complaints; /* uid -> last sentence logged about this object (malloc'ed) */
};

/* Logs once per object and sentence: a malformed annotation stays in every event of its pod. */
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
	if (core_see_node(&sync->scheduler->core, &facts) < 0)
		log_error("node %s: out of memory", facts.name);
	policies_see_node(sync->scheduler->policies, facts.name, object);
	agents_tell(sync->agents, facts.name);
}

static void on_node_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct sync *sync = userdata;
	struct ledger *ledger = &sync->scheduler->core.ledger;
	_cleanup_free_ char *name = table_remove(&sync->node_names, uid);
	const struct node_ledger *other;

	free(table_remove(&sync->complaints, uid));
	if (!name)
		return;
	core_node_is_gone(&sync->scheduler->core, name, uid);
	other = ledger_node(ledger, name); /* a node that has taken the name, or one that only pods name */
	if (!other || !other->facts.uid)
		policies_forget_node(sync->scheduler->policies, name);
}

static void on_nodes_synced(void *userdata)
{
	struct sync *sync = userdata;

	if (!sync->scheduler->core.nodes_listed)
		log_info("nodes are read: %zu", sync->node_names.count);
	core_nodes_are_listed(&sync->scheduler->core, monotonic_ns());
	policies_look_anew(sync->scheduler->policies, false);
}

/* A number that changes when kube-scheduler says again that the pod is unschedulable; 0 if it does not say
 * so. */
static uintptr_t verdict_of(struct json_object *pod)
{
	struct json_object *conditions = json_member(json_member(pod, "status"), "conditions");

	for (size_t i = 0; i < json_count(conditions); i++) {
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

static void on_pod(void *userdata, struct json_object *object)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct sync *sync = userdata;
	struct scheduler *scheduler = sync->scheduler;
	struct error err = {0};
	uintptr_t verdict = 0;

	policies_see_pod(scheduler->policies, object);
	pod_facts_init(&facts);
	if (pod_facts_from_json(object, &facts, &err) < 0 && !facts.uid) {
		log_warning("a pod that cannot be read: %s, ignoring", err.text);
		return;
	}
	if (!(facts.node && *facts.node) && (!request_is_empty(&facts.request) || *err.text))
		verdict = verdict_of(object);
	if (core_see_pod(&scheduler->core, &facts, verdict, monotonic_ns()) < 0)
		log_error("pod %s/%s: out of memory", facts.namespace_, facts.name);
	if (!request_is_empty(&facts.request) || *err.text)
		complain(sync, facts.uid, "pod", facts.name ? facts.name : facts.uid, err.text);
	if (facts.finished)
		complain(sync, facts.uid, "pod", "", "");
}

static void on_pod_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct sync *sync = userdata;
	struct scheduler *scheduler = sync->scheduler;

	policies_forget_pod(scheduler->policies, uid, last);
	if (core_pod_is_gone(&scheduler->core, uid, last != NULL, monotonic_ns()) < 0)
		log_error("pod %s: out of memory", uid);
	complain(sync, uid, "pod", "", "");
}

static void on_pods_synced(void *userdata)
{
	struct sync *sync = userdata;
	struct scheduler *scheduler = sync->scheduler;
	size_t lost;

	if (!scheduler->core.pods_listed)
		log_info("pods are read: %zu ask for a GPU", scheduler->core.ledger.pods.count);
	lost = core_pods_are_listed(&scheduler->core, monotonic_ns());
	if (lost)
		log_warning("%zu pods will not be nudged when a GPU is freed: too many pods wait", lost);
	policies_look_anew(scheduler->policies, true);
	verify_unlisted(scheduler);
}

static void on_pods_connected(void *userdata, bool connected)
{
	struct sync *sync = userdata;

	core_set_watch(&sync->scheduler->core, connected, sync->scheduler->core.heard_ns);
}

static const struct kube_watch_ops node_ops = {
	.object = on_node, .deleted = on_node_deleted, .synced = on_nodes_synced};
static const struct kube_watch_ops pod_ops = {.object = on_pod,
	.deleted = on_pod_deleted,
	.synced = on_pods_synced,
	.connected = on_pods_connected};

int sync_start(struct scheduler *scheduler, struct sync **ret_sync)
{
	struct sync *sync = calloc(1, sizeof(*sync));
	int r;

	if (!sync)
		return -ENOMEM;
	sync->scheduler = scheduler;
	table_init(&sync->node_names);
	table_init(&sync->complaints);
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

void sync_tick(struct sync *sync)
{
	struct core *core = &sync->scheduler->core;

	core_set_watch(
		core, core->following, core->following ? kube_watch_counts(sync->pods)->last_message_ns : 0);
	agents_tick(sync->agents);
	verify_unlisted_tick(sync->scheduler);
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
	if (!sync)
		return;
	kube_watch_free(sync->nodes);
	kube_watch_free(sync->pods);
	agents_stop(sync->agents);
	free_values(&sync->node_names);
	free_values(&sync->complaints);
	free(sync);
}
