#include "agent/node/device-loss.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/delivery/runtime.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/names.h"

#define LOOK_NS (10 * NS_PER_S) /* somebody may have made the links */
#define ASK_NS (60 * NS_PER_S)	/* or installed another runc, or changed containerd's configuration */

/* /dev of the host: names and links only. The agent's container has a /dev of its own, without /dev/char. */
static void look_at_links(struct agent *agent)
{
	struct device_loss *loss = &agent->device_loss;
	char dev[PATH_MAX];

	if (monotonic_ns() < loss->look_ns)
		return;
	snprintf(dev, sizeof(dev), "%s/1/root/dev", agent->options.proc);
	loss->links = device_links_look(dev);
	loss->look_ns = monotonic_ns() + LOOK_NS;
	if (monotonic_ns() < loss->ask_ns)
		return;
	if (loss->ask_ns)
		runtime_ask(agent->runtime);
	loss->ask_ns = monotonic_ns() + ASK_NS;
}

void device_loss_look(struct agent *agent)
{
	const char *version = runtime_runc_version(agent->runtime);
	struct device_loss *loss = &agent->device_loss;
	char text[sizeof(loss->text)] = "";

	if (gpu_mode_is_served(agent->node.in_force) && agent->node.inventory.n_gpus &&
		runc_drops_devices(version)) {
		look_at_links(agent);
		if (loss->links == DEVICE_LINKS_MISSING)
			snprintf(text, sizeof(text),
				"containers of this node lose their GPUs at the next \"systemctl daemon-reload\": runc %s with the systemd cgroup driver leaves out devices that have no link in /dev/char (opencontainers/runc#3846), and NVIDIA's devices have none. Run \"" DEVICE_LINKS_COMMAND
				"\" on the node, at each boot before GPU pods start, or install runc 1.1.7 or later; pods that run now have to be started again",
				version);
	}
	if (strcmp(text, loss->text) == 0)
		return;
	memcpy(loss->text, text, sizeof(text));
	if (*text)
		event_on_node(&agent->events, NODE_REASON_DEVICE_LOSS, text);
	else
		log_info("containers keep their GPUs when systemd loads its units anew");
}
