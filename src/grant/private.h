/* private.h - memory and locks of one process that are new in a child of fork().
 *
 * The child is made in the middle of whatever its parent's threads are doing: a lock may be held, a table
 * half changed. Nobody need be told of the fork: the kernel gives the child zeros. All zeros must be a good
 * beginning.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* private_map() - at least size bytes of zeros. *ret_cleared: false where the kernel cannot clear them in a
 * child (before Linux 4.14). NULL: no memory. */
void *private_map(size_t size, bool *ret_cleared);
void private_unmap(void *map, size_t size);

/* private_map_once() - the map at *at, which the first thread that asks makes. NULL: no memory. */
static inline void *private_map_once(void **at, size_t size)
{
	void *made = __atomic_load_n(at, __ATOMIC_ACQUIRE), *expected = NULL;
	bool cleared;

	if (made)
		return made;
	made = private_map(size, &cleared);
	if (!made ||
		__atomic_compare_exchange_n(at, &expected, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	private_unmap(made, size);
	return expected;
}

/* private_lock() - held for a few instructions. The driver is called only under that of reserves_lock(). 0:
 * free, 1: held, 2: held, and another thread waits. */
void private_lock_awaited(_Atomic int *lock);
void private_unlock_awaited(_Atomic int *lock);

static inline void private_lock(_Atomic int *lock)
{
	int expected = 0;

	if (!atomic_compare_exchange_strong_explicit(
		    lock, &expected, 1, memory_order_acquire, memory_order_relaxed))
		private_lock_awaited(lock);
}

/* A load and a store, since one atomic exchange would cost as much as most of what is done under the lock. A
 * thread that begins to wait between the two is not woken, and wakes by itself a millisecond later. */
static inline void private_unlock(_Atomic int *lock)
{
	int before = atomic_load_explicit(lock, memory_order_relaxed);

	atomic_store_explicit(lock, 0, memory_order_release);
	if (__builtin_expect(before != 1, 0))
		private_unlock_awaited(lock);
}
