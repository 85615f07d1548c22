#include "sim/state/process-locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/state/file.h"

#define NAME "processes"
#define MAPPED 4096 /* any page of the file; it only has to be mapped */

struct claim;

struct process_locks {
	struct process_locks *opened_before;
	char *root;
	dev_t device;
	ino_t inode;
	_Atomic int fd; /* holds our POSIX locks */
	_Atomic int
		probe_fd; /* queries locks: on a second descriptor even our own process's locks are visible */
	struct claim *claims;
};

/* Usually a process has one claim. */
struct claim {
	struct claim *next;
	off_t offset;
	pid_t pid;
	void *life; /* keeps the lock of the second byte */
};

static int set_lock(int fd, int command, off_t offset, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};

	return fcntl(fd, command, &lock) < 0 ? -errno : 0;
}

static int open_same(const struct process_locks *locks)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	bool writable;

	fd = sim_file_open(locks->root, NAME, &writable);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || st.st_dev != locks->device || st.st_ino != locks->inode)
		return -ESTALE;
	return TAKE_FD(&fd);
}

static void lock_claims(const struct process_locks *locks)
{
	for (const struct claim *claim = locks->claims; claim; claim = claim->next)
		if (claim->pid == getpid())
			(void)set_lock(atomic_load(&locks->fd), F_SETLK, claim->offset, F_WRLCK);
}

/* Returns the descriptor. Opens it again if the program has closed it or uses its number for another file. */
static int descriptor(struct process_locks *locks, _Atomic int *which)
{
	int fd = atomic_load(which);
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_dev == locks->device && st.st_ino == locks->inode)
		return fd;
	fd = open_same(locks);
	if (fd < 0)
		return fd;
	atomic_store(which, fd);
	/* The program's close() has dropped our POSIX locks. */
	if (which == &locks->probe_fd)
		(void)descriptor(locks, &locks->fd);
	lock_claims(locks);
	return fd;
}

/* They are never closed. */
static _Atomic(struct process_locks *) opened;

int process_locks_open(const char *root, struct process_locks **ret_locks)
{
	_cleanup_free_ struct process_locks *locks = calloc(1, sizeof(*locks));
	_cleanup_free_ char *copy = strdup(root);
	struct stat st;
	bool writable;
	int fd;

	if (!locks || !copy)
		return -ENOMEM;
	fd = sim_file_open(root, NAME, &writable);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	locks->device = st.st_dev;
	locks->inode = st.st_ino;
	locks->fd = fd;
	locks->root = copy;
	locks->probe_fd = open_same(locks);
	if (locks->probe_fd < 0)
		return locks->probe_fd;
	TAKE_PTR(copy);
	locks->opened_before = atomic_exchange(&opened, locks);
	*ret_locks = TAKE_PTR(locks);
	return 0;
}

/* Locks the second byte for as long as *ret_life is mapped. */
static int claim_life(const struct process_locks *locks, off_t offset, void **ret_life)
{
	_cleanup_close_ int fd = open_same(locks);
	void *life;
	int r;

	if (fd < 0)
		return fd;
	r = set_lock(fd, F_OFD_SETLK, offset + 1, F_WRLCK);
	if (r < 0)
		return r == -EACCES ? -EAGAIN : r;
	life = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, fd, 0);
	if (life == MAP_FAILED)
		return -errno;
	if (madvise(life, MAPPED, MADV_DONTFORK) < 0) {
		munmap(life, MAPPED);
		return -EINVAL;
	}
	*ret_life = life;
	return 0;
}

int process_locks_claim(struct process_locks *locks, off_t offset)
{
	_cleanup_free_ struct claim *claim = calloc(1, sizeof(*claim));
	int fd, r;

	if (!claim)
		return -ENOMEM;
	r = claim_life(locks, offset, &claim->life);
	/* claim_life() has opened and closed the file, so all our POSIX locks are gone. */
	lock_claims(locks);
	if (r < 0)
		return r;
	fd = descriptor(locks, &locks->fd);
	r = fd < 0 ? fd : set_lock(fd, F_SETLK, offset, F_WRLCK);
	if (r < 0) {
		munmap(claim->life, MAPPED);
		return r == -EACCES ? -EAGAIN : r;
	}
	claim->offset = offset;
	claim->pid = getpid();
	claim->next = locks->claims;
	locks->claims = TAKE_PTR(claim);
	return 0;
}

void process_locks_drop(struct process_locks *locks, off_t offset)
{
	int fd = descriptor(locks, &locks->fd);

	for (struct claim **at = &locks->claims; *at; at = &(*at)->next)
		if ((*at)->offset == offset) {
			struct claim *claim = *at;

			*at = claim->next;
			if (claim->pid == getpid()) /* a child has no copy of the mapping */
				munmap(claim->life, MAPPED);
			free(claim);
			break;
		}
	if (fd >= 0)
		(void)set_lock(fd, F_SETLK, offset, F_UNLCK);
}

int process_locks_hold(struct process_locks *locks, off_t offset)
{
	int fd = descriptor(locks, &locks->fd);
	int r = fd < 0 ? fd : set_lock(fd, F_SETLK, offset, F_WRLCK);

	return r == -EACCES ? -EAGAIN : r;
}

void process_locks_release(struct process_locks *locks, off_t offset)
{
	int fd = descriptor(locks, &locks->fd);

	if (fd >= 0)
		(void)set_lock(fd, F_SETLK, offset, F_UNLCK);
}

int process_locks_owner(struct process_locks *locks, off_t offset, pid_t *ret_pid)
{
	int fd = descriptor(locks, &locks->probe_fd);
	pid_t pid = 0;

	for (off_t byte = 0; fd >= 0 && byte < 2; byte++) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset + byte, .l_len = 1};

		if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
			break;
		if (lock.l_type != F_UNLCK) {
			pid = lock.l_pid > 0 ? lock.l_pid : 0;
			break;
		}
		if (byte == 1)
			return -ESRCH;
	}
	*ret_pid = pid;
	return 0;
}
