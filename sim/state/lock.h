/* lock.h - a mutex in a mapped file, of all processes and containers that map it. The kernel releases it when
 * its holder dies; what it guards is then put right by whoever gets it. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct sim_lock {
	union {
		pthread_mutex_t mutex;
		uint8_t size[64];
	};
};

_Static_assert(sizeof(struct sim_lock) == 64, "layout");

/* sim_lock_prepare() - unlocked, in memory that becomes the file. */
void sim_lock_prepare(struct sim_lock *lock);

/* sim_lock() - true if the last holder died in it. */
bool sim_lock(struct sim_lock *lock);
/* sim_lock_for() - false: not to be had in so many ms. A holder can be stopped (SIGSTOP, a frozen cgroup). */
bool sim_lock_for(struct sim_lock *lock, unsigned ms);
void sim_unlock(struct sim_lock *lock);
