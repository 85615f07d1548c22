#include "agent/node/device-loss.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "agent/container/runtime.h"
#include "agent/events.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/names.h"
#include "node/registry.h"

#define LOOK_NS (10 * NS_PER_S) /* the links may have been made meanwhile */
#define ASK_NS (60 * NS_PER_S)	/* runc or containerd's configuration may have changed */

/* Reads names and links in /dev of the host. The agent's container has a /dev of its own, without /dev/char.
 */
static void look_at_links(struct device_loss *loss, struct runtime *runtime, const char *proc)
{
	char dev[PATH_MAX];

	if (monotonic_ns() < loss->look_ns)
		return;
	snprintf(dev, sizeof(dev), "%s/1/root/dev", proc);
	loss->links = device_links_look(dev);
	loss->look_ns = monotonic_ns() + LOOK_NS;
	if (monotonic_ns() < loss->ask_ns)
		return;
	if (loss->ask_ns)
		runtime_ask(runtime);
	loss->ask_ns = monotonic_ns() + ASK_NS;
}

void device_loss_look(struct device_loss *loss, struct node_registry *node, const struct events *events,
	struct runtime *runtime, const char *proc)
{
	const char *version = runtime_runc_version(runtime);
	char text[sizeof(node->problems.device_loss)] = "";

	if (gpu_mode_is_served(node->in_force) && node->inventory.n_gpus && runc_drops_devices(version)) {
		look_at_links(loss, runtime, proc);
		if (loss->links == DEVICE_LINKS_MISSING)
			snprintf(text, sizeof(text),
				"containers of this node lose their GPUs at the next \"systemctl daemon-reload\": runc %s with the systemd cgroup driver leaves out devices that have no link in /dev/char (opencontainers/runc#3846), and NVIDIA's devices have none. Run \"" DEVICE_LINKS_COMMAND
				"\" on the node, at each boot before GPU pods start, or install runc 1.1.7 or later; pods that run now have to be started again",
				version);
	}
	if (strcmp(text, node->problems.device_loss) == 0)
		return;
	memcpy(node->problems.device_loss, text, sizeof(text));
	if (*text)
		event_on_node(events, NODE_REASON_DEVICE_LOSS, text);
	else
		log_info("containers keep their GPUs when systemd loads its units anew");
}
