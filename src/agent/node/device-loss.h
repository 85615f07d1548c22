/* device-loss.h - the node's containers will lose their GPUs when systemd loads its units anew
 * (base/device-links.h). */
#pragma once

#include <stdint.h>

#include "base/device-links.h"

struct agent;

struct device_loss {
	char text[800]; /* "": nothing is known of it */
	enum device_links links;
	int64_t look_ns, ask_ns; /* when the links, and the runtime, are looked at again */
};

/* device_loss_look() - again. Cheap enough for every second; a change is told. */
void device_loss_look(struct agent *agent);
