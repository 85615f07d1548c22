/* cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged and their frees.
 *
 * Requests up to 1 MiB share blocks of 2 MiB per context: charging 2 MiB for each would be out of memory long
 * before the card is. Which block a request went into shows in its address. A block that is known is paid
 * for; if one with enough room is known, the driver is called at once, else the next block is paid first. If
 * it used a new one nevertheless (its room was in pieces), that is paid afterwards, or freed again.
 */
#include "shim/memory-linear.h"

#include "shim/cuda-library.h"
#include "shim/memory-pools.h"
#include "shim/memory-shared.h"
#include "shim/memory.h"
#include "shim/objects.h"

#define BLOCK_UNITS ((int)(MEMORY_BLOCK / MEMORY_SMALL_UNIT))

static uint32_t small_units(uint64_t size)
{
	return (uint32_t)((size + MEMORY_SMALL_UNIT - 1) / MEMORY_SMALL_UNIT);
}

/* ---- blocks ---------------------------------------------------------------------------------------------
 */

struct block_change {
	struct memory_here here;
	int units; /* more, or less */
	bool begins, ends;
};

static bool change_block(struct object *block, void *context)
{
	struct block_change *change = context;
	int before = (int)block->count, after;

	/* Unknown, or left from a context that has ended. */
	change->begins = block->stamp != change->here.stamp;
	if (change->begins && change->units < 0)
		return block->stamp != 0;
	if (change->begins) {
		before = 0;
		block->stamp = change->here.stamp;
		block->index = change->here.index;
		block->card = change->here.card;
	}
	after = before + change->units;
	change->ends = after <= 0;
	block->count = change->ends ? 0 : (uint32_t)after;
	context_block_changed(&change->here, change->begins ? -1 : BLOCK_UNITS - before,
		change->ends ? -1 : BLOCK_UNITS - after);
	return !change->ends;
}

/* 0, and whether the block is a new one. */
static int block_join(const struct linear *linear, CUdeviceptr address, bool *ret_new)
{
	struct block_change change = {.here = linear->here, .units = (int)small_units(linear->size)};
	int r = objects_change(OBJECT_BLOCK, address / MEMORY_BLOCK, change_block, &change);

	if (r == 0)
		*ret_new = change.begins;
	return r;
}

/* True if it was the last in the block. */
static bool block_leave(const struct memory_here *here, CUdeviceptr address, uint32_t units)
{
	struct block_change change = {.here = *here, .units = -(int)units};

	return objects_change(OBJECT_BLOCK, address / MEMORY_BLOCK, change_block, &change) == 0 &&
	       change.ends;
}

/* ---- one allocation -------------------------------------------------------------------------------------
 */

CUresult linear_begin(struct linear *linear, uint64_t size)
{
	CUresult r;

	*linear = (struct linear){.size = size};
	if (!context_here(&linear->here))
		return CUDA_ERROR_INVALID_DEVICE;
	if (linear->here.stamp == 0 || size == 0)
		return CUDA_SUCCESS; /* the driver will say what is wrong */
	if (size > MEMORY_SMALL_MAX || !context_has_room(&linear->here, small_units(size)))
		linear->paid = memory_rounded(size);
	r = memory_enter(linear->here.card, linear->paid);
	linear->entered = r == CUDA_SUCCESS;
	return r;
}

static void linear_release(const struct object *pointer)
{
	struct memory_here here = context_of(pointer);

	if (!context_lives(&here))
		return;
	if (pointer->bytes > 0) {
		shared_freed(pointer->key);
		context_refunded(&here, pointer->bytes);
	} else if (block_leave(&here, pointer->key, pointer->count)) {
		shared_freed(pointer->key & ~(MEMORY_BLOCK - 1));
		context_refunded(&here, MEMORY_BLOCK);
	}
}

/* A small one in a block: what was paid is for the block if that is new, and not needed else. */
static CUresult settle_small(struct linear *linear, CUdeviceptr address)
{
	CUresult r = CUDA_SUCCESS;
	bool new_block = false;

	if (block_join(linear, address, &new_block) < 0) {
		memory_refund(linear->here.card, linear->paid);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (new_block && linear->paid == 0)
		r = memory_charge(linear->here.card, MEMORY_BLOCK);
	if (r == CUDA_SUCCESS && new_block)
		context_charged(&linear->here, MEMORY_BLOCK);
	else if (r == CUDA_SUCCESS)
		memory_refund(linear->here.card, linear->paid);
	else
		block_leave(&linear->here, address, small_units(linear->size));
	return r;
}

static bool is_in_block(const struct linear *linear, CUdeviceptr address)
{
	return linear->size <= MEMORY_SMALL_MAX &&
	       address / MEMORY_BLOCK == (address + linear->size - 1) / MEMORY_BLOCK;
}

static CUresult settle(struct linear *linear, CUdeviceptr address)
{
	CUresult r;

	if (is_in_block(linear, address))
		return settle_small(linear, address);
	r = memory_recharge(linear->here.card, linear->paid, memory_rounded(linear->size));
	linear->paid = memory_rounded(linear->size);
	if (r == CUDA_SUCCESS)
		context_charged(&linear->here, linear->paid);
	return r;
}

static CUresult end(struct linear *linear, CUresult r, CUdeviceptr address, enum object_kind kind)
{
	struct object pointer = {
		.kind = kind,
		.key = address,
		.card = linear->here.card,
		.stamp = linear->here.stamp,
		.index = linear->here.index,
		.count = small_units(linear->size),
	};

	if (r != CUDA_SUCCESS) {
		memory_refund(linear->here.card, linear->paid);
		return r;
	}
	r = settle(linear, address);
	if (r == CUDA_SUCCESS) {
		pointer.bytes = is_in_block(linear, address) ? 0 : linear->paid;
		if (objects_put(&pointer) == 0)
			return CUDA_SUCCESS;
		linear_release(&pointer);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	DRIVER(cuMemFree_v2)(address);
	return r;
}

CUresult linear_end(struct linear *linear, CUresult r, CUdeviceptr address, enum object_kind kind)
{
	if (!linear->entered)
		return r;
	r = end(linear, r, address, kind);
	memory_leave();
	return r;
}

CUresult linear_resize(struct linear *linear, uint64_t size)
{
	uint64_t paid = linear->paid;

	linear->size = size;
	if (linear->here.stamp == 0 || (size <= MEMORY_SMALL_MAX && paid <= MEMORY_BLOCK))
		return CUDA_SUCCESS;
	linear->paid = memory_rounded(size);
	if (memory_recharge(linear->here.card, paid, linear->paid) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	memory_refund(linear->here.card, paid);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- hooks ----------------------------------------------------------------------------------------------
 */

HOOK CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	struct linear linear;
	CUresult r = linear_begin(&linear, size);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuMemAlloc_v2)(address, size);
	return linear_end(&linear, r, r == CUDA_SUCCESS ? *address : 0, OBJECT_POINTER);
}

HOOK CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int size)
{
	struct linear linear;
	CUresult r = linear_begin(&linear, size);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuMemAlloc)(address, size);
	return linear_end(&linear, r, r == CUDA_SUCCESS ? *address : 0, OBJECT_POINTER);
}

/* Accounted in full: pages that are in the host's memory now may be in the card's the next moment. */
HOOK CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags)
{
	struct linear linear;
	CUresult r = linear_begin(&linear, size);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuMemAllocManaged)(address, size, flags);
	return linear_end(&linear, r, r == CUDA_SUCCESS ? *address : 0, OBJECT_POINTER);
}

/* The driver chooses the pitch; most choose the next multiple of 512, which is paid at first. */
static CUresult pitch_begin(struct linear *linear, uint64_t width, uint64_t height)
{
	uint64_t pitch = (width + 511) & ~UINT64_C(511), size;

	if (pitch < width || __builtin_mul_overflow(pitch, height, &size))
		size = UINT64_MAX;
	return linear_begin(linear, size);
}

static CUresult pitch_end(struct linear *linear, CUresult r, CUdeviceptr address, uint64_t bytes)
{
	CUresult resized = r == CUDA_SUCCESS ? linear_resize(linear, bytes) : r;

	if (r != CUDA_SUCCESS || resized == CUDA_SUCCESS)
		return linear_end(linear, r, address, OBJECT_POINTER);
	DRIVER(cuMemFree_v2)(address);
	memory_leave();
	return resized;
}

HOOK CUresult cuMemAllocPitch_v2(
	CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	struct linear linear;
	CUresult r = pitch_begin(&linear, width, height);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuMemAllocPitch_v2)(address, pitch, width, height, element);
	return pitch_end(
		&linear, r, r == CUDA_SUCCESS ? *address : 0, r == CUDA_SUCCESS ? *pitch * height : 0);
}

HOOK CUresult cuMemAllocPitch(CUdeviceptr_v1 *address, unsigned int *pitch, unsigned int width,
	unsigned int height, unsigned int element)
{
	struct linear linear;
	CUresult r = pitch_begin(&linear, width, height);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuMemAllocPitch)(address, pitch, width, height, element);
	return pitch_end(&linear, r, r == CUDA_SUCCESS ? *address : 0,
		r == CUDA_SUCCESS ? (uint64_t)*pitch * height : 0);
}

/* What is not known may have been a pool's. */
static CUresult freed(CUresult r, const struct object *pointer)
{
	if (!pointer)
		pools_settle();
	else if (r == CUDA_SUCCESS)
		linear_release(pointer);
	else
		objects_put(pointer);
	memory_leave();
	return r;
}

HOOK CUresult cuMemFree_v2(CUdeviceptr address)
{
	struct object pointer;
	bool known = objects_take(OBJECT_POINTER, address, &pointer);

	memory_enter_uncharged();
	return freed(DRIVER(cuMemFree_v2)(address), known ? &pointer : NULL);
}

HOOK CUresult cuMemFree(CUdeviceptr_v1 address)
{
	struct object pointer;
	bool known = objects_take(OBJECT_POINTER, address, &pointer);

	memory_enter_uncharged();
	return freed(DRIVER(cuMemFree)(address), known ? &pointer : NULL);
}
