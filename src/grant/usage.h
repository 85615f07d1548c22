/* usage.h - what the processes of one container have charged: one file that each of them maps writable.
 *
 * It lies beside the grant, under the name "usage". docs/internals/reservation.md explains how its words
 * change such that a process may be killed at any instruction; the code is reserve.h.
 *
 * Rules
 * - The layout is fixed, the file never shrinks, and slots never move. Versions work as in grant.h.
 * - A container can write anything into it, and harms only itself. A reader bounds every index that it takes
 * from here. The agent reads it with pread() into a buffer, since truncating a mapped file kills its reader.
 * - Memory is counted in pages of 4 KiB. A GPU's sum must fit into one word that can be changed atomically;
 * so must a slot's part of it together with the change under way.
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
#define USAGE_FILE_OLDEST 1 /* the oldest version whose files this code can use */
#define USAGE_FILE_SLOTS 1024
#define USAGE_PAGE_SHIFT 12

/* usage_gpu.total: an epoch (high half) and pages (low half). While the epoch is odd the sum is being
 * recounted, and the low half is the slot of the recounting process. */
#define USAGE_IS_RECOUNTED(total) (((total) >> 32) & 1)
#define USAGE_TOTAL_PAGES(total) ((total)&UINT32_MAX)
/* usage_slot.gpus[]: pages held (low half) and the change under way (high half). */
#define USAGE_HELD_PAGES(word) ((word)&UINT32_MAX)

/* usage_slot.moves. Loose: the process has pools, and the driver may give memory of pools back at any
 * time. */
#define USAGE_MOVE_BEGINS ((UINT64_C(1) << 32) + 1)
#define USAGE_MOVES_UNDER_WAY(moves) ((moves)&0x7fffffff)
#define USAGE_MOVES_LOOSE (UINT64_C(1) << 31)

/* usage_gpu.turns[]: the slot that has the turn, and the generation of its owner. 0: the turn is free. */
#define USAGE_TURN(slot, owner) (OWNER_GENERATION(owner) << 32 | ((uint64_t)(slot) + 1))

/* usage_slot.fresh */
#define USAGE_FRESH (UINT64_C(1) << 63)
#define USAGE_FRESH_GPU(fresh) ((unsigned)((fresh) >> 32) & 63)

/* One GPU's sum over the container. */
struct usage_gpu {
	_Atomic uint64_t total;	  /* epoch and pages, as above */
	_Atomic uint64_t refused; /* allocations refused with "out of memory" because of the limit */
	_Atomic uint64_t recounts;
	_Atomic uint64_t refused_bytes; /* size of the last refused allocation */
	/* Computing power. core_credit, copy_credit: the container's token buckets, of kernels and of copies
	 * to and from the GPU. Each is one word with a credit and the time of the last refill
	 * (grant/token-bucket.h).
	 *
	 * Keepers and displays read the counters: exclusive nanoseconds started so far, as estimated;
	 * nanoseconds that threads were delayed; how often credit was asked for, including in vain (a waiting
	 * thread asks at least every 10 ms); and the last time, by the monotonic clock, at which the duration
	 * of a long launch was unknown. Such a launch may have put the container into debt since. */
	_Atomic uint64_t core_credit, copy_credit[2];
	_Atomic uint64_t core_started_ns, copy_started_ns[2];
	_Atomic uint64_t core_waited_ns, core_asked, core_unsure_ns;
	_Atomic uint64_t turns[2]; /* indexed by enum account_turn: the slot that has the turn; 0: free */
	uint64_t next[GRANT_LAYOUT_STEP];
	uint8_t reserved[8 - 8 * GRANT_LAYOUT_STEP]; /* zero */
};

/* One process. */
struct usage_slot {
	_Atomic uint64_t owner;		 /* 0 pid: free; see owner.h */
	_Atomic uint64_t start_ticks;	 /* when the owner started; 0: not known (yet) */
	_Atomic uint64_t time_namespace; /* the namespace in which start_ticks was read; 0: not known */
	_Atomic uint64_t image;		 /* which program it runs: execve() frees the GPU's memory */
	/* Counts calls of this process that change what the driver holds for it or what it has charged: begun
	 * so far (high half), under way (low half), and USAGE_MOVES_LOOSE. If this word stays the same during
	 * a sample, with no call under way, the sample saw exactly what is charged. 0: a version of the shim
	 * that does not count. */
	_Atomic uint64_t moves;
	/* Not 0 while the process has just created its first context on a GPU and has nothing else there:
	 * USAGE_FRESH, the GPU (bits 32 to 37), and the pages charged for it. The keeper learns the size of a
	 * context from it. */
	_Atomic uint64_t fresh;
	/* An upper bound of pages that are charged but that the driver may not have taken. They are no proof
	 * that the overhead is smaller. surplus: on the GPU surplus_gpu - 1, the first that had any (0: none
	 * had). surplus_elsewhere: on all other GPUs together. */
	_Atomic uint32_t surplus, surplus_elsewhere, surplus_gpu;
	uint8_t reserved[4];			    /* zero */
	_Atomic uint64_t gpus[GRANT_FILE_GPUS_MAX]; /* as above */
	/* For each GPU of the grant: held pages that other processes may have too (high half), and pages that
	 * this process has imported from others (low half). The driver counts both for both processes. The
	 * words behind these are records of single regions (share.h). Only the owner writes them. */
	_Atomic uint64_t shared[GRANT_FILE_GPUS_MAX];
};

struct usage_file {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this struct */
	uint32_t slot_count;
	uint32_t gpu_count;	     /* as in the grant */
	_Atomic uint32_t slots_used; /* no slot at or above this one has ever had an owner */
	/* Incremented when a process waits for newer overhead; a futex on which the keeper may wait. */
	_Atomic uint32_t look_wanted;
	uint32_t readable_from; /* USAGE_FILE_READABLE_FROM of the process that made the file */
	uint8_t reserved[92];	/* zero */
	struct usage_gpu gpus[GRANT_FILE_GPUS_MAX];
	struct usage_slot slots[USAGE_FILE_SLOTS];
};

_Static_assert(GRANT_DEAD_EACH *GRANT_FILE_GPUS_MAX == USAGE_FILE_SLOTS, "one for each slot");
_Static_assert(sizeof(struct usage_gpu) == 128, "size of a GPU is part of the layout");
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

/* usage_file_create() - creates an empty file at path for a grant with that many GPUs; it is renamed into
 * place when complete. Mode 0666 whatever the umask, because the processes of a container may have any user.
 * The file is sparse. */
int usage_file_create(const char *path, unsigned gpu_count, const char **ret_why);

/* usage_file_map() - verifies the file and maps it writable and shared; no descriptor stays open. -ENOENT,
 * -EACCES, -EBADMSG; *ret_why is then a constant sentence for a person. */
int usage_file_map(const char *path, struct usage_file **ret_usage, const char **ret_why);
void usage_file_unmap(struct usage_file *usage);

/* usage_file_keep() - for the keeper: shows every process that has the file that look_wanted is being
 * watched. It lasts until this descriptor is closed, its process ends in any way, or `kept` is false. Ignored
 * if the file system has no locks. */
void usage_file_keep(int fd, bool kept);
bool usage_file_is_kept(int fd);

/* usage_file_path() - the path of the usage file beside the grant at grant_path. -ENAMETOOLONG. */
int usage_file_path(const char *grant_path, char *ret_path, size_t size);

/* usage_file_verify() - checks the first USAGE_HEAD_BYTES of a file: NULL if it is a usage file that we can
 * use, else what is wrong with it. */
#define USAGE_HEAD_BYTES 128
const char *usage_file_verify(const void *head);

/* usage_file_read() - for the keeper: reads the bytes charged on each of the first n GPUs from a descriptor,
 * without mapping the file. -EBADMSG if this is not a complete usage file. */
int usage_file_read(int fd, unsigned n, uint64_t *ret_bytes);
