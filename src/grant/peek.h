/* peek.h - reads a usage file for the agent, in pieces, with pread(). The file is never mapped, because a
 * container that truncates it would kill the process that maps it. The content may be anything. */
#pragma once

#include "grant/owner.h"
#include "grant/share.h"
#include "grant/usage.h"

struct usage_peek_gpu {
	uint64_t refused;	/* number of refused allocations so far */
	uint64_t refused_bytes; /* size of the last refused allocation */
	uint64_t turns[2];
};

struct usage_peek {
	unsigned gpu_count;
	uint32_t slots_used; /* at most USAGE_FILE_SLOTS */
	uint32_t look_wanted;
	struct usage_peek_gpu gpus[GRANT_FILE_GPUS_MAX]; /* the first n are filled */
};

/* usage_peek() - reads the head and the first n GPUs, at most GRANT_FILE_GPUS_MAX, with one read. -EBADMSG if
 * this is not a usage file of a version that we know, or if it has fewer GPUs. */
int usage_peek(int fd, unsigned n, struct usage_peek *ret_peek);

/* What a container's processes have used of one GPU's computing power, by their own count. The container can
 * write anything there: numbers may jump or decrease. */
struct usage_peek_power {
	uint64_t started_ns; /* kernels */
	uint64_t copied_ns;  /* both directions */
	uint64_t waited_ns;
	uint64_t asked;
};

/* usage_peek_power() - reads only the counters of one GPU; the file must be known to have that GPU. -EBADMSG
 * if the file is too short. */
int usage_peek_power(int fd, unsigned gpu, struct usage_peek_power *ret_power);

/* One process's part of one GPU. */
struct usage_peek_slot {
	uint32_t slot;
	uint64_t owner, start_ticks, time_namespace, image; /* as in struct usage_slot */
	uint64_t moves;
	bool has_turn;
	bool fresh; /* its only context on this GPU is new, and charged with fresh_bytes */
	uint64_t fresh_bytes;
	uint64_t surplus_bytes; /* at most this much of held_bytes the driver may not have taken */
	uint64_t held_bytes, exported_bytes, imported_bytes;
	uint32_t n_shares;
	uint64_t shares[GRANT_FILE_GPUS_MAX]; /* records of this GPU: share.h */
};

/* usage_peek_slots() - reads the slots that have an owner whose words are its own. `peek` must have this GPU,
 * and ret_slots room for peek->slots_used. Returns their number, or -EBADMSG. */
int usage_peek_slots(int fd, const struct usage_peek *peek, unsigned gpu, struct usage_peek_slot *ret_slots);

/* usage_slot_is_of() - whether this process took the slot, as far as that can be determined. pid and pid
 * namespace are those that the process itself sees. A field that is 0 is unknown and not compared. */
bool usage_slot_is_of(const struct usage_peek_slot *slot, const struct owner *process);
