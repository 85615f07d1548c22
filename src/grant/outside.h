/* outside.h - processes as they are seen from outside their pid namespace: by the agent, and by the keeper of
 * a run. Both are in the namespace of the processes that they look after, or in one above it. */
#pragma once

#include <sys/types.h>

#include "grant/overhead.h"

/* outside_read() - the process with this pid in `proc` ("/proc"), as it signs a slot of its usage file: with
 * its number in its own pid namespace. image is left 0. time_namespace: the caller's, in which start times
 * are shown to it. Negative errno: it has ended, or cannot be read. */
int outside_read(const char *proc, pid_t pid, uint64_t time_namespace, struct owner *ret_owner);

/* outside_image() - which program runs in it now (struct owner); 0 if that cannot be known. */
uint64_t outside_image(const char *proc, pid_t pid);

/* outside_note_dead() - for the keeper, after a sample of a GPU: tells the processes of the grant which
 * slots have dead owners (owner_note_dead()). Dead is the owner of a slot which holds memory of the GPU, or
 * a turn, if the driver did not name it among those that have some (`listed`), and no process in `proc` may
 * be it. All processes are looked at for that, some microseconds each. Where one of them may have been alive
 * that is not repeated for nine times as long as it took, 200 ms at most: *again_ns is when it may be.
 * False: it was too early for that, and the dead may still be charged. */
bool outside_note_dead(const char *proc, uint64_t time_namespace, struct grant_file *grant,
	const struct usage_peek_slot *slots, size_t n_slots, const struct overhead_process *listed,
	size_t n_listed, int64_t *again_ns);
