/* private.h - memory and locks of one process that are fresh in a child of fork().
 *
 * fork() happens in the middle of whatever the parent's threads are doing: a lock may be held, a table half
 * changed. No fork handler is needed, because the kernel gives the child zeros. All zeros must therefore be a
 * valid initial state.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* private_map() - maps at least size bytes of zeros. *ret_cleared: false if the kernel cannot clear them in a
 * child (before Linux 4.14). NULL: out of memory. */
void *private_map(size_t size, bool *ret_cleared);
void private_unmap(void *map, size_t size);

/* private_map_once() - the map at *at, which the first calling thread creates. NULL: out of memory. */
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

/* private_lock() - takes a lock that is held for a few instructions. Only under the lock of reserves_lock()
 * may the driver be called. 0: free, 1: held, 2: held, and another thread waits. */
void private_lock_awaited(_Atomic int *lock);
void private_unlock_awaited(_Atomic int *lock);

static inline void private_lock(_Atomic int *lock)
{
	int expected = 0;

	if (!atomic_compare_exchange_strong_explicit(
		    lock, &expected, 1, memory_order_acquire, memory_order_relaxed))
		private_lock_awaited(lock);
}

/* A load and a store, because one atomic exchange would cost nearly as much as the work under the lock. A
 * thread that begins to wait between the two is not woken; it wakes by itself a millisecond later. */
static inline void private_unlock(_Atomic int *lock)
{
	int before = atomic_load_explicit(lock, memory_order_relaxed);

	atomic_store_explicit(lock, 0, memory_order_release);
	if (__builtin_expect(before != 1, 0))
		private_unlock_awaited(lock);
}
