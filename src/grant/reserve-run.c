/* reserve-run.c - runs all steps of a change of the shared counters (reserve.h) in this process. */
#include <errno.h>
#include <sched.h>

#include "grant/reserve.h"
#include "grant/wait.h"

#define STOPPED_NS INT64_C(1000000000) /* a recount takes microseconds, so by then its process is stopped */

/* Returns false after waiting long enough. *stop_at: 0 at the first call. */
static bool wait_for_recount(int64_t *stop_at)
{
	int saved = errno;

	if (*stop_at == 0) {
		*stop_at = wait_now_ns() + STOPPED_NS;
		sched_yield();
	} else if (wait_now_ns() < *stop_at) {
		wait_nap();
	} else {
		return false;
	}
	errno = saved;
	return true;
}

int reserve_run(struct reserve *reserve)
{
	int64_t stop_at = 0;

	reserve_begin(reserve);
	for (;;) {
		switch (reserve_steps(reserve)) {
		case RESERVE_GOES_ON:
		case RESERVE_DONE:
			return 0;
		case RESERVE_REFUSED:
			return reserve->kind == RESERVE_CLAIM ? -EUSERS : -ENOMEM;
		case RESERVE_WAITS:
			if (wait_for_recount(&stop_at))
				break;
			reserve_abandon(reserve);
			return -EBUSY;
		}
	}
}
