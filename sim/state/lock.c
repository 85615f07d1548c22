#include "sim/state/lock.h"

#include <errno.h>

#include "base/clock.h"

void sim_lock_prepare(struct sim_lock *lock)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&lock->mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

bool sim_lock(struct sim_lock *lock)
{
	int r = pthread_mutex_lock(&lock->mutex);

	if (r == EOWNERDEAD) {
		pthread_mutex_consistent(&lock->mutex);
		return true;
	}
	return false;
}

bool sim_lock_for(struct sim_lock *lock, unsigned ms)
{
	int64_t end = monotonic_ns() + ms * NS_PER_MS;
	struct timespec until = {end / NS_PER_S, end % NS_PER_S};
	int r = pthread_mutex_clocklock(&lock->mutex, CLOCK_MONOTONIC, &until);

	if (r == EOWNERDEAD)
		pthread_mutex_consistent(&lock->mutex);
	return r == 0 || r == EOWNERDEAD;
}

void sim_unlock(struct sim_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}
