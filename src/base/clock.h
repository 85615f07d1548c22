/* clock.h - time as integers of nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline int64_t clock_read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* monotonic_ns() - for deadlines and durations. */
static inline int64_t monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* realtime_ns() - for times that people and other machines read. */
static inline int64_t realtime_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}
