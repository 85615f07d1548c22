#include "agent/gpu/unseen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/events.h"
#include "base/log.h"
#include "node/registry.h"

/* Longer than the reset of a GPU takes, or opening the library again. */
#define TICKS_MAX 10

void unseen_answered(struct unseen *unseen, const char *uuid, int result)
{
	unseen->result = result;
	if (result < 0)
		return;
	if (unseen->told)
		log_info("the driver says again who holds memory of GPU %s", uuid);
	*unseen = (struct unseen){0};
}

void unseen_tick(struct unseen *unseen, const struct node_registry *node, const struct events *events,
	const char *uuid)
{
	const struct gpu *gpu = inventory_find(&node->inventory, uuid);
	char text[500];

	unseen->ticks += unseen->ticks < TICKS_MAX;
	/* health.h reports a GPU that is gone or lost. */
	if (!gpu || unseen->ticks < TICKS_MAX || unseen->told || unseen->result == -ENODEV)
		return;
	unseen->told = true;
	snprintf(text, sizeof(text),
		"the driver has not said for %d s who holds memory of GPU %d (%s): %s. Until it does, the memory of contexts there is not counted, and a container past its limit is not found",
		TICKS_MAX, gpu->facts.index, uuid,
		unseen->result < 0 ? strerror(-unseen->result) : "it does not answer");
	event_on_node(events, "GPUMemoryUnseen", text);
}
