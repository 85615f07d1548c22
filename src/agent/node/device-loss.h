/* device-loss.h - detects that the node's containers will lose their GPUs when systemd reloads its units
 * (base/device-links.h). */
#pragma once

#include <stdint.h>

#include "base/device-links.h"

struct events;
struct node_registry;
struct runtime;

struct device_loss {
	enum device_links links;
	int64_t look_ns, ask_ns; /* when the links, and the runtime, are checked next */
};

/* device_loss_look() - checks again, and writes the node's problem `device_loss`. It is cheap enough for
 * every second; a change is reported. proc: the host's processes. */
void device_loss_look(struct device_loss *loss, struct node_registry *node, const struct events *events,
	struct runtime *runtime, const char *proc);
