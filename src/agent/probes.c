/* probes.c - the agent's pages /healthz and /readyz. */
#include "agent/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/door.h"
#include "agent/kubelet/kubelet.h"

/* Why the agent is not ready; NULL if it is. */
static const char *not_ready(const struct agent *agent)
{
	if (agent->node.leaving)
		return "stopping";
	if (!agent->node.settled)
		return "the node, its pods and the cluster's settings are not read yet";
	if (!agent->node.serves || kubelet_has_devices(agent->kubelet))
		return NULL;
	return *agent->node.problems.unregistered ? agent->node.problems.unregistered
						  : "the kubelet does not have the devices of this node yet";
}

static void reply(struct http_call *call, unsigned status, const char *text)
{
	char *body;

	http_call_reply(
		call, status, "text/plain; charset=utf-8", asprintf(&body, "%s\n", text) < 0 ? NULL : body);
}

static void on_probe(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	const struct agent *agent = userdata;
	const char *reason = not_ready(agent);

	if (strcmp(path, "/healthz") == 0)
		reply(call, 200, "ok");
	else if (strcmp(path, "/readyz") != 0)
		reply(call, 404, "GET /healthz, /readyz");
	else
		reply(call, reason ? 503 : 200, reason ? reason : "ok");
}

int probes_new(struct agent *agent, struct door **ret_door)
{
	return door_new(agent->loop, "probes", &agent->options.probes, on_probe, agent, ret_door);
}
