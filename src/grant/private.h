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

/* private_lock() - held for a few instructions, never while the driver is called. */
void private_lock(_Atomic int *lock);
void private_unlock(_Atomic int *lock);
