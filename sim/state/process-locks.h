/* process-locks.h - a locked byte of the file of processes shows that a process lives: the kernel releases a
 * process's locks when it ends.
 *
 * Each slot has two bytes. On the first one the owner has a POSIX record lock. F_GETLK tells each reader the
 * owner's pid in the reader's own pid namespace (Linux >= 4.14, fs/locks.c:locks_translate_pid), which is how
 * NVML shows pids in containers. But such locks are dropped when the process closes ANY descriptor of the
 * file.
 *
 * On the second byte it has a lock of an open file description, which a mapping keeps open (mm/mmap.c: a
 * mapping holds its file). So a program that closes all descriptors, as daemons do, still counts as living.
 * Its pid is then the one in its slot, for readers of its own pid namespace. fork() inherits neither lock:
 * the mapping is not copied.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct process_locks;

/* process_locks_open() - opens the locks of the file root/state/processes. They are never closed. */
int process_locks_open(const char *root, struct process_locks **ret_locks);

/* process_locks_claim() - the two bytes at the offset belong to this process until it ends or calls
 * process_locks_drop(). -EAGAIN: another process has them. */
int process_locks_claim(struct process_locks *locks, off_t offset);
void process_locks_drop(struct process_locks *locks, off_t offset);

/* process_locks_hold() - locks the first byte for a moment, to change what a dead process has left.
 * -EAGAIN. */
int process_locks_hold(struct process_locks *locks, off_t offset);
void process_locks_release(struct process_locks *locks, off_t offset);

/* process_locks_owner() - *ret_pid is 0 if it cannot be determined. -ESRCH: the owner has ended. If the file
 * cannot be queried, the owner counts as living. */
int process_locks_owner(struct process_locks *locks, off_t offset, pid_t *ret_pid);
