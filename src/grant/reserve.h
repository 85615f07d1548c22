/* reserve.h - how the processes of a container change their shared counters, one step at a time.
 *
 * docs/internals/reservation.md has the protocol and the proof. Each step makes at most one access to shared
 * memory. So tests/unit/test-reserve-model.c can interleave any two steps with steps of other processes, or
 * with a kill, using this very code.
 */
#pragma once

#include "grant/usage.h"

/* What the steps must know beyond the file. */
struct reserve_world {
	/* Whether the process that the slot's words name is certainly dead. `owner` is the value of its word
	 * when it was read. */
	bool (*is_dead)(void *context, const struct usage_slot *slot, uint64_t owner);
	void *context;
};

enum reserve_kind {
	RESERVE_CLAIM,	 /* take a slot */
	RESERVE_TAKE,	 /* take pages of a GPU, within limit_pages */
	RESERVE_GIVE,	 /* give pages back */
	RESERVE_RECOVER, /* recover what dead processes hold of a GPU */
};

enum reserve_result {
	RESERVE_GOES_ON,
	RESERVE_WAITS, /* a living process is recounting: let it run, then step again */
	RESERVE_DONE,
	RESERVE_REFUSED, /* the limit is reached; RESERVE_CLAIM: each slot has a living owner */
};

/* One change under way. Private to its process; its only pointer into shared memory is `usage`. */
struct reserve {
	struct usage_file *usage;
	const struct reserve_world *world;
	enum reserve_kind kind;
	uint32_t gpu;	/* RESERVE_CLAIM goes through all of them */
	uint32_t slot;	/* ours; RESERVE_CLAIM sets it to a free slot or to that of a dead owner */
	uint64_t owner; /* RESERVE_CLAIM: our word, on entry without a generation, on completion with it */
	uint32_t pages; /* to take or to give */
	uint32_t limit_pages; /* less overhead */

	/* state of the steps */
	int step;
	uint64_t total;	   /* the GPU's word as last read */
	uint64_t held;	   /* our word before the announcement */
	uint32_t at, end;  /* the slot that is examined, and where to stop */
	uint64_t at_owner; /* its owner */
	uint64_t at_word;  /* its word */
	uint64_t sum;
	uint32_t dead; /* slot of a dead process */
};

/* reserve_begin() - prepares the first step. The caller has filled usage, world, kind and the fields that the
 * kind needs. */
void reserve_begin(struct reserve *reserve);

/* reserve_step() - performs one step. Do not call it after RESERVE_DONE or RESERVE_REFUSED. */
enum reserve_result reserve_step(struct reserve *reserve);

/* reserve_steps() - performs steps until the result is not RESERVE_GOES_ON. */
enum reserve_result reserve_steps(struct reserve *reserve);

/* reserve_abandon() - ends a change after RESERVE_WAITS, for a caller that does not want to wait longer.
 * Nothing is taken. Pages that were to be given are no longer held, but stay in the GPU's total until the
 * next recount. */
void reserve_abandon(struct reserve *reserve);

/* reserve_run() - performs all steps. -ENOMEM, or -EUSERS for RESERVE_CLAIM: refused. -EBUSY: a living
 * process has been recounting for a second, so it is stopped. */
int reserve_run(struct reserve *reserve);

/* An owner's word. */
#define OWNER_PID_BITS 22 /* PID_MAX_LIMIT, include/linux/threads.h */
#define OWNER_NAMESPACE_BITS 28
#define OWNER_GENERATION_BITS 13
#define OWNER_GENERATION_SHIFT (64 - OWNER_GENERATION_BITS)
/* The claim is not complete: the slot's words still hold what its dead previous owner left. */
#define OWNER_IS_HEIR (UINT64_C(1) << (OWNER_PID_BITS + OWNER_NAMESPACE_BITS))
#define OWNER_PID(owner) ((uint32_t)((owner) & ((UINT64_C(1) << OWNER_PID_BITS) - 1)))
#define OWNER_NAMESPACE(owner)                                                                               \
	((uint32_t)((owner) >> OWNER_PID_BITS) & ((UINT32_C(1) << OWNER_NAMESPACE_BITS) - 1))
#define OWNER_GENERATION(owner) ((owner) >> OWNER_GENERATION_SHIFT)

/* owner_word() - without a generation. */
static inline uint64_t owner_word(uint32_t pid, uint32_t pid_namespace)
{
	return (uint64_t)(pid_namespace & ((UINT32_C(1) << OWNER_NAMESPACE_BITS) - 1)) << OWNER_PID_BITS |
	       (pid & ((UINT32_C(1) << OWNER_PID_BITS) - 1));
}
