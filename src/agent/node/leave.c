#include "agent/node/leave.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/node/state.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/names.h"
#include "net/loop.h"

#define TELL_TIMEOUT_MS 2000
#define SERVE_ON_NS (2 * NS_PER_S)

struct leave {
	struct agent *agent;
	struct loop_timer *timer;
	struct kube_request *request;
};

static void on_timer(void *userdata)
{
	struct leave *leave = userdata;

	loop_quit(leave->agent->loop, 0);
}

static void on_told(void *userdata, const struct kube_response *response)
{
	struct leave *leave = userdata;

	leave->request = NULL;
	if (response->result < 0 || response->status >= 300) {
		log_warning("cannot tell the scheduler that this agent goes: %s", response->text);
		loop_timer_set(leave->timer, 0); /* it would send pods after 2 s as it does now */
		return;
	}
	if (!leave->agent->plugin) {
		log_info("no new pods come here");
		loop_timer_set(leave->timer, 0);
		return;
	}
	log_info("no new pods come here; serving for %d s what is on its way", (int)(SERVE_ON_NS / NS_PER_S));
	loop_timer_set(leave->timer, SERVE_ON_NS);
}

int leave_start(struct agent *agent, struct leave **ret_leave)
{
	static const char body[] = "{\"metadata\":{\"annotations\":{\"" ANNOTATION_NODE_SERVING
				   "\":\"false\"}}}";
	struct leave *leave = calloc(1, sizeof(*leave));
	char path[300];
	int r;

	if (!leave)
		return -ENOMEM;
	leave->agent = agent;
	r = loop_add_timer(agent->loop, on_timer, leave, &leave->timer);
	if (r < 0) {
		free(leave);
		return r;
	}
	*ret_leave = leave;
	snprintf(path, sizeof(path), "/api/v1/nodes/%s", agent->options.node_name);
	if (!agent->node.serves || !agent->client ||
		kube_request(agent->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body, TELL_TIMEOUT_MS,
			on_told, leave, &leave->request) < 0)
		loop_timer_set(leave->timer, 0);
	return 0;
}

void leave_free(struct leave *leave)
{
	if (!leave)
		return;
	kube_request_cancel(leave->request);
	loop_timer_remove(leave->timer);
	free(leave);
}

int leave_alone(const struct options *options)
{
	struct agent agent = {.options = *options};
	struct error err = {""};
	struct state state;
	int r = loop_new(&agent.loop);

	state_load(options->state_dir, options->unit_mib, &state);
	agent.node.inventory = state.inventory;
	agent.node.in_force = state.mode;
	node_registry_decide(&agent.node, 0);
	if (r < 0)
		error_set(&err, -r, "cannot create the event loop");
	else
		r = agent_connect(&agent, &err);
	if (r == 0)
		r = leave_start(&agent, &agent.leave);
	if (r == 0)
		r = loop_run(agent.loop);
	else
		log_error("cannot tell the scheduler that this agent goes: %s", err.text);
	leave_free(agent.leave);
	kube_client_free(agent.client);
	loop_free(agent.loop);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
