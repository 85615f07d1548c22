/* outside.h - processes seen from outside their pid namespace: by the agent, and by the keeper of a run. Both
 * are in the same namespace as the processes that they watch, or in one above it. */
#pragma once

#include <sys/types.h>

#include "grant/overhead.h"

/* outside_read() - reads the process with this pid in `proc` ("/proc") as it would sign a slot of its usage
 * file, with its number in its own pid namespace. `image` stays 0. time_namespace is the caller's, in which
 * the kernel shows start times to it. Negative errno: the process has ended, or cannot be read. */
int outside_read(const char *proc, pid_t pid, uint64_t time_namespace, struct owner *ret_owner);

/* outside_image() - which program runs in the process now (struct owner); 0 if that cannot be known. */
uint64_t outside_image(const char *proc, pid_t pid);

/* outside_note_dead() - for the keeper, after a sample of a GPU: tells the processes of the grant which slots
 * have dead owners (owner_note_dead()).
 *
 * A slot's owner is dead if all three are true: the slot holds memory of the GPU or a turn; the driver did
 * not name the owner among the processes with memory (`listed`); no process in `proc` can be the owner. The
 * search reads all processes, some microseconds each. If it found that an owner may be alive, the next search
 * waits for nine times the duration of this one, 200 ms at most: *again_ns is the earliest time. Returns
 * false if it was too early to search, so dead processes may still be charged. */
bool outside_note_dead(const char *proc, uint64_t time_namespace, struct grant_file *grant,
	const struct usage_peek_slot *slots, size_t n_slots, const struct overhead_process *listed,
	size_t n_listed, int64_t *again_ns);
