/* lock.h - a mutex in a mapped file, for all processes and containers that map it. The kernel releases it
 * when its holder dies; the next holder then repairs the protected data. */
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

/* sim_lock_prepare() - initialises an unlocked mutex, in memory that becomes the file. */
void sim_lock_prepare(struct sim_lock *lock);

/* sim_lock() - true if the previous holder died while holding it. */
bool sim_lock(struct sim_lock *lock);
/* sim_lock_for() - false: it could not be taken within this many ms, because a holder can be stopped
 * (SIGSTOP, a frozen cgroup). */
bool sim_lock_for(struct sim_lock *lock, unsigned ms);
void sim_unlock(struct sim_lock *lock);

/* A lock that can be passed on. If the holder does not release it within SIM_RELAY_MS, because it is stopped,
 * the other processes continue with the next lock of the row. When the holder continues, it still performs
 * the write that it was about to do. So data that a relay protects must tolerate one stale step. */
#define SIM_RELAY_LOCKS 8 /* this many holders may be stopped at a time */
#define SIM_RELAY_MS 200

struct sim_relay {
	struct sim_lock locks[SIM_RELAY_LOCKS];
	_Atomic uint32_t turn;
	uint8_t reserved[60];
};

void sim_relay_prepare(struct sim_relay *relay);
/* sim_relay_lock() - returns the turn to release. sim_relay_try() - false: the holder has not released it in
 * time. */
uint32_t sim_relay_lock(struct sim_relay *relay);
bool sim_relay_try(struct sim_relay *relay, uint32_t *ret_turn);
void sim_relay_unlock(struct sim_relay *relay, uint32_t turn);
