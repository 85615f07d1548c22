/* lock.h - a mutex in a mapped file, of all processes and containers that map it. The kernel releases it when
 * its holder dies; what it guards is then put right by whoever gets it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
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

/* A lock that passes on: if the holder does not release it in SIM_RELAY_MS, because it is stopped, the others
 * go on with the next lock of the row. A holder that continues then writes what it was about to write, so
 * what a relay guards has to bear one stale step. */
#define SIM_RELAY_LOCKS 8 /* so many may be stopped at a time */
#define SIM_RELAY_MS 200

struct sim_relay {
	struct sim_lock locks[SIM_RELAY_LOCKS];
	_Atomic uint32_t turn;
	uint8_t reserved[60];
};

void sim_relay_prepare(struct sim_relay *relay);
/* sim_relay_lock() - returns the turn to release. sim_relay_try() - false: its holder has not released it in
 * time. */
uint32_t sim_relay_lock(struct sim_relay *relay);
bool sim_relay_try(struct sim_relay *relay, uint32_t *ret_turn);
void sim_relay_unlock(struct sim_relay *relay, uint32_t turn);
