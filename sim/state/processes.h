/* processes.h - which processes use which GPU, and how much of its memory: one mapped file,
 * DIR/state/processes.
 *
 * memory.h changes the sum of a GPU; this file lists the processes and what each holds. A process owns the
 * slot on whose first bytes it holds locks, which end with the process: process-locks.h. sim_processes_open()
 * is called once per process and library.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/state/layout.h"
#include "sim/state/lock.h"

#define SIM_PROCESSES_MAGIC UINT64_C(0x31505344534e5352) /* "RSNSDSP1" as little-endian bytes */
#define SIM_PROCESSES_VERSION 3
#define SIM_MAX_PROCESSES 1024
#define SIM_MAX_SHARED 2048

struct sim_process {
	_Atomic uint32_t pid; /* in the owner's own pid namespace; 0: the slot is free */
	uint32_t reserved0;
	uint64_t pid_namespace;		/* inode of /proc/self/ns/pid */
	uint64_t start_ticks;		/* field 22 of /proc/self/stat */
	_Atomic uint64_t before, after; /* claim.c: the old and the new value of the word in bytes[] */
	uint8_t reserved1[24];
	/* The process's own memory, without the table of shared memory below: sim_process_bytes(). The upper
	 * bits count the changes, so that no word occurs twice. */
	_Atomic uint64_t bytes[SIM_MAX_GPUS];
};

#define SIM_BYTES_BITS 42 /* 4 TiB */

/* Memory that several processes can hold. It is on the GPU once. */
struct sim_shared_memory {
	_Atomic uint64_t id; /* 0: free; no id is used twice */
	_Atomic uint64_t bytes;
	_Atomic uint32_t gpu;
	uint32_t reserved;
	_Atomic uint64_t holders[SIM_MAX_PROCESSES / 64]; /* a bit per slot */
};

struct sim_process_table {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this struct */
	_Atomic uint64_t next_id;
	_Atomic uint32_t slot_count,
		shared_count; /* how many of each were ever in use; the others need not be read */
	uint8_t reserved[32];
	struct sim_process slots[SIM_MAX_PROCESSES];
	struct sim_shared_memory shared[SIM_MAX_SHARED];
	_Atomic uint64_t
		claims[SIM_MAX_GPUS]; /* claim.h: the process whose change of the GPU's sum is under way */
	struct sim_lock locks[SIM_MAX_GPUS]; /* of the GPU's entries in shared[] */
};

_Static_assert(sizeof(struct sim_process) == 64 + 8 * SIM_MAX_GPUS, "size of a slot is part of the layout");
_Static_assert(sizeof(struct sim_shared_memory) == 24 + SIM_MAX_PROCESSES / 8, "layout");
_Static_assert(offsetof(struct sim_process, bytes) == 64, "layout");
_Static_assert(offsetof(struct sim_process_table, slots) == 64, "layout");

struct process_locks;

struct sim_processes {
	struct sim_process_table *table;
	struct process_locks *locks;
	bool writable;
};

/* What a reader sees of a process. pid 0: it is in a pid namespace that the reader cannot see. */
struct sim_process_view {
	pid_t pid;
	uint64_t bytes;
	size_t slot;
};

/* sim_processes_open() - -ENOENT: no such tree; -EBADMSG: not our file. A file that cannot be written can
 * still be read, as in an agent that has the driver mounted read-only. Its descriptors are never closed. */
int sim_processes_open(const char *root, struct sim_processes *ret_processes);

/* sim_processes_prepare() - initialises a table in memory that is written to a file. */
void sim_processes_prepare(struct sim_process_table *table);

/* sim_processes_claim() - takes a slot for this process. -EBUSY: the table is full; -EACCES: it cannot be
 * written. */
int sim_processes_claim(const struct sim_processes *processes, struct sim_process **ret_slot);
void sim_processes_release(const struct sim_processes *processes, struct sim_process *slot);

/* sim_process_bytes() - GPU memory that only this process holds. */
uint64_t sim_process_bytes(const struct sim_process *slot, unsigned gpu);
/* sim_bytes_word() - the word with this number of bytes that follows `before`. */
uint64_t sim_bytes_word(uint64_t before, uint64_t bytes);

/* sim_shared_held() - whether a living process other than `except` holds the memory. SIM_MAX_PROCESSES: no
 * exception. */
bool sim_shared_held(
	const struct sim_processes *processes, const struct sim_shared_memory *shared, size_t except);

/* sim_processes_list() - living processes that hold memory of the GPU. Fills at most max views and returns
 * the total number. Frees the slots of dead processes. */
size_t sim_processes_list(
	const struct sim_processes *processes, unsigned gpu, struct sim_process_view *ret_views, size_t max);

/* sim_processes_used() - bytes of the GPU that living processes hold; memory that several hold counts
 * once. */
uint64_t sim_processes_used(const struct sim_processes *processes, unsigned gpu);

/* sim_process_alive() - whether the owner of the slot lives. *ret_pid is 0 if its pid namespace cannot be
 * seen. Frees the slot of a dead process. */
bool sim_process_alive(const struct sim_processes *processes, struct sim_process *slot, pid_t *ret_pid);

/* sim_process_slots(), sim_shared_slots() - the number of entries to read, bounded, because containers can
 * write the table. */
size_t sim_process_slots(const struct sim_process_table *table);
size_t sim_shared_slots(const struct sim_process_table *table);
/* sim_raise() - raises *count to at least `least`. */
void sim_raise(_Atomic uint32_t *count, size_t least);
