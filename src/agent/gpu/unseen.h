/* unseen.h - posts an Event when the driver fails to say which processes hold memory of a GPU. Until it does,
 * the memory of contexts there is not counted, and a container past its limit is not found. */
#pragma once

#include <stdbool.h>

struct events;
struct node_registry;

/* The state of one GPU; all zero at first. */
struct unseen {
	unsigned ticks; /* ticks since the last good answer; time in which the agent did not run does not
			   count */
	int result;	/* of the last answer */
	bool told;	/* the Event was posted */
};

/* unseen_answered() - the driver has answered with this result: 0, or a negative errno. */
void unseen_answered(struct unseen *unseen, const char *uuid, int result);

/* unseen_tick() - call it each second while the GPU is sampled at least once in 4 s. */
void unseen_tick(struct unseen *unseen, const struct node_registry *node, const struct events *events,
	const char *uuid);
