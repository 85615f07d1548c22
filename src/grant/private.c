#include "grant/private.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

static void futex(_Atomic int *at, int operation, int value)
{
	int saved = errno;

	syscall(SYS_futex, at, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
	errno = saved;
}

/* 0 free, 1 held, 2 held and waited for: Drepper, "Futexes Are Tricky", mutex2. Not libc's: pthread's symbols
 * moved between versions of glibc. */
void private_lock(_Atomic int *lock)
{
	int expected = 0;

	if (atomic_compare_exchange_strong(lock, &expected, 1))
		return;
	while (atomic_exchange(lock, 2) != 0)
		futex(lock, FUTEX_WAIT, 2);
}

void private_unlock(_Atomic int *lock)
{
	if (atomic_exchange(lock, 0) == 2)
		futex(lock, FUTEX_WAKE, 1);
}
