/* peek.h - a usage file as the agent reads it: piece by piece with pread(), never mapped, since a container
 * that truncates it would kill who has it mapped. What is read may be anything. */
#pragma once

#include "grant/owner.h"
#include "grant/share.h"
#include "grant/usage.h"

struct usage_peek_gpu {
	uint64_t refused;	/* allocations so far */
	uint64_t refused_bytes; /* that the last of them asked for */
	uint64_t turns[2];
};

struct usage_peek {
	unsigned gpu_count;
	uint32_t slots_used; /* at most USAGE_FILE_SLOTS */
	uint32_t look_wanted;
	struct usage_peek_gpu gpus[GRANT_FILE_GPUS_MAX]; /* the first n */
};

/* usage_peek() - the head and the first n GPUs, at most GRANT_FILE_GPUS_MAX, by one read. -EBADMSG if this
 * is not a usage file of a version that we know, or has fewer GPUs. */
int usage_peek(int fd, unsigned n, struct usage_peek *ret_peek);

/* What a container's processes have done with one GPU's computing power, by their own count. Anything may be
 * written there: numbers may jump, and go back. */
struct usage_peek_power {
	uint64_t started_ns; /* kernels */
	uint64_t copied_ns;  /* both directions */
	uint64_t waited_ns;
	uint64_t asked;
};

/* usage_peek_power() - of one GPU that the file was seen to have; cheap, and nothing else is looked at.
 * -EBADMSG if the file does not reach so far. */
int usage_peek_power(int fd, unsigned gpu, struct usage_peek_power *ret_power);

/* One process's part of one GPU. */
struct usage_peek_slot {
	uint32_t slot;
	uint64_t owner, start_ticks, time_namespace, image; /* as in struct usage_slot */
	uint64_t moves;
	bool has_turn;
	bool fresh; /* its only context on this GPU is new, and charged with fresh_bytes */
	uint64_t fresh_bytes;
	uint64_t surplus_bytes; /* of held_bytes, the driver may not have; at most */
	uint64_t held_bytes, exported_bytes, imported_bytes;
	uint32_t n_shares;
	uint64_t shares[GRANT_FILE_GPUS_MAX]; /* records of this GPU: share.h */
};

/* usage_peek_slots() - the slots that have an owner, and whose words are its own. peek has this GPU, and
 * ret_slots room for peek->slots_used. Returns how many there are, or -EBADMSG. */
int usage_peek_slots(int fd, const struct usage_peek *peek, unsigned gpu, struct usage_peek_slot *ret_slots);

/* usage_slot_is_of() - whether this process took the slot, as far as that can be told: pid and pid namespace
 * as the process has them itself; what is 0 is not known, and not compared. */
bool usage_slot_is_of(const struct usage_peek_slot *slot, const struct owner *process);
