/* owner.h - who owns a slot, and whether that process is dead. docs/internals/reservation.md, "Dead or not".
 */
#pragma once

#include "grant/reserve.h"

/* A process as it is written into its slot, and what it can see of others. */
struct owner {
	uint64_t word; /* without generation */
	uint64_t start_ticks;
	uint64_t time_namespace;
	uint64_t image; /* where its stack begins: another place after execve() */
	bool sees_proc; /* /proc is there, and of this process's own pid namespace */
};

/* owner_self() - of the calling process. What cannot be found out is 0. */
void owner_self(struct owner *ret_owner);

/* owner_sign() - what is written into a slot after it was claimed with this word. */
void owner_sign(struct usage_slot *slot, uint64_t word, const struct owner *owner);

/* owner_is_dead() - for struct reserve_world; the context is the struct owner of the process that asks. */
bool owner_is_dead(void *context, const struct usage_slot *slot, uint64_t word);

/* owner_is_gone() - there is no process with this pid: the part of owner_is_dead() that costs one system
 * call. */
bool owner_is_gone(const struct owner *self, uint64_t word);
