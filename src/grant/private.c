#include "grant/private.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

static size_t whole_pages(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) & ~(page - 1);
}

void *private_map(size_t size, bool *ret_cleared)
{
	void *map = mmap(NULL, whole_pages(size), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return NULL;
	*ret_cleared = madvise(map, whole_pages(size), MADV_WIPEONFORK) == 0;
	return map;
}

void private_unmap(void *map, size_t size)
{
	if (map)
		munmap(map, whole_pages(size));
}

static void futex(_Atomic int *at, int operation, int value, const struct timespec *timeout)
{
	int saved = errno;

	syscall(SYS_futex, at, operation | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
	errno = saved;
}

/* Drepper, "Futexes Are Tricky", mutex2. Not libc's mutex, because the symbols of pthread moved between
 * versions of glibc. */
void private_lock_awaited(_Atomic int *lock)
{
	static const struct timespec missed_wake = {.tv_nsec = 1000000};

	while (atomic_exchange_explicit(lock, 2, memory_order_acquire) != 0)
		futex(lock, FUTEX_WAIT, 2, &missed_wake);
}

void private_unlock_awaited(_Atomic int *lock)
{
	futex(lock, FUTEX_WAKE, 1, NULL);
}
