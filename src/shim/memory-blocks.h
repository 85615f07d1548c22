/* memory-blocks.h - the blocks of 2 MiB that small allocations of a context share.
 *
 * The address of an allocation shows its block. A block is charged once, from its first allocation to its
 * last. Its allocations are not single objects: two bits for each 256 bytes mark where an allocation begins
 * and where it ends. So consecutive allocations of a program are close together here too, and are found
 * without a cache miss for each.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shim/memory-contexts.h"

/* block_holds() - whether an allocation of this size and address is one that shares a block. */
bool block_holds(uint64_t address, uint64_t size);

/* block_join() - the driver has placed a new allocation there, for which block_holds() is true. *ret_paid
 * false: the block is not charged yet. Then the caller charges it and calls block_pay(). If the charge is
 * refused, it calls block_take() and block_leave(). -ENOMEM: out of memory. */
int block_join(const struct memory_here *here, uint64_t address, uint64_t size, bool *ret_paid);

/* block_pay() - marks the block as charged. False: another thread that joined the block meanwhile has already
 * charged it. */
bool block_pay(const struct memory_here *here, uint64_t address);

/* block_find() - finds the allocation that begins at this address: where it was allocated, and its size
 * rounded up to 256 bytes. block_take() - the same, and hides the allocation, like objects_take() before the
 * driver's free. Its room stays taken until block_leave(). block_restore() - shows it again, if the driver
 * did not free it. */
bool block_find(uint64_t address, struct memory_here *ret_here, uint64_t *ret_size);
bool block_take(uint64_t address, struct memory_here *ret_here, uint64_t *ret_size);
void block_restore(const struct memory_here *here, uint64_t address, uint64_t size);

/* block_leave() - releases what block_take() has found. True: it was the last allocation in a block that is
 * charged, and the caller gives that charge back. */
bool block_leave(const struct memory_here *here, uint64_t address, uint64_t size);
