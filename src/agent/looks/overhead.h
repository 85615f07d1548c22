/* overhead.h - what a container holds of a card that no call of the driver's shows: contexts, modules, local
 * memory. Pure. docs/internals/charging.md. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "grant/peek.h"

/* One process of the container that has memory of the card. */
struct overhead_process {
	struct owner owner; /* image: 0 where it need not be compared */
	uint64_t bytes;	    /* the driver's own count */
	pid_t pid;	    /* the caller's; not used here */
};

struct overhead {
	uint64_t used_bytes;	 /* the driver's, what several processes have once */
	uint64_t overhead_bytes; /* of that, what none of them has charged: at least */
	uint64_t most_bytes;	 /* and at most */
};

/* overhead_compute() - process by process, so that what the dead have charged, which stays in the container's
 * sum until the next refusal, hides nobody's overhead. before, after: the slots of the usage file as they
 * were before and after the driver was asked; with the larger charge it is the least, so that memory in
 * flight is no overhead (grant_overhead_settle()). */
void overhead_compute(const struct overhead_process *processes, size_t n,
	const struct usage_peek_slot *before, size_t n_before, const struct usage_peek_slot *after,
	size_t n_after, struct overhead *ret_overhead);

/* overhead_is_ambiguous() - several slots could be this process's: it became another program (execve), or a
 * dead one had its number. Its image tells which. */
bool overhead_is_ambiguous(const struct owner *process, const struct usage_peek_slot *slots, size_t n_slots);
