#include "agent/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/container/delivery.h"
#include "agent/node/leave.h"
#include "base/descriptors.h"
#include "base/error.h"
#include "base/log.h"
#include "net/loop.h"

/* One for each container with a grant, one for each process that holds memory of a GPU, and some more. */
#define DESCRIPTORS 4096

static void on_signal(void *userdata, int signo)
{
	struct agent *agent = userdata;

	log_info("stopping (signal %d)", signo);
	/* A second signal means that the sender does not want to wait. */
	if (agent->leave || leave_start(agent->loop, agent->client, &agent->node, true, &agent->leave) < 0)
		loop_quit(agent->loop, 0);
}

int worker_run(const struct options *options, struct relay_ends ends, unsigned int respawns)
{
	struct agent agent = {.options = *options, .relays = ends, .respawns = respawns};
	char checkpoint[4096];
	struct error err = {""};
	int r;

	descriptors_reserve(DESCRIPTORS);
	if (!options->checkpoint) {
		snprintf(checkpoint, sizeof(checkpoint), "%s/kubelet_internal_checkpoint",
			options->plugin_dir);
		agent.options.checkpoint = checkpoint;
	}
	r = loop_new(&agent.loop);
	if (r == 0)
		r = loop_add_signal(agent.loop, SIGTERM, on_signal, &agent);
	if (r == 0)
		r = loop_add_signal(agent.loop, SIGINT, on_signal, &agent);
	if (r < 0)
		error_set(&err, -r, "cannot create the event loop");
	else
		r = agent_start(&agent, &err);
	if (r == 0)
		r = loop_run(agent.loop);
	else
		log_error("%s", err.text);
	if (r == 0 && agent.uninstalled)
		delivery_clear(agent.delivery);
	agent_stop(&agent);
	loop_free(agent.loop);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
