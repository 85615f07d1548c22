/* grant.h - what a container (or a run) may use of which GPU: one file, written by its keeper (the agent, or
 * the waiting parent of `ration run`), mapped read-only by the shim.
 *
 * src/grant/ holds the two files that shim and keeper share: this one and usage.h, how memory is reserved
 * (reserve.h) and who owns a slot (owner.h). libc only, not even base/: it becomes part of a library that
 * programs of any kind load. Errors are negative errno and, where a person will read them, a constant
 * sentence.
 *
 * Rules
 * - The keeper writes the file complete under another name and renames it into place. Everything above
 *   `live` is constant as long as the file lives, and covered by the checksum.
 * - What changes is in `live`: single aligned words, each with one writer, so that whoever is killed at any
 *   instruction leaves nothing half-written.
 * - The file never shrinks: a mapping of it stays valid.
 * - Its size and every offset are for good. A later version takes reserved bytes, which are zero in a file of
 *   an earlier one; docs/internals/grant.md, "Versions". No grant, or one that does not verify: no device.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRANT_FILE_PATH "/run/ration/grant" /* where a container has it */
#define GRANT_FILE_VARIABLE "RATION_GRANT"  /* names it where that path does not exist (`ration run`) */

#define GRANT_FILE_MAGIC UINT64_C(0x31544e4152474152) /* "RAGRANT1" as little-endian bytes */
/* Tests build this code a second time as a later version, with a word more in reserved places, and pair it
 * with this one. */
#ifdef GRANT_LAYOUT_NEXT
#define GRANT_LAYOUT_STEP 1
#else
#define GRANT_LAYOUT_STEP 0
#endif
#define GRANT_FILE_VERSION (1 + GRANT_LAYOUT_STEP)
#define GRANT_FILE_READABLE_FROM 1 /* the oldest version whose readers may use what this one writes */
#define GRANT_FILE_OLDEST 1	   /* the oldest version of which this code reads files */
#define GRANT_FILE_GPUS_MAX 64
#define GRANT_CORE_WHOLE 1000000 /* core_share of a whole GPU */
#define GRANT_CORE_POLICY 0xff	 /* of core_policy */
#define GRANT_CORE_BUSY 0x100	 /* in core_policy: its keeper saw a moment ago that it has work */

#define GRANT_PAUSE_NS INT64_C(20000000)
#define GRANT_DEAD_EACH 16
#define GRANT_DEAD 0x8000
#define GRANT_KNOWN (UINT64_C(1) << 32)

/* Constant. The order of the GPUs is their order inside: index 0 is the first that the program sees. */
struct grant_file_gpu {
	char uuid[64];
	char pci_bus_id[32];	 /* as NVML writes it: "00000000:00:09.0" */
	uint64_t limit_bytes;	 /* when the grant was made; what holds is live[].limit_bytes */
	uint64_t physical_bytes; /* of the whole GPU, for people: the program is shown the limit */
	uint64_t next[GRANT_LAYOUT_STEP];
	uint8_t reserved[144 - 8 * GRANT_LAYOUT_STEP]; /* zero */
};

/* Changes while mapped, written by the keeper only. */
struct grant_file_live {
	/* Memory of the GPU that the container holds and that no call of the driver's shows: contexts,
	 * modules, local memory. Counts against the limit. overhead.h computes it. */
	_Atomic uint64_t overhead_bytes;
	_Atomic uint64_t
		overhead_generation;  /* one more with each look of the keeper; 0: it has not looked yet */
	_Atomic uint64_t limit_bytes; /* what the container may use now: enforced and shown. Never 0 */
	/* What usage_file.look_wanted was before the last look began: who had counted it up until then has
	 * been looked at. Its low 32 bits. */
	_Atomic uint64_t looked_for;
	_Atomic uint64_t largest_limit_bytes; /* that it had so far: what it may have allocated rightly */
	/* Computing power: docs/internals/computing-power.md. Both 0: it is not controlled, and not counted.
	 * share: of the GPU's time, in millionths, as the policy has it; the whole GPU (1,000,000) is never
	 * waited for. rate: exclusive nanoseconds of the GPU, as the shim estimates them, that may be
	 * started in a millisecond: the share, corrected by what the driver says was really used. */
	_Atomic uint64_t core_share;
	_Atomic uint64_t core_rate;
	/* For people, and other keepers: policy of contract 7, and 1 (0: none), in the low byte. */
	_Atomic uint64_t core_policy;
	/* Of the first GPU only, for all: not 0 while the keeper wants a sample without calls under way. A
	 * call that would begin one waits until this word changes, GRANT_PAUSE_NS at most, or a second where
	 * the keeper lives. */
	_Atomic uint64_t pause;
	/* Not of this GPU, but of the slots of the usage file from 16 times this entry's number on: the
	 * generation of an owner that is dead, and GRANT_DEAD; 0: the keeper says nothing. Processes of
	 * another pid namespace cannot know by themselves. See owner_note_dead(). */
	_Atomic uint16_t dead[GRANT_DEAD_EACH];
	/* What a context takes on this GPU, as the last one showed; 0: not known. A context is charged that
	 * much before it is made. */
	_Atomic uint64_t context_bytes;
	/* GRANT_KNOWN, and looked_for of the last sample that learnt the overhead of each process and who is
	 * dead: no call of the container began or ended meanwhile. 0: this keeper does not say that. */
	_Atomic uint64_t known_for;
	uint64_t next[GRANT_LAYOUT_STEP];
	uint8_t reserved[8 - 8 * GRANT_LAYOUT_STEP]; /* zero */
};

struct grant_file {
	uint64_t magic;
	uint32_t version;
	uint32_t size;	   /* of this struct */
	uint64_t checksum; /* FNV-1a of the bytes before it, and of those behind it up to `live` */
	uint32_t gpu_count;
	uint32_t readable_from;	 /* GRANT_FILE_READABLE_FROM of who wrote it */
	char container[256];	 /* whose it is, for messages: "default/pod/container", or a program */
	char cuda_library[1024]; /* absolute path of the driver's own library, as the program can open it */
	char nvml_library[1024];
	uint8_t reserved1[184];
	struct grant_file_gpu gpus[GRANT_FILE_GPUS_MAX];
	struct grant_file_live live[GRANT_FILE_GPUS_MAX];
};

_Static_assert(sizeof(struct grant_file_gpu) == 256, "size of a card is part of the layout");
_Static_assert(offsetof(struct grant_file_gpu, pci_bus_id) == 64, "layout");
_Static_assert(offsetof(struct grant_file_gpu, limit_bytes) == 96, "layout");
_Static_assert(sizeof(struct grant_file_live) == 128, "layout");
_Static_assert(offsetof(struct grant_file_live, limit_bytes) == 16, "layout");
_Static_assert(offsetof(struct grant_file_live, looked_for) == 24, "layout");
_Static_assert(offsetof(struct grant_file_live, largest_limit_bytes) == 32, "layout");
_Static_assert(offsetof(struct grant_file_live, core_share) == 40, "layout");
_Static_assert(offsetof(struct grant_file_live, pause) == 64, "layout");
_Static_assert(offsetof(struct grant_file_live, dead) == 72, "layout");
_Static_assert(offsetof(struct grant_file_live, context_bytes) == 104, "layout");
_Static_assert(offsetof(struct grant_file_live, known_for) == 112, "layout");
_Static_assert(offsetof(struct grant_file, gpu_count) == 24, "layout");
_Static_assert(offsetof(struct grant_file, container) == 32, "layout");
_Static_assert(offsetof(struct grant_file, cuda_library) == 288, "layout");
_Static_assert(offsetof(struct grant_file, nvml_library) == 1312, "layout");
_Static_assert(offsetof(struct grant_file, gpus) == 2520, "layout");
_Static_assert(offsetof(struct grant_file, live) == 2520 + 64 * 256, "layout");
_Static_assert(sizeof(struct grant_file) == 2520 + 64 * (256 + 128), "layout");
_Static_assert(sizeof(_Atomic uint64_t) == 8, "a 64-bit atomic is a plain word");

/* grant_file_write() - give `grant`, whose constant fields the caller has filled from gpu_count on, its
 * head, limits that hold (those at creation) and checksum, and write it: complete under another name, then
 * renamed to path. Mode 0644. -EINVAL and *ret_why if it would not verify. */
int grant_file_write(const char *path, struct grant_file *grant, const char **ret_why);

/* grant_file_map() - the file, verified, mapped read-only and shared, for as long as the process lives (or
 * until grant_file_unmap()). No descriptor stays open. -ENOENT: there is none; -EBADMSG: it does not verify;
 * *ret_why is then a constant sentence for a person (also for other errors). */
int grant_file_map(const char *path, const struct grant_file **ret_grant, const char **ret_why);

/* grant_file_map_keeper() - the same for the keeper, who writes what is in `live`. */
int grant_file_map_keeper(const char *path, struct grant_file **ret_grant, const char **ret_why);
void grant_file_unmap(const struct grant_file *grant);

/* grant_file_limit_bytes() - of this GPU, now. Two calls may answer differently: whoever computes with it
 * asks once. */
static inline uint64_t grant_file_limit_bytes(const struct grant_file *grant, unsigned gpu)
{
	return atomic_load(&grant->live[gpu].limit_bytes);
}

/* grant_file_set_limit() - another limit, which processes that run see at their next call. One keeper only.
 * Less than what is used takes nothing away: nothing is free then, and what asks for more is refused.
 * -EINVAL: no such GPU, or no memory at all. */
int grant_file_set_limit(struct grant_file *grant, unsigned gpu, uint64_t bytes);

/* grant_file_set_power() - share, rate and policy of a GPU's computing power, in an order in which a share
 * never is without a rate. Nothing is read. One keeper only. */
void grant_file_set_power(
	struct grant_file *grant, unsigned gpu, uint64_t share, uint64_t rate, uint64_t policy);

/* grant_file_verify() - NULL if the bytes are a whole grant, else what is wrong with them. */
const char *grant_file_verify(const struct grant_file *grant, size_t bytes);

/* grant_file_set_overhead() - publish it, with a new generation. looked_for: usage_file.look_wanted, as read
 * before the driver was asked and before what is charged. One keeper only. */
static inline void grant_file_set_overhead(
	struct grant_file *grant, unsigned gpu, uint64_t bytes, uint32_t looked_for)
{
	struct grant_file_live *live = &grant->live[gpu];

	atomic_store(&live->overhead_bytes, bytes);
	atomic_fetch_add(&live->overhead_generation, 1);
	atomic_store(&live->looked_for, looked_for);
}

/* grant_file_publish_overhead() - open: the sample could not tell everything. It makes no room then, and
 * whoever waits for a sample goes on waiting. (Only then is the grant read: a page of a file that is read
 * first, and not written, brings its neighbours into the keeper's memory.) */
static inline void grant_file_publish_overhead(
	struct grant_file *grant, unsigned gpu, uint64_t bytes, uint32_t looked_for, bool open)
{
	struct grant_file_live *live = &grant->live[gpu];
	uint64_t before = open ? atomic_fetch_add(&live->overhead_bytes, 0) : 0;

	/* From now on a sample counts only if it is said to know. */
	if (atomic_load(&live->known_for) == 0)
		atomic_store(&live->known_for, GRANT_KNOWN | (looked_for - 1));
	grant_file_set_overhead(grant, gpu, bytes > before ? bytes : before,
		open ? (uint32_t)atomic_load(&live->looked_for) : looked_for);
}

/* grant_file_raise_overhead() - at least so much, before what a sample found is published: whoever waits for
 * the sample goes on waiting. */
static inline void grant_file_raise_overhead(struct grant_file *grant, unsigned gpu, uint64_t bytes)
{
	struct grant_file_live *live = &grant->live[gpu];

	/* Not atomic_load(): the kernel would map the pages around the one that is read, 20 KiB for each
	 * grant of the agent; a write maps one. */
	if (bytes > atomic_fetch_add(&live->overhead_bytes, 0))
		atomic_store(&live->overhead_bytes, bytes);
}

/* grant_was_looked() - whether a look began after look_wanted was counted up to this. */
static inline bool grant_was_looked(const struct grant_file *grant, unsigned gpu, uint32_t look_wanted)
{
	return (int32_t)((uint32_t)atomic_load(&grant->live[gpu].looked_for) - look_wanted) >= 0;
}

/* grant_was_known() - the same for a sample that learnt the overhead of each process. A keeper of an earlier
 * version does not say which did: as grant_was_looked(). */
static inline bool grant_was_known(const struct grant_file *grant, unsigned gpu, uint32_t look_wanted)
{
	uint64_t known = atomic_load(&grant->live[gpu].known_for);

	return known ? (int32_t)((uint32_t)known - look_wanted) >= 0
		     : grant_was_looked(grant, gpu, look_wanted);
}
