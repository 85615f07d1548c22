/* owner.h - which process owns a slot, and whether that process is dead. docs/internals/reservation.md, "Dead
 * or not". */
#pragma once

#include "grant/reserve.h"

/* A process as it is written into its slot, and what it can see of others. */
struct owner {
	uint64_t word; /* without generation */
	uint64_t start_ticks;
	uint64_t time_namespace;
	uint64_t image; /* where its stack begins; execve() moves it */
	bool sees_proc; /* /proc is mounted and belongs to this process's own pid namespace */
	/* In `live[].dead` the keeper names the slots of the usage file whose owners are dead. NULL: there is
	 * no such source. */
	const struct grant_file *grant;
	const struct usage_file *usage;
};

/* The fields of /proc/PID/stat that we use. */
struct owner_stat {
	char state;
	unsigned long threads;
	uint64_t start_ticks;
	uint64_t image; /* as in struct owner */
};

/* owner_read_stat() - false if the file cannot be read. owner_read_namespace() - the number in a link like
 * "/proc/self/ns/pid", which leads to "pid:[4026531836]"; 0 if it cannot be read. */
bool owner_read_stat(const char *path, struct owner_stat *ret_stat);
uint64_t owner_read_namespace(const char *path);

/* owner_is_corpse() - whether the process has ended and waits for its parent. (If its first thread called
 * pthread_exit(), that thread is in state Z while other threads run on.) */
bool owner_is_corpse(const struct owner_stat *about);

/* owner_self() - describes the calling process. Unknown fields are 0. */
void owner_self(struct owner *ret_owner);

/* owner_sign() - writes the owner into a slot that was claimed with this word. */
void owner_sign(struct usage_slot *slot, uint64_t word, const struct owner *owner);

/* owner_has_ended() - whether the owner has ended, as far as this process can tell.
 *
 * owner_is_dead() - for struct reserve_world; the context is the struct owner of the calling process. True:
 * the bytes charged to the slot's owner are free again. If the owner made memory that other processes may
 * have, only the keeper decides that it is dead, after that memory counts for the others. */
bool owner_has_ended(const struct owner *self, const struct usage_slot *slot, uint64_t word);
bool owner_is_dead(void *context, const struct usage_slot *slot, uint64_t word);

/* owner_note_dead() - for the keeper: notes that the owner of this slot, identified by this word, is dead. */
void owner_note_dead(struct grant_file *grant, uint32_t slot, uint64_t word);
bool owner_is_noted_dead(const struct grant_file *grant, uint32_t slot, uint64_t word);

/* owner_is_of_our_namespace() - whether the word names our pid namespace. Two unknown namespaces (no /proc)
 * are not equal. */
bool owner_is_of_our_namespace(const struct owner *self, uint64_t word);

/* owner_is_gone() - whether no process has this pid: the part of owner_is_dead() that costs one system
 * call. */
bool owner_is_gone(const struct owner *self, uint64_t word);
