/* device-loss.h - the node's containers will lose their GPUs when systemd loads its units anew
 * (base/device-links.h). */
#pragma once

#include <stdint.h>

#include "base/device-links.h"

struct events;
struct node_registry;
struct runtime;

struct device_loss {
	enum device_links links;
	int64_t look_ns, ask_ns; /* when the links, and the runtime, are looked at again */
};

/* device_loss_look() - again; writes the node's problem `device_loss`. Cheap enough for every second; a
 * change is told. proc: the host's processes. */
void device_loss_look(struct device_loss *loss, struct node_registry *node, const struct events *events,
	struct runtime *runtime, const char *proc);
