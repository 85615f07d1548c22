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
	/* The keeper says here of which slots of the usage file the owners are dead; NULL: nobody says so. */
	const struct grant_file *grant;
	const struct usage_file *usage;
};

/* What /proc/PID/stat says. */
struct owner_stat {
	char state;
	unsigned long threads;
	uint64_t start_ticks;
	uint64_t image; /* as in struct owner */
};

/* owner_read_stat() - false if it cannot be read. owner_read_namespace() - of a link like
 * "/proc/self/ns/pid", which leads to "pid:[4026531836]"; 0 if it cannot be read. */
bool owner_read_stat(const char *path, struct owner_stat *ret_stat);
uint64_t owner_read_namespace(const char *path);

/* owner_is_corpse() - it has ended, and waits for its parent. (The leader of a process that ended by
 * pthread_exit() is in state Z while other threads run on.) */
bool owner_is_corpse(const struct owner_stat *about);

/* owner_self() - of the calling process. What cannot be found out is 0. */
void owner_self(struct owner *ret_owner);

/* owner_sign() - what is written into a slot after it was claimed with this word. */
void owner_sign(struct usage_slot *slot, uint64_t word, const struct owner *owner);

/* owner_has_ended() - as far as this process can tell. owner_is_dead() - for struct reserve_world; the
 * context is the struct owner of the process that asks: what the owner was charged for is free again. Of a
 * process that made memory which others may have, only the keeper says so, once that memory counts for the
 * others. */
bool owner_has_ended(const struct owner *self, const struct usage_slot *slot, uint64_t word);
bool owner_is_dead(void *context, const struct usage_slot *slot, uint64_t word);

/* owner_note_dead() - for the keeper: the owner of this slot, whose word was this, is dead. */
void owner_note_dead(struct grant_file *grant, uint32_t slot, uint64_t word);
bool owner_is_noted_dead(const struct grant_file *grant, uint32_t slot, uint64_t word);

/* owner_is_of_our_namespace() - an unknown one (there is no /proc) is not the same as another unknown one. */
bool owner_is_of_our_namespace(const struct owner *self, uint64_t word);

/* owner_is_gone() - there is no process with this pid: the part of owner_is_dead() that costs one system
 * call. */
bool owner_is_gone(const struct owner *self, uint64_t word);
