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
	int r = pthread_mutex_trylock(&lock->mutex);

	if (r == EBUSY) {
		int64_t end = monotonic_ns() + ms * NS_PER_MS;
		struct timespec until = {end / NS_PER_S, end % NS_PER_S};

		r = pthread_mutex_clocklock(&lock->mutex, CLOCK_MONOTONIC, &until);
	}
	if (r == EOWNERDEAD)
		pthread_mutex_consistent(&lock->mutex);
	return r == 0 || r == EOWNERDEAD;
}

void sim_unlock(struct sim_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}

void sim_relay_prepare(struct sim_relay *relay)
{
	for (size_t i = 0; i < SIM_RELAY_LOCKS; i++)
		sim_lock_prepare(&relay->locks[i]);
}

bool sim_relay_try(struct sim_relay *relay, uint32_t *ret_turn)
{
	uint32_t turn = atomic_load(&relay->turn);

	if (!sim_lock_for(&relay->locks[turn % SIM_RELAY_LOCKS], SIM_RELAY_MS)) {
		atomic_compare_exchange_strong(&relay->turn, &turn, turn + 1);
		return false;
	}
	*ret_turn = turn;
	if (atomic_load(&relay->turn) == turn)
		return true;
	sim_relay_unlock(relay, turn); /* other processes have gone on meanwhile */
	return false;
}

uint32_t sim_relay_lock(struct sim_relay *relay)
{
	uint32_t turn;

	while (!sim_relay_try(relay, &turn))
		;
	return turn;
}

void sim_relay_unlock(struct sim_relay *relay, uint32_t turn)
{
	sim_unlock(&relay->locks[turn % SIM_RELAY_LOCKS]);
}
