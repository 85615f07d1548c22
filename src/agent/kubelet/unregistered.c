#include "agent/kubelet/unregistered.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/delivery/runtime.h"
#include "agent/kubelet/core-plugin.h"
#include "agent/kubelet/plugin.h"
#include "agent/kubelet/registrar.h"
#include "base/clock.h"
#include "base/log.h"

#define PATIENCE_NS (10 * NS_PER_S)
#define REMIND_NS (300 * NS_PER_S)

/* The registrar of a resource that is offered and that the kubelet does not have; NULL: the kubelet has all.
 */
static const struct registrar *find_missing(const struct agent *agent)
{
	if (gpu_plugin_offered(agent) && !plugin_watched(agent->gpu_plugin))
		return agent->gpu_registrar;
	if (plugin_offered(agent) && !plugin_watched(agent->plugin))
		return agent->registrar;
	if (core_plugin_offered(agent) && !core_plugin_watched(agent->core_plugin))
		return agent->core_registrar;
	return NULL;
}

static void describe(const struct agent *agent, const struct registrar *missing, char *buf, size_t size)
{
	char failure[320];

	if (!runtime_answered(agent->runtime)) {
		snprintf(buf, size,
			"the kubelet is not told of this node's GPUs, since the container runtime at %s does not answer",
			agent->options.cri_socket);
		return;
	}
	registrar_failure(missing, failure, sizeof(failure));
	snprintf(buf, size,
		"%s; no new pods go there. To mend it restart the kubelet of this node (systemctl restart kubelet); if that does not help, see its log",
		failure);
}

void unregistered_look(struct agent *agent)
{
	struct unregistered *unregistered = &agent->unregistered;
	char *text = agent->node.problems.unregistered;
	const struct registrar *missing = agent->node.leaving ? NULL : find_missing(agent);
	int64_t now = monotonic_ns();

	if (!missing) {
		if (*text)
			log_info("the kubelet has all devices of this node again");
		*unregistered = (struct unregistered){0};
		*text = '\0';
		return;
	}
	if (!unregistered->since_ns)
		unregistered->since_ns = now;
	if (now - unregistered->since_ns < PATIENCE_NS)
		return;
	describe(agent, missing, text, sizeof(agent->node.problems.unregistered));
	if (unregistered->told_ns && now - unregistered->told_ns < REMIND_NS)
		return;
	unregistered->told_ns = now;
	event_on_node(&agent->events, "GPUNotRegistered", text);
}

int64_t unregistered_for_ns(const struct agent *agent)
{
	return agent->unregistered.since_ns ? monotonic_ns() - agent->unregistered.since_ns : 0;
}
