#include "sim/state/lock.h"

#include <errno.h>

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

void sim_unlock(struct sim_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}
