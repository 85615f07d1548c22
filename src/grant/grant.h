/* grant.h - what a container (or a run) may use of which GPU. It is one file. Its keeper writes it (the
 * agent, or the waiting parent of `ration run`), and the shim maps it read-only.
 *
 * src/grant/ holds the two files that shim and keeper share (this one and usage.h), the protocol that
 * reserves memory (reserve.h) and the owners of slots (owner.h). It uses libc only, not even base/, because
 * it becomes part of a library that any program may load. Errors are negative errno and, where a person will
 * read them, a constant sentence.
 *
 * Rules
 * - The keeper writes the file under another name and renames it into place when it is complete. The fields
 * above `live` are constant while the file lives, and the checksum covers them.
 * - Only the words in `live` change. Each is a single aligned word with one writer, so a process killed at
 * any instruction leaves nothing half-written.
 * - The file never shrinks, so a mapping of it stays valid.
 * - Its size and every offset never change. A later version uses reserved bytes, which are zero in a file of
 * an earlier version; docs/internals/grant.md, "Versions".
 *
 * A program whose grant is missing or does not verify gets no device.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRANT_FILE_PATH "/run/ration/grant" /* the grant's path inside a container */
#define GRANT_FILE_VARIABLE                                                                                  \
	"RATION_GRANT" /* the variable that names the grant where that path does not exist (`ration run`) */

#define GRANT_FILE_MAGIC UINT64_C(0x31544e4152474152) /* "RAGRANT1" as little-endian bytes */
/* Tests build this code a second time as a later version, with one more word in reserved places, and let both
 * versions share files. */
#ifdef GRANT_LAYOUT_NEXT
#define GRANT_LAYOUT_STEP 1
#else
#define GRANT_LAYOUT_STEP 0
#endif
#define GRANT_FILE_VERSION (1 + GRANT_LAYOUT_STEP)
#define GRANT_FILE_READABLE_FROM 1 /* the oldest version whose readers may use a file of this version */
#define GRANT_FILE_OLDEST 1	   /* the oldest version whose files this code can read */
#define GRANT_FILE_GPUS_MAX 64
#define GRANT_CORE_WHOLE 1000000 /* core_share of a whole GPU */
#define GRANT_CORE_POLICY 0xff	 /* the bits of core_policy that hold the policy */
#define GRANT_CORE_BUSY 0x100	 /* bit of core_policy: the keeper has just seen work on the GPU */

#define GRANT_PAUSE_NS INT64_C(20000000)
#define GRANT_DEAD_EACH 16
#define GRANT_DEAD 0x8000
#define GRANT_KNOWN (UINT64_C(1) << 32)

/* Constant. The order of the GPUs is the order in the program: index 0 is the first GPU that it sees. */
struct grant_file_gpu {
	char uuid[64];
	char pci_bus_id[32];  /* as NVML writes it: "00000000:00:09.0" */
	uint64_t limit_bytes; /* the limit when the grant was made; the present one is live[].limit_bytes */
	uint64_t physical_bytes; /* of the whole GPU, for display only: the program is shown the limit */
	uint64_t next[GRANT_LAYOUT_STEP];
	uint8_t reserved[144 - 8 * GRANT_LAYOUT_STEP]; /* zero */
};

/* Changes while mapped. Only the keeper writes it. */
struct grant_file_live {
	/* GPU memory that the container holds and that no driver call shows: contexts, modules, local memory.
	 * It counts against the limit. overhead.h computes it. */
	_Atomic uint64_t overhead_bytes;
	_Atomic uint64_t
		overhead_generation; /* incremented with each sample of the keeper; 0: no sample yet */
	_Atomic uint64_t
		limit_bytes; /* what the container may use now; enforced and shown to the program; never 0 */
	/* The low 32 bits of usage_file.look_wanted before the last sample began. Requests counted up to this
	 * number are answered. */
	_Atomic uint64_t looked_for;
	_Atomic uint64_t
		largest_limit_bytes; /* the highest limit so far: an upper bound for legitimate allocations */
	/* Computing power: docs/internals/computing-power.md. If both are 0, it is neither limited nor
	 * counted.
	 *
	 * core_share: the container's part of the GPU's time in millionths, as the policy computes it. A
	 * share of the whole GPU (1,000,000) never waits.
	 *
	 * core_rate: exclusive nanoseconds of the GPU, as the shim estimates them, that may be started per
	 * millisecond. It is the share, corrected by the use that the driver reports. */
	_Atomic uint64_t core_share;
	_Atomic uint64_t core_rate;
	/* For display, and for other keepers. The low byte is 1 + the policy of contract 7; 0: none. */
	_Atomic uint64_t core_policy;
	/* Only the first GPU's word is used, for all GPUs. It is not 0 while the keeper wants a sample
	 * without calls under way. A new call waits until this word changes: GRANT_PAUSE_NS at most, or a
	 * second if the keeper lives. */
	_Atomic uint64_t pause;
	/* Not about this GPU: entry i of GPU g is for slot 16 * g + i of the usage file. It holds the
	 * generation of a dead owner, and GRANT_DEAD. 0: the keeper has reported nothing. Processes of
	 * another pid namespace cannot find out by themselves. See owner_note_dead(). */
	_Atomic uint16_t dead[GRANT_DEAD_EACH];
	/* The size of a context on this GPU, as measured at the last one; 0: unknown. A context is charged
	 * with it before it is created. */
	_Atomic uint64_t context_bytes;
	/* GRANT_KNOWN, and looked_for of the last sample that determined the overhead of each process and
	 * which processes are dead. No call of the container began or ended during that sample. 0: this
	 * keeper does not report it. */
	_Atomic uint64_t known_for;
	uint64_t next[GRANT_LAYOUT_STEP];
	uint8_t reserved[8 - 8 * GRANT_LAYOUT_STEP]; /* zero */
};

struct grant_file {
	uint64_t magic;
	uint32_t version;
	uint32_t size;	   /* of this struct */
	uint64_t checksum; /* FNV-1a of the bytes before it, and of the bytes after it up to `live` */
	uint32_t gpu_count;
	uint32_t readable_from;	 /* GRANT_FILE_READABLE_FROM of the writer */
	char container[256];	 /* the owner, for messages: "default/pod/container", or a program */
	char cuda_library[1024]; /* absolute path of the driver's own library, as the program can open it */
	char nvml_library[1024];
	uint8_t reserved1[184];
	struct grant_file_gpu gpus[GRANT_FILE_GPUS_MAX];
	struct grant_file_live live[GRANT_FILE_GPUS_MAX];
};

_Static_assert(sizeof(struct grant_file_gpu) == 256, "size of a GPU is part of the layout");
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

/* grant_file_write() - completes `grant` and writes it. The caller has filled the constant fields from
 * gpu_count on; this call adds the head, the present limits (equal to those at creation) and the checksum.
 * The file is written under another name and renamed to path. Mode 0644. -EINVAL and *ret_why if it would not
 * verify. */
int grant_file_write(const char *path, struct grant_file *grant, const char **ret_why);

/* grant_file_map() - verifies the file and maps it read-only and shared, for the life of the process (or
 * until grant_file_unmap()). No descriptor stays open. -ENOENT: there is no file. -EBADMSG: it does not
 * verify. On any error *ret_why is a constant sentence for a person. */
int grant_file_map(const char *path, const struct grant_file **ret_grant, const char **ret_why);

/* grant_file_map_keeper() - the same for the keeper, which writes `live`. */
int grant_file_map_keeper(const char *path, struct grant_file **ret_grant, const char **ret_why);
void grant_file_unmap(const struct grant_file *grant);

/* grant_file_limit_bytes() - the present limit of this GPU. Two calls may return different values, so call it
 * once per computation. */
static inline uint64_t grant_file_limit_bytes(const struct grant_file *grant, unsigned gpu)
{
	return atomic_load(&grant->live[gpu].limit_bytes);
}

/* grant_file_set_limit() - sets another limit, which running processes see at their next call. One keeper
 * only. A limit below the present use takes nothing away: no memory is free then, and further allocations are
 * refused. -EINVAL: no such GPU, or 0 bytes. */
int grant_file_set_limit(struct grant_file *grant, unsigned gpu, uint64_t bytes);

/* grant_file_set_power() - sets share, rate and policy of a GPU's computing power. The order of the stores
 * ensures that there is never a share without a rate. It reads nothing. One keeper only. */
void grant_file_set_power(
	struct grant_file *grant, unsigned gpu, uint64_t share, uint64_t rate, uint64_t policy);

/* grant_file_verify() - NULL if the bytes are a valid grant, else what is wrong with them. */
const char *grant_file_verify(const struct grant_file *grant, size_t bytes);

/* grant_file_set_overhead() - publishes the overhead with a new generation. looked_for is
 * usage_file.look_wanted, as read before the driver was asked and before the charges were read. One keeper
 * only. */
static inline void grant_file_set_overhead(
	struct grant_file *grant, unsigned gpu, uint64_t bytes, uint32_t looked_for)
{
	struct grant_file_live *live = &grant->live[gpu];

	atomic_store(&live->overhead_bytes, bytes);
	atomic_fetch_add(&live->overhead_generation, 1);
	atomic_store(&live->looked_for, looked_for);
}

/* grant_file_publish_overhead() - open: the sample was inconclusive. It makes no room then, and processes
 * that wait for a sample continue to wait. (Only in that case is the grant read. If a page of a file is read
 * before it is written, its neighbours are mapped into the keeper's memory as well.) */
static inline void grant_file_publish_overhead(
	struct grant_file *grant, unsigned gpu, uint64_t bytes, uint32_t looked_for, bool open)
{
	struct grant_file_live *live = &grant->live[gpu];
	uint64_t before = open ? atomic_fetch_add(&live->overhead_bytes, 0) : 0;

	/* From now on a sample counts only if known_for says that it was conclusive. */
	if (atomic_load(&live->known_for) == 0)
		atomic_store(&live->known_for, GRANT_KNOWN | (looked_for - 1));
	grant_file_set_overhead(grant, gpu, bytes > before ? bytes : before,
		open ? (uint32_t)atomic_load(&live->looked_for) : looked_for);
}

/* grant_file_raise_overhead() - raises the overhead to at least `bytes` before the result of a sample is
 * published. Processes that wait for the sample continue to wait. */
static inline void grant_file_raise_overhead(struct grant_file *grant, unsigned gpu, uint64_t bytes)
{
	struct grant_file_live *live = &grant->live[gpu];

	/* Not atomic_load(): a read would map the pages around this one too, 20 KiB for each grant of the
	 * agent. A write maps one page. */
	if (bytes > atomic_fetch_add(&live->overhead_bytes, 0))
		atomic_store(&live->overhead_bytes, bytes);
}

/* grant_was_looked() - whether a sample began after look_wanted reached this number. */
static inline bool grant_was_looked(const struct grant_file *grant, unsigned gpu, uint32_t look_wanted)
{
	return (int32_t)((uint32_t)atomic_load(&grant->live[gpu].looked_for) - look_wanted) >= 0;
}

/* grant_was_known() - the same for a sample that determined the overhead of each process. A keeper of an
 * earlier version does not report which samples did; then this equals grant_was_looked(). */
static inline bool grant_was_known(const struct grant_file *grant, unsigned gpu, uint32_t look_wanted)
{
	uint64_t known = atomic_load(&grant->live[gpu].known_for);

	return known ? (int32_t)((uint32_t)known - look_wanted) >= 0
		     : grant_was_looked(grant, gpu, look_wanted);
}
