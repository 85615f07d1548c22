/* wait.h - clock and sleep for a process that waits for another. libc only. */
#pragma once

#include <stdint.h>
#include <time.h>

#define WAIT_NAP_NS 50000

static inline int64_t wait_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline void wait_nap(void)
{
	nanosleep(&(const struct timespec){.tv_nsec = WAIT_NAP_NS}, NULL);
}
