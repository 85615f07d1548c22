/* usage.h - what the processes of one container have charged: one file, mapped writable by each of them.
 *
 * It lies beside the grant, under the name "usage". How its words are changed, so that a process may be
 * killed at any instruction, is docs/internals/reservation.md; the code is reserve.h.
 *
 * Rules
 * - Fixed layout, never shrinks; versions as in grant.h. Slots never move. A container can write anything
 * into it, and harms itself only: a reader bounds every index that it takes from here, and the agent reads it
 * with pread() into a buffer, since a mapped file that is truncated kills its reader.
 * - Memory is counted in pages of 4 KiB: a GPU's sum, or a slot's part of it with the change that is under
 * way, must be one word that can be changed at once.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grant/grant.h"

#define USAGE_FILE_NAME "usage"
#define USAGE_FILE_PATH "/run/ration/" USAGE_FILE_NAME

#define USAGE_FILE_MAGIC UINT64_C(0x3145474153554152) /* "RAUSAGE1" as little-endian bytes */
#define USAGE_FILE_VERSION (1 + GRANT_LAYOUT_STEP)
#define USAGE_FILE_READABLE_FROM                                                                             \
	1		    /* the oldest version whose processes may share the file with this one's         \
			     */
#define USAGE_FILE_OLDEST 1 /* the oldest version of which this code uses files */
#define USAGE_FILE_SLOTS 1024
#define USAGE_PAGE_SHIFT 12

/* usage_gpu.total: an epoch (high half) and pages (low half). While the epoch is odd the sum is recounted,
 * and the low half is the slot of the process that does it. */
#define USAGE_IS_RECOUNTED(total) (((total) >> 32) & 1)
#define USAGE_TOTAL_PAGES(total) ((total)&UINT32_MAX)
/* usage_slot.gpus[]: pages held (low half) and the change under way (high half). */
#define USAGE_HELD_PAGES(word) ((word)&UINT32_MAX)

/* usage_slot.moves. Loose: the process has pools, which give memory back whenever the driver likes. */
#define USAGE_MOVE_BEGINS ((UINT64_C(1) << 32) + 1)
#define USAGE_MOVES_UNDER_WAY(moves) ((moves)&0x7fffffff)
#define USAGE_MOVES_LOOSE (UINT64_C(1) << 31)

/* usage_gpu.turns[]: the slot whose turn it is, and the generation of its owner. 0: nobody's. */
#define USAGE_TURN(slot, owner) (OWNER_GENERATION(owner) << 32 | ((uint64_t)(slot) + 1))

/* usage_slot.fresh */
#define USAGE_FRESH (UINT64_C(1) << 63)
#define USAGE_FRESH_GPU(fresh) ((unsigned)((fresh) >> 32) & 63)

/* One GPU's sum over the container. */
struct usage_gpu {
	_Atomic uint64_t total;	  /* epoch and pages, as above */
	_Atomic uint64_t refused; /* allocations that were answered with out of memory because of the limit */
	_Atomic uint64_t recounts;
	_Atomic uint64_t refused_bytes; /* what the last of them asked for */
	/* Computing power: the container's buckets, of kernels and of copies to and from the GPU, each one
	 * word of credit and the time up to which it was refilled (grant/credit.h), and what keepers and
	 * people read: exclusive nanoseconds started so far, as estimated; nanoseconds that threads were held
	 * back; how often credit was asked for, also in vain, at least each 10 ms by who waits; and when it
	 * last was not known what a long launch takes, by the monotonic clock: for whose sake the container
	 * may be in debt since. */
	_Atomic uint64_t core_credit, copy_credit[2];
	_Atomic uint64_t core_started_ns, copy_started_ns[2];
	_Atomic uint64_t core_waited_ns, core_asked, core_unsure_ns;
	_Atomic uint64_t turns[2]; /* by enum account_turn: who has it; 0: nobody */
	uint64_t next[GRANT_LAYOUT_STEP];
	uint8_t reserved[8 - 8 * GRANT_LAYOUT_STEP]; /* zero */
};

/* One process. */
struct usage_slot {
	_Atomic uint64_t owner;		 /* 0 pid: free; see owner.h */
	_Atomic uint64_t start_ticks;	 /* when the owner started; 0: not known (yet) */
	_Atomic uint64_t time_namespace; /* in which start_ticks was read; 0: not known */
	_Atomic uint64_t image;		 /* which program it runs: execve() frees the GPU's memory */
	/* Calls of this process that change what the driver has of it or what it has charged: how many have
	 * begun (high half), how many are under way (low half), and USAGE_MOVES_LOOSE. A sample of the driver
	 * during which this word stays the same, with none under way, saw what is charged. 0: a version of
	 * the shim that does not count. */
	_Atomic uint64_t moves;
	/* Not 0 while the process has just made its first context on a GPU, and nothing else there:
	 * USAGE_FRESH, the GPU (bits 32 to 37), and pages that it has charged for it. From that the keeper
	 * knows what a context takes. */
	_Atomic uint64_t fresh;
	/* Pages that are charged and that the driver may not have taken, at most: they do not show that there
	 * is less overhead. surplus: on the GPU surplus_gpu - 1, the first that had any (0: none had);
	 * surplus_elsewhere: on all others together. */
	_Atomic uint32_t surplus, surplus_elsewhere, surplus_gpu;
	uint8_t reserved[4];			    /* zero */
	_Atomic uint64_t gpus[GRANT_FILE_GPUS_MAX]; /* as above */
	/* Of each GPU of the grant: pages of what is held that other processes may have too (high half), and
	 * of what this process has of others (low half), which the driver counts for both. Behind these:
	 * regions that are known one by one (share.h). Written by the owner only. */
	_Atomic uint64_t shared[GRANT_FILE_GPUS_MAX];
};

struct usage_file {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this struct */
	uint32_t slot_count;
	uint32_t gpu_count;	     /* as in the grant */
	_Atomic uint32_t slots_used; /* no slot at or above this one has ever had an owner */
	/* Counts up when a process waits for newer overhead; a futex on which the keeper may wait. */
	_Atomic uint32_t look_wanted;
	uint32_t readable_from; /* USAGE_FILE_READABLE_FROM of who made it */
	uint8_t reserved[92];	/* zero */
	struct usage_gpu gpus[GRANT_FILE_GPUS_MAX];
	struct usage_slot slots[USAGE_FILE_SLOTS];
};

_Static_assert(GRANT_DEAD_EACH *GRANT_FILE_GPUS_MAX == USAGE_FILE_SLOTS, "one for each slot");
_Static_assert(sizeof(struct usage_gpu) == 128, "size of a card is part of the layout");
_Static_assert(offsetof(struct usage_gpu, core_credit) == 32, "layout");
_Static_assert(offsetof(struct usage_gpu, turns) == 104, "layout");
_Static_assert(sizeof(struct usage_slot) == 64 + 16 * 64, "size of a slot is part of the layout");
_Static_assert(offsetof(struct usage_slot, moves) == 32, "layout");
_Static_assert(offsetof(struct usage_slot, fresh) == 40, "layout");
_Static_assert(offsetof(struct usage_slot, surplus) == 48, "layout");
_Static_assert(offsetof(struct usage_slot, surplus_gpu) == 56, "layout");
_Static_assert(offsetof(struct usage_slot, gpus) == 64, "layout");
_Static_assert(offsetof(struct usage_slot, shared) == 64 + 8 * 64, "layout");
_Static_assert(offsetof(struct usage_file, slots_used) == 24, "layout");
_Static_assert(offsetof(struct usage_file, readable_from) == 32, "layout");
_Static_assert(offsetof(struct usage_file, gpus) == 128, "layout");
_Static_assert(offsetof(struct usage_file, slots) == 128 + 64 * 128, "layout");
_Static_assert(sizeof(struct usage_file) == 128 + 64 * 128 + 1024 * (64 + 16 * 64), "layout");

/* usage_file_create() - an empty one for a grant with that many GPUs, at path; renamed into place when
 * complete. Mode 0666 whatever the umask: the processes of a container have any user. The file is sparse. */
int usage_file_create(const char *path, unsigned gpu_count, const char **ret_why);

/* usage_file_map() - verified and mapped writable and shared; no descriptor stays open. -ENOENT, -EACCES,
 * -EBADMSG; *ret_why is a constant sentence for a person. */
int usage_file_map(const char *path, struct usage_file **ret_usage, const char **ret_why);
void usage_file_unmap(struct usage_file *usage);

/* usage_file_keep() - for the keeper: whoever has the file sees from now on that somebody looks at who asks
 * (look_wanted), until this descriptor is closed, or its process has ended in whatever way, or kept is false.
 * Ignored where the file system knows no locks. */
void usage_file_keep(int fd, bool kept);
bool usage_file_is_kept(int fd);

/* usage_file_path() - of the usage file beside the grant at grant_path. -ENAMETOOLONG. */
int usage_file_path(const char *grant_path, char *ret_path, size_t size);

/* usage_file_verify() - of the first USAGE_HEAD_BYTES of a file: NULL if it is a usage file that we can use,
 * else what is wrong with it. */
#define USAGE_HEAD_BYTES 128
const char *usage_file_verify(const void *head);

/* usage_file_read() - for the keeper: the bytes charged on each of the first n GPUs, read from a descriptor
 * without mapping it. -EBADMSG if this is not a whole usage file. */
int usage_file_read(int fd, unsigned n, uint64_t *ret_bytes);
