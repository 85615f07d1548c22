/* reconcile.c - what the agent does after a change and each second, in one order. */
#include "agent/agent.h"

#include <stdlib.h>
#include <string.h>

#include "agent/container/delivery.h"
#include "agent/container/leftovers.h"
#include "agent/container/runtime.h"
#include "agent/dra/dra.h"
#include "agent/gpu/health.h"
#include "agent/gpu/looks.h"
#include "agent/gpu/power.h"
#include "agent/gpu/refused.h"
#include "agent/kubelet/kubelet.h"
#include "agent/node/faults.h"
#include "agent/node/warnings.h"
#include "agent/node/report.h"
#include "agent/node/settle.h"
#include "agent/node/state.h"
#include "agent/node/strays.h"
#include "agent/node/topology.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/watch.h"
#include "net/loop.h"

#define TICK_NS NS_PER_S

static void agent_remember(struct agent *agent)
{
	struct state state = {.mode = agent->node.in_force,
		.knows_cdi = runtime_answered(agent->runtime),
		.does_cdi = runtime_does_cdi(agent->runtime)};
	struct error err = {""};

	if (agent->node.saved)
		return;
	agent->node.saved = state_save(agent->options.state_dir, &agent->node.inventory, &state, &err) == 0;
	if (!agent->node.saved && !agent->remember_failure)
		log_warning(
			"%s: should this agent restart, it has to wait for the driver, the container runtime and the API server",
			err.text);
	agent->remember_failure = !agent->node.saved;
}

/* Node, pods and the cluster's unit are known. */
static bool knows_the_cluster(const struct agent *agent)
{
	return agent->node_watch && kube_watch_synced(agent->node_watch) && agent->node.pods_listed &&
	       power_is_told(agent->power);
}

/* Brings everything that follows from GPUs, pods, labels and settings up to date. Each step compares, and
 * writes only a difference, so that it can run at any time. A step reads the registry and what the steps
 * before it have decided. */
void agent_reconcile(void *userdata)
{
	struct agent *agent = userdata;

	/* A new size in a pod's placement becomes the limit in its grants. That needs neither mode nor Node.
	 */
	delivery_follow_sizes(agent->delivery, agent->leftovers);
	/* The lists of faulty GPUs decide which GPUs the inventory shows as healthy. */
	faults_follow(agent->faults);
	/* The mode dra is asked for only where the API server knows claims. */
	dra_follow_label(agent->dra);
	/* Until the cluster is known, the mode and the unit that were in force last stay. */
	if (knows_the_cluster(agent)) {
		const struct settle_seen seen = {.object = report_node(agent->report),
			.n_orphans = leftovers_count(agent->leftovers),
			.offered_to_claims = dra_is_offered(agent->dra),
			.following = kube_watch_connected(agent->pod_watch)};

		settle_terms(&agent->settle, &seen);
		/* These read the mode that settle_terms() has just put into force. */
		mig_report(&agent->node, &agent->events);
		missing_gpus_report(&agent->node, &agent->events);
		other_plugin_look(&agent->node, &agent->events, seen.object);
		device_loss_look(&agent->device_loss, &agent->node, &agent->events, agent->runtime,
			agent->options.proc);
		agent->node.settled = true;
		leftovers_reconcile(agent->leftovers, seen.object);
	}
	/* Decides whether an isolated mode can be served, before the kubelet or the Node object get the
	 * result. */
	delivery_look(agent->delivery);
	node_registry_decide(&agent->node, leftovers_count(agent->leftovers));
	/* The state file is written before the kubelet gets the devices. The next agent process must know
	 * that containers are limited by grants, and, if it never sees the driver, that this node has GPUs to
	 * report as not served. */
	agent_remember(agent);
	kubelet_offer(agent->kubelet);
	dra_offer(agent->dra, agent->node.settled && faults_settled(agent->faults));
	/* No other step reads the shares of computing power. */
	power_changed(agent->power);
	/* The Node object is last, because the scheduler places pods here by what it says. Before the fault
	 * lists are read, it could call an unhealthy GPU healthy. */
	if (agent->node.settled && faults_settled(agent->faults))
		report_update(agent->report);
	if (agent->node.settled)
		topology_update(agent->topology);
}

void agent_changed(struct agent *agent)
{
	loop_timer_set(agent->reconcile, 0);
}

/* An entry of a pod that the API server does not have: the pod was removed while no watch was open. */
static const struct served_entry *find_gone(const struct agent *agent)
{
	list_for_each (item, &agent->node.served.entries) {
		const struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (!node_pods_by_uid(&agent->node.pods, entry->uid))
			return entry;
	}
	return NULL;
}

/* This may run only when all pods of the node are known. The kubelet's checkpoint, read again for a
 * container's start, may have such entries too. */
void agent_forget_gone(struct agent *agent)
{
	const struct served_entry *entry;

	while ((entry = find_gone(agent))) {
		/* A copy, because the entry's own uid is freed with the entry. */
		_cleanup_free_ char *uid = strdup(entry->uid);

		if (!uid)
			break;
		served_remove_pod(&agent->node.served, uid);
	}
}

/* Asks the driver, the container runtime and the API server again, and repeats what failed. */
void agent_tick(void *userdata)
{
	struct agent *agent = userdata;

	loop_timer_set(agent->tick, TICK_NS);
	gpu_health_poll(agent->health);
	looks_tick(agent->looks);
	refused_tick(agent->refused);
	kubelet_retry(agent->kubelet);
	dra_tick(agent->dra);
	if (kube_watch_connected(agent->pod_watch))
		strays_look(agent->strays);
	if (agent->node.pods_listed && kube_watch_connected(agent->pod_watch))
		agent_forget_gone(agent);
	agent_changed(agent);
}
