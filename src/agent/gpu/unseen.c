#include "agent/gpu/unseen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/events.h"
#include "agent/gpu/looks.h"
#include "agent/gpu/processes.h"
#include "base/clock.h"
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

/* A runtime names a container within milliseconds, and the driver drops an ended process from its list as
 * fast. A program that waits for a sample waits for a quarter of this time (session_await_look()). */
#define OPEN_NS (1 * NS_PER_S)
/* The next sample comes after a quarter of the time for which something has been open: about forty samples in
 * OPEN_NS. */
#define PART 4

static bool is_open(const struct holder *holder)
{
	return !holder->process || (!holder->watched && !holder->certain);
}

static bool lasts(const struct clarity *clarity, int64_t now_ns)
{
	return clarity->since_ns && now_ns - clarity->since_ns >= OPEN_NS;
}

void clarity_note(struct clarity *clarity, const struct holder *holders, size_t n, int64_t now_ns)
{
	bool open = false;

	for (size_t i = 0; i < n; i++)
		open |= is_open(&holders[i]);
	if (!open)
		clarity->since_ns = 0;
	else if (!clarity->since_ns)
		clarity->since_ns = now_ns;
	clarity->again_ns = open && !lasts(clarity, now_ns) ? now_ns + (now_ns - clarity->since_ns) / PART
							    : 0;
}

bool clarity_is_open(const struct clarity *clarity, const struct holder *holders, size_t n, const char *uid,
	int64_t now_ns)
{
	if (!clarity->since_ns || lasts(clarity, now_ns))
		return false;
	for (size_t i = 0; i < n; i++)
		if (is_open(&holders[i]) &&
			(!holders[i].process || strcmp(holders[i].process->place.uid, uid) == 0))
			return true;
	return false;
}
