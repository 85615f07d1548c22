/* memory-blocks.h - the blocks of 2 MiB that small allocations of a context share.
 *
 * Which block an allocation is in shows in its address. A block is charged once, from its first allocation to
 * its last. It has no object for each of its allocations, but two bits for each 256 bytes: where an
 * allocation begins, and where it ends. So what a program has allocated in a row lies together here too, and
 * is found without a cache miss for each.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shim/memory-contexts.h"

/* block_holds() - whether an allocation of this size and address is one that shares a block. */
bool block_holds(uint64_t address, uint64_t size);

/* block_join() - the driver has put a new allocation there, for which block_holds() is true. *ret_paid false:
 * the block is not charged yet. Then the caller charges it, and calls block_pay(); or takes and leaves it
 * again, if that is refused. -ENOMEM. */
int block_join(const struct memory_here *here, uint64_t address, uint64_t size, bool *ret_paid);

/* block_pay() - the block is charged. False: it was already, by another thread that joined it meanwhile. */
bool block_pay(const struct memory_here *here, uint64_t address);

/* block_find() - the allocation that begins at this address: where it was allocated, and its size, rounded up
 * to 256 bytes. block_take() - the same, and from now on it is not found: as objects_take() before the
 * driver's free. Its room stays taken until block_leave(). block_restore() - it is found again: the driver
 * did not free it. */
bool block_find(uint64_t address, struct memory_here *ret_here, uint64_t *ret_size);
bool block_take(uint64_t address, struct memory_here *ret_here, uint64_t *ret_size);
void block_restore(const struct memory_here *here, uint64_t address, uint64_t size);

/* block_leave() - what block_take() has found is free. True if it was the last in a block that is charged:
 * the caller gives that back. */
bool block_leave(const struct memory_here *here, uint64_t address, uint64_t size);
