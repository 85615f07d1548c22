/* processes.h - who uses which card, and how much of its memory: one mapped file, DIR/state/processes.
 *
 * A process owns the slot on whose first byte it holds a POSIX record lock. That lock ends with the process,
 * is not inherited by fork, and F_GETLK tells each reader the owner's pid in the reader's own pid namespace
 * (Linux >= 4.14, fs/locks.c:locks_translate_pid) - which is how NVML shows pids in containers. POSIX locks
 * are dropped when the process closes ANY descriptor of the file, so a process that has opened the table
 * never closes it; sim_processes_open() is called once per process and library.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/state/layout.h"

#define SIM_PROCESSES_MAGIC UINT64_C(0x31505344534e5352) /* "RSNSDSP1" as little-endian bytes */
#define SIM_PROCESSES_VERSION 1
#define SIM_MAX_PROCESSES 1024

struct sim_process {
	_Atomic uint32_t pid; /* in the owner's own pid namespace; 0: the slot is free */
	uint32_t reserved0;
	uint64_t pid_namespace; /* inode of /proc/self/ns/pid */
	uint64_t start_ticks;	/* field 22 of /proc/self/stat */
	uint8_t reserved1[40];
	_Atomic uint64_t bytes[SIM_MAX_CARDS]; /* written by the owner only */
};

struct sim_process_table {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this struct */
	uint8_t reserved[48];
	struct sim_process slots[SIM_MAX_PROCESSES];
};

_Static_assert(sizeof(struct sim_process) == 64 + 8 * SIM_MAX_CARDS, "size of a slot is part of the layout");
_Static_assert(offsetof(struct sim_process, bytes) == 64, "layout");
_Static_assert(offsetof(struct sim_process_table, slots) == 64, "layout");

struct sim_processes {
	struct sim_process_table *table;
	int fd;
};

/* What a reader is told of a process. pid 0: it lives in a pid namespace that the reader cannot see. */
struct sim_process_view {
	pid_t pid;
	uint64_t bytes;
};

/* sim_processes_open() - -ENOENT: no such tree; -EBADMSG: not our file; -EACCES: not writable (without which
 * neither a lock nor the table can be had). The descriptor stays open for good. */
int sim_processes_open(const char *root, struct sim_processes *ret_processes);

/* sim_processes_claim() - take a slot for this process. -EBUSY: the table is full. */
int sim_processes_claim(const struct sim_processes *processes, struct sim_process **ret_slot);
void sim_processes_release(const struct sim_processes *processes, struct sim_process *slot);

/* sim_processes_list() - living processes that hold memory of the card; fills at most max views, returns how
 * many there are. Frees the slots of the dead. */
size_t sim_processes_list(
	const struct sim_processes *processes, unsigned card, struct sim_process_view *ret_views, size_t max);

/* sim_processes_used() - bytes of the card that living processes hold. */
uint64_t sim_processes_used(const struct sim_processes *processes, unsigned card);
