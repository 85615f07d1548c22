/* memory.h - what the hooks of memory share: a charge before the driver is called, given back if it fails.
 *
 * One file per way to get memory: memory-linear.c, -arrays.c, -virtual.c, -pools.c, -async.c, -graphs.c,
 * -shared.c.
 * Which of the driver's calls are charged how is docs/internals/charging.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "grant/account.h"

/* The driver takes memory in blocks of 2 MiB; small requests share them. Both are assumptions until they are
 * measured on a GPU; what the driver takes beyond them is overhead, which the keeper finds. */
#define MEMORY_BLOCK (UINT64_C(2) << 20)
#define MEMORY_SMALL_MAX (UINT64_C(1) << 20)
#define MEMORY_SMALL_UNIT UINT64_C(512)

/* memory_rounded() - up to whole blocks; UINT64_MAX where that is no number any more. */
static inline uint64_t memory_rounded(uint64_t bytes)
{
	return bytes > UINT64_MAX - MEMORY_BLOCK ? UINT64_MAX
						 : (bytes + MEMORY_BLOCK - 1) & ~(MEMORY_BLOCK - 1);
}

/* memory_enter() - begins a call that changes what the driver has of this process, with what is to be charged
 * before (0: nothing), until memory_leave(): account_enter(). CUDA_ERROR_OUT_OF_MEMORY: nothing is charged,
 * the call has not begun, and the reason is logged. memory_enter_uncharged() - the same for what only gives
 * back. */
CUresult memory_enter(unsigned gpu, uint64_t bytes);
void memory_enter_uncharged(void);
void memory_leave(void);

/* memory_has_room() - account_has_room(). 0 bytes: what is charged is within the limit. */
bool memory_has_room(unsigned gpu, uint64_t bytes);

/* memory_try_enter() - as memory_enter() where there is plainly room. False: the call has not begun. */
bool memory_try_enter(unsigned gpu, uint64_t bytes);

/* memory_has_plenty() - whether there is room for a call that takes `most`, even if each of those of which no
 * sample knows yet takes `each`. */
bool memory_has_plenty(unsigned gpu, uint64_t most, uint64_t each);

/* memory_begin_turn() - account_begin_turn(); before the call begins. False: it cannot be had. */
bool memory_begin_turn(unsigned gpu, enum account_turn which);
void memory_end_turn(unsigned gpu, enum account_turn which);

/* memory_is_loose() - account_is_loose(). */
void memory_is_loose(void);

/* memory_change_surplus() - account_change_surplus(). */
void memory_change_surplus(unsigned gpu, int64_t bytes);

/* memory_try_charge() - more, within such a call, where there is plainly room. */
bool memory_try_charge(unsigned gpu, uint64_t bytes);

/* memory_charge() - more, within such a call. CUDA_ERROR_OUT_OF_MEMORY as above. */
CUresult memory_charge(unsigned gpu, uint64_t bytes);
/* memory_charge_once() - without a look whether this process's pools have shrunk meanwhile. */
CUresult memory_charge_once(unsigned gpu, uint64_t bytes);
/* memory_charge_beyond() - what the driver has already, whatever the limit: account_charge_beyond(). */
void memory_charge_beyond(unsigned gpu, uint64_t bytes);
void memory_refund(unsigned gpu, uint64_t bytes);

/* memory_recharge() - from one number of bytes to another, which is known only when the driver has answered.
 */
CUresult memory_recharge(unsigned gpu, uint64_t from, uint64_t to);
