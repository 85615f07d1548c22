/* memory.h - what all memory hooks use: a charge before the driver is called, which is given back if the call
 * fails.
 *
 * There is one file for each way to get memory: memory-linear.c, -arrays.c, -virtual.c, -pools.c, -async.c,
 * -graphs.c, -shared.c. docs/internals/charging.md says how each call is charged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "grant/account.h"

/* The driver takes memory in blocks of 2 MiB, which small requests share. Both are assumptions until they are
 * measured on a GPU. What the driver takes beyond them is overhead, which the keeper finds. */
#define MEMORY_BLOCK (UINT64_C(2) << 20)
#define MEMORY_SMALL_MAX (UINT64_C(1) << 20)
#define MEMORY_SMALL_UNIT UINT64_C(512)

/* memory_rounded() - rounds up to whole blocks; UINT64_MAX on overflow. */
static inline uint64_t memory_rounded(uint64_t bytes)
{
	return bytes > UINT64_MAX - MEMORY_BLOCK ? UINT64_MAX
						 : (bytes + MEMORY_BLOCK - 1) & ~(MEMORY_BLOCK - 1);
}

/* memory_enter() - begins a call that changes what the driver holds for this process, and charges `bytes`
 * first (0: nothing); account_enter(). The call lasts until memory_leave(). CUDA_ERROR_OUT_OF_MEMORY: nothing
 * is charged, the call has not begun, and the reason is logged. memory_enter_uncharged() - the same for a
 * call that only gives memory back. */
CUresult memory_enter(unsigned gpu, uint64_t bytes);
void memory_enter_uncharged(void);
void memory_leave(void);

/* memory_has_room() - account_has_room(). With 0 bytes: whether the charge is within the limit. */
bool memory_has_room(unsigned gpu, uint64_t bytes);

/* memory_try_enter() - memory_enter() if there clearly is room. False: the call has not begun. */
bool memory_try_enter(unsigned gpu, uint64_t bytes);

/* memory_has_plenty() - whether there is room for a call that takes `most`, even if each call that no sample
 * has seen yet takes `each`. */
bool memory_has_plenty(unsigned gpu, uint64_t most, uint64_t each);

/* memory_begin_turn() - account_begin_turn(), called before the call begins. False: the turn cannot be
 * had. */
bool memory_begin_turn(unsigned gpu, enum account_turn which);
void memory_end_turn(unsigned gpu, enum account_turn which);

/* memory_is_loose() - account_is_loose(). */
void memory_is_loose(void);

/* memory_change_surplus() - account_change_surplus(). */
void memory_change_surplus(unsigned gpu, int64_t bytes);

/* memory_try_charge() - charges more within such a call, if there clearly is room. */
bool memory_try_charge(unsigned gpu, uint64_t bytes);

/* memory_charge() - charges more within such a call. CUDA_ERROR_OUT_OF_MEMORY as above. */
CUresult memory_charge(unsigned gpu, uint64_t bytes);
/* memory_charge_once() - memory_charge() without a check whether this process's pools have shrunk
 * meanwhile. */
CUresult memory_charge_once(unsigned gpu, uint64_t bytes);
/* memory_charge_beyond() - charges what the driver has already taken, whatever the limit:
 * account_charge_beyond(). */
void memory_charge_beyond(unsigned gpu, uint64_t bytes);
void memory_refund(unsigned gpu, uint64_t bytes);

/* memory_recharge() - changes a charge from one number of bytes to another, which only the driver's answer
 * has shown. */
CUresult memory_recharge(unsigned gpu, uint64_t from, uint64_t to);
