/* activity.h - whether a container has work for a GPU now, by its own counters. Pure.
 *
 * It has while they move, and for a while after: a program computes on the host between two kernels, and one
 * long kernel is started once. Counters are read every 20 ms or so; anything may be in them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ACTIVITY_NS INT64_C(40000000)	    /* without any movement: no work */
#define ACTIVITY_MOST_NS INT64_C(500000000) /* for who starts long kernels: twice as long as these are */

struct activity {
	uint64_t started_ns, asked; /* as they were */
	int64_t until_ns;	    /* it has work until then, unless something moves */
	bool known;
};

/* activity_see() - started_ns: work started so far, in nanoseconds of the GPU; asked: how often credit was
 * asked for. Returns whether it has work now. What is seen first is no movement. */
bool activity_see(struct activity *activity, int64_t now_ns, uint64_t started_ns, uint64_t asked);
