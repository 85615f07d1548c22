/* overhead.h - what a container holds of a GPU that no call of the driver's shows: contexts, modules, local
 * memory. Pure. For the agent and the keeper of a run; docs/internals/charging.md, "What a sample may
 * conclude". */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "grant/peek.h"

/* What is known of one process's overhead, from one sample to the next. */
struct overhead_known {
	uint64_t bytes;	    /* its overhead */
	uint64_t latest;    /* what the last quiet sample showed, for a process that has pools */
	uint64_t ownerless; /* of bytes: memory of makers that have freed it, or have ended */
	bool certain;	    /* a quiet sample has been there; until then bytes is a guess */
};

/* One process of the container that has memory of the GPU. */
struct overhead_process {
	struct owner owner;	     /* image: 0 where it need not be compared */
	uint64_t bytes;		     /* the driver's own count */
	pid_t pid;		     /* the caller's */
	struct overhead_known known; /* in: overhead_recall(); out: after this sample */
};

struct overhead {
	uint64_t used_bytes;	 /* the driver's, what several processes have once */
	uint64_t overhead_bytes; /* of that, what none of them has charged */
	uint64_t context_bytes;	 /* what a context takes, if a process has just made its first; 0: none has */
	bool moved;   /* calls of some process began or ended meanwhile: its overhead may have grown unseen */
	bool guessed; /* of such a process nothing was known before */
	bool doubtful; /* some process may have more or less: calls are under way, what a maker has freed is
			  still charged, or one with pools seems to have less, which the next quiet sample
			  confirms */
};

/* overhead_recall() - fills `known` of each process from the list that the sample before left (NULL, 0:
 * there was none). */
void overhead_recall(
	struct overhead_process *processes, size_t n, const struct overhead_process *last, size_t n_last);

/* overhead_compute() - process by process, so that what the dead have charged, which stays in the container's
 * sum until the next refusal, hides nobody's overhead. before, after: the slots of the usage file as they
 * were before and after the driver was asked. */
void overhead_compute(struct overhead_process *processes, size_t n, const struct usage_peek_slot *before,
	size_t n_before, const struct usage_peek_slot *after, size_t n_after, struct overhead *ret_overhead);

/* overhead_wants_pause() - whether the container is to pause for the next sample, since this one could not
 * conclude enough; so long after the pause before. asked: a process of the container has asked for a sample,
 * and none since then knew everything (grant_was_known()). */
bool overhead_wants_pause(const struct overhead *found, bool asked, int64_t since_ns);

/* overhead_is_ambiguous() - several slots could be this process's: it became another program (execve), or a
 * dead one had its number. Its image tells which. */
bool overhead_is_ambiguous(const struct owner *process, const struct usage_peek_slot *slots, size_t n_slots);
