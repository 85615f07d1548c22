/* overhead.h - memory of a GPU that a container holds and that no driver call shows: contexts, modules, local
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
	uint64_t latest;    /* the result of the last quiet sample, for a process that has pools */
	uint64_t ownerless; /* part of `bytes`: memory whose makers have freed it, or have ended */
	bool certain;	    /* there has been a quiet sample; until then `bytes` is a guess */
};

/* One process of the container that has memory of the GPU. */
struct overhead_process {
	struct owner owner;	     /* image: 0 where it need not be compared */
	uint64_t bytes;		     /* as the driver counts */
	pid_t pid;		     /* in the caller's pid namespace */
	struct overhead_known known; /* in: from overhead_recall(); out: after this sample */
};

struct overhead {
	uint64_t used_bytes;	 /* as the driver counts; memory shared by several processes counts once */
	uint64_t overhead_bytes; /* part of used_bytes that no process has charged */
	uint64_t context_bytes;	 /* size of a context, if one is new; 0: none */
	bool moved;		 /* calls began or ended meanwhile: overhead may have grown */
	bool guessed;		 /* nothing was known before about such a process */
	bool doubtful; /* a process may have more or less than found: calls are under way, memory freed by its
			  maker is still charged, or a process with pools seems to have less, which the next
			  quiet sample must confirm */
};

/* overhead_recall() - fills `known` of each process from the list of the previous sample (NULL, 0: there was
 * none). */
void overhead_recall(
	struct overhead_process *processes, size_t n, const struct overhead_process *last, size_t n_last);

/* overhead_compute() - computes the overhead process by process. The charges of dead processes stay in the
 * container's sum until the next refusal; they must not hide the overhead of living ones. before, after: the
 * slots of the usage file, read before and after the driver was asked. */
void overhead_compute(struct overhead_process *processes, size_t n, const struct usage_peek_slot *before,
	size_t n_before, const struct usage_peek_slot *after, size_t n_after, struct overhead *ret_overhead);

/* overhead_wants_pause() - whether the container should pause for the next sample because this one was not
 * conclusive. since_ns: time since the previous pause. asked: a process of the container has asked for a
 * sample, and no sample since then was conclusive (grant_was_known()). */
bool overhead_wants_pause(const struct overhead *found, bool asked, int64_t since_ns);

/* overhead_is_ambiguous() - whether several slots could be this process's: it became another program
 * (execve), or a dead process had its number. The image tells which slot is its own. */
bool overhead_is_ambiguous(const struct owner *process, const struct usage_peek_slot *slots, size_t n_slots);
