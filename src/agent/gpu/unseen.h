/* unseen.h - GPUs of which the driver does not say who holds memory: it fails, or does not answer at all.
 * What contexts take there is counted against no limit meanwhile, and no bypass is found, so people are told.
 */
#pragma once

#include <stdbool.h>

struct events;
struct node_registry;

/* Of one GPU. Zero at first. */
struct unseen {
	unsigned ticks; /* since the last good answer: time in which we did not run ourselves is none */
	int result;	/* of the last answer */
	bool told;
};

/* unseen_answered() - result: 0, or why not. */
void unseen_answered(struct unseen *unseen, const char *uuid, int result);

/* unseen_tick() - each second in which it is to be asked at least once in four. */
void unseen_tick(struct unseen *unseen, const struct node_registry *node, const struct events *events,
	const char *uuid);
