/* process-locks.h - a byte of the file of processes says that a process lives: the kernel takes its locks
 * when it ends.
 *
 * Each slot has two bytes. On the first the owner has a POSIX record lock: F_GETLK tells each reader the
 * owner's pid in the reader's own pid namespace (Linux >= 4.14, fs/locks.c:locks_translate_pid), which is how
 * NVML shows pids in containers. Such locks are dropped when the process closes ANY descriptor of the file.
 * On the second it has a lock of an open file description that a mapping keeps open (mm/mmap.c: a mapping
 * holds its file), so a program that closes all descriptors, as daemons do, still lives; its pid is then the
 * one in its slot, for readers of its own pid namespace. Neither is inherited by fork: the mapping is not
 * copied.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct process_locks;

/* process_locks_open() - of the file root/state/processes. The locks stay open for good. */
int process_locks_open(const char *root, struct process_locks **ret_locks);

/* process_locks_claim() - the two bytes at the offset are this process's until it ends or calls
 * process_locks_drop(). -EAGAIN: they are another's. */
int process_locks_claim(struct process_locks *locks, off_t offset);
void process_locks_drop(struct process_locks *locks, off_t offset);

/* process_locks_hold() - the first byte for a moment, to change what a dead process has left. -EAGAIN. */
int process_locks_hold(struct process_locks *locks, off_t offset);
void process_locks_release(struct process_locks *locks, off_t offset);

/* process_locks_owner() - *ret_pid is 0 where it cannot be told. -ESRCH: the owner has ended. Where the file
 * cannot be asked the owner is taken to live. */
int process_locks_owner(struct process_locks *locks, off_t offset, pid_t *ret_pid);
