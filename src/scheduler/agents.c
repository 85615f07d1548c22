#include "scheduler/agents.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/table.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/watch.h"
#include "scheduler/scheduler.h"

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

void agents_tick(struct agents *agents)
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

void agents_tell(const struct agents *agents, const char *node)
{
	const struct agent *agent = table_get(&agents->by_node, node);

	core_set_agent_lost(&agents->scheduler->core, node, agent && agent->lost);
	if (agent && agent->changed_ns)
		core_hear_agent(&agents->scheduler->core, node, agent->changed_ns);
}

const struct kube_watch *agents_watch(const struct agents *agents)
{
	return agents->watch;
}

int agents_start(struct scheduler *scheduler, struct agents **ret_agents)
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

void agents_stop(struct agents *agents)
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
