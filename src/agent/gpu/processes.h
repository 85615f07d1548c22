/* processes.h - the processes that use GPUs: which pod and container each is of. What is read of one is kept
 * as long as it lives, which its pidfd tells without a system call for each. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/gpu/cgroup.h"
#include "grant/overhead.h"

#define PROCESSES_MAX 2048

struct process {
	pid_t pid;
	int verdict; /* of cgroup_parse(): 0: `place` is filled */
	struct cgroup_place place;
	struct owner owner; /* as it signs a slot of its usage file; image: 0, see process_image() */

	int pidfd;	 /* -1: the kernel has none (before 5.3), so nothing is kept */
	int64_t read_ns; /* when */
};

struct processes;
struct watched_part;

/* processes_new() - proc: where the host's processes are, "/proc". */
int processes_new(const char *proc, struct processes **ret_processes);
void processes_free(struct processes *processes); /* accepts NULL */

/* processes_now() - the time as processes_get() wants it. */
uint64_t processes_now(void);

/* processes_begin() - forget who has ended. Pointers to those are invalid then. */
void processes_begin(struct processes *processes);

/* processes_get() - the process that had this pid at that time; NULL if it has ended, cannot be read, or if
 * another one has the pid by now. Valid until processes_begin(). */
const struct process *processes_get(struct processes *processes, pid_t pid, uint64_t at);

/* processes_note_dead() - outside_note_dead(). */
bool processes_note_dead(const struct processes *processes, struct watched_part *gpu,
	const struct usage_peek_slot *slots, size_t n_slots, const struct overhead_process *listed,
	size_t n_listed);

/* process_name() - what it calls itself, made printable. "?" if it has ended. */
#define PROCESS_NAME_SIZE 16
void process_name(const struct processes *processes, pid_t pid, char *ret_name);

/* process_image() - which program runs in it now (struct owner); 0 if that cannot be known. */
uint64_t process_image(const struct processes *processes, pid_t pid);
