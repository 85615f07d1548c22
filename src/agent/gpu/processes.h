/* processes.h - finds the pod and the container of each process that uses a GPU. What was read about a
 * process is kept while it lives; its pidfd reports the end, so that a sample needs no system call for each
 * process. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/gpu/cgroup.h"
#include "grant/overhead.h"

#define PROCESSES_MAX 2048

struct process {
	pid_t pid;
	int verdict; /* result of cgroup_parse(); 0: `place` is filled */
	struct cgroup_place place;
	struct owner owner; /* its identity in a slot of the usage file; image is 0, see process_image() */

	int pidfd;	 /* -1: the kernel has no pidfds (before 5.3), so nothing is kept */
	int64_t read_ns; /* when this was read */
};

struct processes;
struct watched_part;

/* processes_new() - proc: the folder with the host's processes, "/proc". */
int processes_new(const char *proc, struct processes **ret_processes);
void processes_free(struct processes *processes); /* accepts NULL */

/* processes_now() - the present time in the unit of processes_get(). */
uint64_t processes_now(void);

/* processes_begin() - forgets processes that have ended. Pointers to these are invalid afterwards. */
void processes_begin(struct processes *processes);

/* processes_get() - the process that had this pid at the time `at`. NULL: it has ended, it cannot be read, or
 * another process has the pid now. Valid until processes_begin(). */
const struct process *processes_get(struct processes *processes, pid_t pid, uint64_t at);

/* processes_note_dead() - calls outside_note_dead(). */
bool processes_note_dead(const struct processes *processes, struct watched_part *gpu,
	const struct usage_peek_slot *slots, size_t n_slots, const struct overhead_process *listed,
	size_t n_listed);

/* process_name() - the process's own name (comm), made printable; "?" if it has ended. */
#define PROCESS_NAME_SIZE 16
void process_name(const struct processes *processes, pid_t pid, char *ret_name);

/* process_image() - identifies the program that runs in it now (struct owner); 0 if that cannot be read. */
uint64_t process_image(const struct processes *processes, pid_t pid);
