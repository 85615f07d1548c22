/* reserve.h - how the processes of a container change what they share, one step at a time.
 *
 * docs/internals/reservation.md has the protocol and why it is right. Each step makes at most one access to
 * shared memory, so that tests/unit/test-reserve-model.c can put any step of any other process, or a kill,
 * between two of them: it drives this very code.
 */
#pragma once

#include "grant/usage.h"

/* What the steps must know of the world beyond the file. */
struct reserve_world {
	/* Certainly dead: the process that the slot's words name; owner is what its word was when it was
	 * read. */
	bool (*is_dead)(void *context, const struct usage_slot *slot, uint64_t owner);
	void *context;
};

enum reserve_kind {
	RESERVE_CLAIM,	 /* take a slot */
	RESERVE_TAKE,	 /* pages of a GPU, within limit_pages */
	RESERVE_GIVE,	 /* them back */
	RESERVE_RECOVER, /* what the dead hold of a GPU */
};

enum reserve_result {
	RESERVE_GOES_ON,
	RESERVE_WAITS, /* for a living process that recounts: let it run, then step again */
	RESERVE_DONE,
	RESERVE_REFUSED, /* the limit; RESERVE_CLAIM: each slot has a living owner */
};

/* One change under way. Private to its process; no pointer into shared memory but `usage`. */
struct reserve {
	struct usage_file *usage;
	const struct reserve_world *world;
	enum reserve_kind kind;
	uint32_t gpu;	      /* RESERVE_CLAIM goes through all of them */
	uint32_t slot;	      /* ours; RESERVE_CLAIM fills it, from nothing or from a dead owner */
	uint64_t owner;	      /* RESERVE_CLAIM: our word, without a generation; with it when done */
	uint32_t pages;	      /* to take or to give */
	uint32_t limit_pages; /* less overhead */

	/* the steps' own */
	int step;
	uint64_t total;	   /* the GPU's word as last read */
	uint64_t held;	   /* our word before the announcement */
	uint32_t at, end;  /* the slot that is looked at, and where to stop */
	uint64_t at_owner; /* its owner */
	uint64_t at_word;  /* its word */
	uint64_t sum;
	uint32_t dead; /* slot of a dead process */
};

/* reserve_begin() - step to the beginning. usage, world, kind and what the kind needs are filled. */
void reserve_begin(struct reserve *reserve);

/* reserve_step() - one step. After RESERVE_DONE and RESERVE_REFUSED there is none. */
enum reserve_result reserve_step(struct reserve *reserve);

/* reserve_steps() - steps until there is something else to say than RESERVE_GOES_ON. */
enum reserve_result reserve_steps(struct reserve *reserve);

/* reserve_abandon() - after RESERVE_WAITS, for whoever waits no longer. Nothing is taken. What was to be
 * given is no longer held, but stays in the GPU's total until the next recount. */
void reserve_abandon(struct reserve *reserve);

/* reserve_run() - all steps. -ENOMEM, or -EUSERS for RESERVE_CLAIM: refused. -EBUSY: a living process has
 * recounted for a second, so it does not run. */
int reserve_run(struct reserve *reserve);

/* An owner's word. */
#define OWNER_PID_BITS 22 /* PID_MAX_LIMIT, include/linux/threads.h */
#define OWNER_NAMESPACE_BITS 28
#define OWNER_GENERATION_BITS 13
#define OWNER_GENERATION_SHIFT (64 - OWNER_GENERATION_BITS)
/* The claim is not over: what the slot's words hold is the predecessor's, who is dead. */
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
