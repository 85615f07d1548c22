#include "scheduler/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/table.h"
#include "kube/json.h"
#include "kube/kube-metrics.h"
#include "kube/names.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "kube/watch.h"
#include "scheduler/leadership.h"
#include "scheduler/policies.h"
#include "scheduler/scheduler.h"

/* The Leases of the nodes' agents. A node whose agent no longer renews its Lease does not serve.
 *
 * One watch follows all Leases with the agents' label. A Lease is stale if the watch has shown no change of
 * its renewTime for leaseDurationSeconds. The time is measured by this machine's monotonic clock, so clocks
 * of machines are never compared. Time during which the watch was down does not count. A node without a Lease
 * has an agent that writes none, and it serves. */

#define COLLECTION "/apis/coordination.k8s.io/v1/namespaces/" NAMESPACE_SYSTEM "/leases"
#define QUERY "labelSelector=" LEASE_NODE_LABEL "%3Dagent"
#define DURATION_DEFAULT_S 40
#define DURATION_MAX_S 3600

struct agent {
	char *node;
	char renewed[40]; /* spec.renewTime as text; only its changes matter */
	int64_t changed_ns;
	int64_t duration_s;
	bool lost;
};

struct agents {
	struct scheduler *scheduler;
	struct kube_watch *watch;
	struct table by_uid,
		by_node;	    /* by uid or node of the Lease; both have struct agent, owned by by_uid */
	int64_t following_since_ns; /* since then the watch has shown all changes */
};

static void agent_free(struct agent *agent)
{
	if (!agent)
		return;
	free(agent->node);
	free(agent);
}

static const char *node_of(struct json_object *lease)
{
	const char *name = json_member_string(json_member(lease, "metadata"), "name");
	size_t prefix = strlen(LEASE_NODE_PREFIX);

	return name && strncmp(name, LEASE_NODE_PREFIX, prefix) == 0 && name[prefix] ? name + prefix : NULL;
}

static struct agent *agent_add(struct agents *agents, const char *uid, const char *node)
{
	struct agent *agent = calloc(1, sizeof(*agent)), *before = table_get(&agents->by_node, node);

	if (agent) {
		agent->node = strdup(node);
		agent->lost = before && before->lost;
	}
	if (!agent || !agent->node || table_set(&agents->by_uid, uid, agent) < 0) {
		agent_free(agent);
		return NULL;
	}
	/* The Lease was created again under its name: the new one counts, and the deletion of the old one may
	 * come later. */
	if (table_set(&agents->by_node, node, agent) < 0) {
		table_remove(&agents->by_uid, uid);
		agent_free(agent);
		return NULL;
	}
	return agent;
}

static void agent_set_lost(struct agents *agents, struct agent *agent, bool lost)
{
	if (agent->lost == lost)
		return;
	agent->lost = lost;
	if (lost)
		log_warning("node %s: its agent has not renewed its Lease for %" PRId64
			    " s, nothing is bound there",
			agent->node, agent->duration_s);
	else
		log_info("node %s: its agent renews its Lease again", agent->node);
	core_set_agent_lost(&agents->scheduler->core, agent->node, lost);
}

static void on_lease(void *userdata, struct json_object *lease)
{
	struct agents *agents = userdata;
	struct json_object *spec = json_member(lease, "spec");
	const char *uid = json_member_string(json_member(lease, "metadata"), "uid");
	const char *renewed = json_member_string(spec, "renewTime"), *node = node_of(lease);
	struct agent *agent = uid ? table_get(&agents->by_uid, uid) : NULL;

	if (!uid || !node)
		return;
	if (!agent && !(agent = agent_add(agents, uid, node))) {
		log_error("node %s: out of memory", node);
		return;
	}
	agent->duration_s = DURATION_DEFAULT_S;
	json_whole(json_member(spec, "leaseDurationSeconds"), 1, DURATION_MAX_S, &agent->duration_s);
	if (!renewed || strlen(renewed) >= sizeof(agent->renewed))
		renewed = "";
	if (agent->changed_ns && strcmp(agent->renewed, renewed) == 0)
		return;
	snprintf(agent->renewed, sizeof(agent->renewed), "%s", renewed);
	agent->changed_ns = monotonic_ns();
	core_hear_agent(&agents->scheduler->core, node, agent->changed_ns);
	agent_set_lost(agents, agent, false);
}

static void on_lease_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct agents *agents = userdata;
	struct agent *agent = table_remove(&agents->by_uid, uid);

	if (!agent)
		return;
	if (table_get(&agents->by_node, agent->node) == agent) {
		agent_set_lost(agents, agent, false);
		core_hear_agent(&agents->scheduler->core, agent->node, 0);
		table_remove(&agents->by_node, agent->node);
	}
	agent_free(agent);
}

/* agents_tick() - tells the ledger which Leases ran out; call it every few seconds. */
static void agents_tick(struct agents *agents)
{
	int64_t now = monotonic_ns();
	struct agent *agent;

	if (!kube_watch_connected(agents->watch)) {
		agents->following_since_ns = now;
		return;
	}
	table_for_each (&agents->by_node, cursor, agent) {
		int64_t since = agent->changed_ns > agents->following_since_ns ? agent->changed_ns
									       : agents->following_since_ns;

		if (now - since > agent->duration_s * NS_PER_S)
			agent_set_lost(agents, agent, true);
	}
}

static void agents_tell(const struct agents *agents, const char *node)
{
	const struct agent *agent = table_get(&agents->by_node, node);

	core_set_agent_lost(&agents->scheduler->core, node, agent && agent->lost);
	if (agent && agent->changed_ns)
		core_hear_agent(&agents->scheduler->core, node, agent->changed_ns);
}

static const struct kube_watch *agents_watch(const struct agents *agents)
{
	return agents->watch;
}

static void agents_stop(struct agents *agents)
{
	struct agent *agent;

	if (!agents)
		return;
	kube_watch_free(agents->watch);
	table_for_each (&agents->by_uid, cursor, agent)
		agent_free(agent);
	table_release(&agents->by_uid);
	table_release(&agents->by_node);
	free(agents);
}

static int agents_start(struct scheduler *scheduler, struct agents **ret_agents)
{
	static const struct kube_watch_ops ops = {.object = on_lease, .deleted = on_lease_deleted};
	struct agents *agents = calloc(1, sizeof(*agents));
	int r;

	if (!agents)
		return -ENOMEM;
	agents->scheduler = scheduler;
	table_init(&agents->by_uid);
	table_init(&agents->by_node);
	r = kube_watch_start(
		scheduler->client, scheduler->loop, COLLECTION, QUERY, &ops, agents, &agents->watch);
	if (r < 0) {
		agents_stop(agents);
		return r;
	}
	*ret_agents = agents;
	return 0;
}

/* Pods that have succeeded occupy nothing. Without them, the old Jobs of a cluster cost neither time nor
 * memory at the start. The containers of a failed pod may run. */
#define PODS_QUERY "fieldSelector=status.phase%21%3DSucceeded"

/* The back-off is short, because there are few schedulers, and an event that the scheduler misses keeps GPUs
 * from pods. */
#define BACKOFF_MAX_MS 1000

struct sync {
	struct scheduler *scheduler;
	struct kube_watch *nodes, *pods;
	int64_t nodes_message_ns; /* a message of the watch of nodes that does not count yet */
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

/* What the watch of nodes sends first after a silence may be old, and more follows. So the time of a message
 * counts a while later. */
static void nodes_tick(struct sync *sync, int64_t now_ns)
{
	if (now_ns - sync->nodes_message_ns < WATCH_LAG_MAX_NS)
		return;
	core_set_nodes_told(&sync->scheduler->core, sync->nodes_message_ns);
	sync->nodes_message_ns = kube_watch_counts(sync->nodes)->last_message_ns;
}

void sync_tick(struct sync *sync)
{
	struct core *core = &sync->scheduler->core;

	core_set_watch(
		core, core->following, core->following ? kube_watch_counts(sync->pods)->last_message_ns : 0);
	nodes_tick(sync, monotonic_ns());
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
