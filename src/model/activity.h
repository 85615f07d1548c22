/* activity.h - whether a container has work for a GPU now, by its own counters. Pure.
 *
 * A container has work while its counters move, and for a while after: a program computes on the host between
 * two kernels, and a long kernel is started only once. Counters are read about every 20 ms; they may contain
 * any value. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ACTIVITY_NS INT64_C(40000000) /* a container whose counters stood still for this long has no work */
/* The limit for containers that start long kernels: they have work for twice as long as these take. */
#define ACTIVITY_MOST_NS INT64_C(500000000)

struct activity {
	uint64_t started_ns, asked; /* their last values */
	int64_t until_ns;	    /* it has work until then, or longer if a counter moves */
	bool known;
};

/* activity_see() - started_ns: work started so far, in nanoseconds of the GPU; asked: how often the container
 * asked for credit. Returns whether it has work now. The first values do not count as a movement. */
bool activity_see(struct activity *activity, int64_t now_ns, uint64_t started_ns, uint64_t asked);

/* Detects a container that uses a GPU beyond its share and starts nothing: it runs a kernel that
 * does not end and that cannot be interrupted. Pure. */
#define ENDLESS_NS UINT64_C(10000000000) /* no sample lags this long, and few kernels take this long */
#define ENDLESS_MARGIN 50000		 /* millionths of the GPU: the driver counts in whole percents */

struct endless {
	uint64_t for_ns;
	bool told;
};

/* endless_sample() - for elapsed_ns: the work that was started, by the shims' count, and the time that was
 * used, by the driver's report. share: in millionths of the GPU. Returns true once for each such kernel; the
 * caller then reports it. */
bool endless_sample(
	struct endless *endless, uint64_t elapsed_ns, uint64_t started_ns, uint64_t used_ns, uint32_t share);
