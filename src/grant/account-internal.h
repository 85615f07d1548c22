/* account-internal.h - declarations that the source files of an account share. */
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include "grant/account.h"
#include "grant/owner.h"

/* In a child of fork() every byte is zero, whatever the threads of its parent were doing. So the child has no
 * slot and holds no lock. */
struct process {
	pid_t pid; /* compared with getpid() only where the kernel cannot clear the page in a child */
	_Atomic uint32_t has_slot;
	uint32_t slot;
	_Atomic int slot_lock;
	_Atomic int locks[GRANT_FILE_GPUS_MAX];
	struct owner self;
	_Atomic int64_t looked_ns; /* time of the last complete search for dead processes */
	_Atomic uint64_t paused;   /* the pause for which this process has already waited in vain */
	_Atomic uint32_t is_loose;
};

struct account {
	const struct grant_file *grant;
	struct usage_file *usage;
	struct process *process;
	bool kernel_clears;
	char *usage_path; /* NULL: account_set_path() was not called */
};

/* process_of() - the calling process's own part. */
static inline struct process *process_of(struct account *account)
{
	struct process *process = account->process;

	if (__builtin_expect(!account->kernel_clears, 0) && process->pid != getpid())
		*process = (struct process){.pid = getpid()};
	return process;
}

static inline uint64_t pages_of(uint64_t bytes)
{
	return (bytes >> USAGE_PAGE_SHIFT) + ((bytes & ((1 << USAGE_PAGE_SHIFT) - 1)) != 0);
}
