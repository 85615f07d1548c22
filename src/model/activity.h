/* activity.h - whether a container has work for a GPU now, by its own counters. Pure.
 *
 * A container has work while its counters move, and for a while after: a program computes on the host between
 * two kernels, and a long kernel is started only once. Counters are read about every 20 ms; they may contain
 * any value. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ACTIVITY_NS INT64_C(40000000) /* without any movement: no work */
/* The limit for containers that start long kernels: they have work for twice as long as these take. */
#define ACTIVITY_MOST_NS INT64_C(500000000)

struct activity {
	uint64_t started_ns, asked; /* their last values */
	int64_t until_ns;	    /* it has work until then, or longer if a counter moves */
	bool known;
};

/* activity_see() - started_ns: work started so far, in nanoseconds of the GPU; asked: how often the container
 * asked for credit. Returns whether it has work now. The first values that are seen are no movement. */
bool activity_see(struct activity *activity, int64_t now_ns, uint64_t started_ns, uint64_t asked);
