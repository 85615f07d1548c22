/* cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged and their frees.
 *
 * Requests up to 1 MiB share blocks of 2 MiB per context; a charge of 2 MiB for each would reach the limit
 * long before the GPU is full. If a block with enough room is known, the driver is called at once; otherwise
 * the next block is charged first. The driver may use a new block nevertheless, because the room was
 * fragmented. Then that block is charged afterwards, or the request is freed again.
 */
#include "shim/memory-linear.h"

#include "shim/cuda-library.h"
#include "shim/memory-arrays.h"
#include "shim/memory-blocks.h"
#include "shim/memory-pools.h"
#include "shim/memory-shared.h"
#include "shim/memory.h"
#include "shim/objects.h"

static uint32_t small_units(uint64_t size)
{
	return (uint32_t)((size + MEMORY_SMALL_UNIT - 1) / MEMORY_SMALL_UNIT);
}

/* ---- what is there --------------------------------------------------------------------------------------
 */

struct allocation {
	struct memory_here here;
	CUdeviceptr address;
	uint64_t bytes; /* charged bytes; in a block: the size of the allocation */
	bool in_block;
};

static bool take_from_block(CUdeviceptr address, struct allocation *allocation)
{
	allocation->in_block = block_take(address, &allocation->here, &allocation->bytes);
	return allocation->in_block;
}

/* From now on the address is unknown here. As soon as the driver has freed it, another thread may get it. */
static bool take(CUdeviceptr address, struct allocation *ret_allocation)
{
	struct object pointer;

	*ret_allocation = (struct allocation){.address = address};
	/* At the beginning of a block a large allocation is more likely. */
	if (address % MEMORY_BLOCK != 0 && take_from_block(address, ret_allocation))
		return true;
	if (!objects_take(OBJECT_POINTER, address, &pointer))
		return take_from_block(address, ret_allocation);
	ret_allocation->here = context_of(&pointer);
	ret_allocation->bytes = pointer.bytes;
	return true;
}

static int put_pointer(const struct memory_here *here, CUdeviceptr address, uint64_t bytes)
{
	return objects_put(&(struct object){.kind = OBJECT_POINTER,
		.key = address,
		.bytes = bytes,
		.gpu = here->gpu,
		.stamp = here->stamp,
		.index = here->index});
}

static void put_back(const struct allocation *allocation)
{
	if (allocation->in_block)
		block_restore(&allocation->here, allocation->address, allocation->bytes);
	else
		put_pointer(&allocation->here, allocation->address, allocation->bytes);
}

/* Called when the driver has freed it. */
static void release(const struct allocation *allocation)
{
	const struct memory_here *here = &allocation->here;

	uint64_t shared = 0;

	if (!context_lives(here))
		return;
	if (!allocation->in_block) {
		shared = shared_freed(allocation->address);
		context_refunded(here, allocation->bytes);
	} else {
		if (block_leave(here, allocation->address, allocation->bytes)) {
			shared = shared_freed(allocation->address & ~(MEMORY_BLOCK - 1));
			if (!arrays_keep_block(here))
				context_refunded(here, MEMORY_BLOCK);
		}
		arrays_room_changed(here);
	}
	shared_given_back(shared);
}

uint64_t linear_charged(CUdeviceptr *address, struct memory_here *ret_here)
{
	struct object pointer;
	uint64_t size;

	if (objects_get(OBJECT_POINTER, *address, &pointer)) {
		*ret_here = context_of(&pointer);
		return pointer.bytes;
	}
	if (!block_find(*address, ret_here, &size))
		return 0;
	*address &= ~(MEMORY_BLOCK - 1);
	return MEMORY_BLOCK;
}

/* ---- one that begins ------------------------------------------------------------------------------------
 */

CUresult linear_begin(struct linear *linear, uint64_t size)
{
	CUresult r;

	*linear = (struct linear){.size = size};
	if (!context_here(&linear->here))
		return CUDA_ERROR_INVALID_DEVICE;
	if (linear->here.stamp == 0 || size == 0)
		return CUDA_SUCCESS; /* the driver will report the error */
	if (size > MEMORY_SMALL_MAX || !context_has_room(&linear->here, small_units(size)))
		linear->paid = memory_rounded(size);
	r = memory_enter(linear->here.gpu, linear->paid);
	linear->entered = r == CUDA_SUCCESS;
	return r;
}

static CUresult enter_large(struct linear *linear, CUdeviceptr address)
{
	uint64_t bytes = memory_rounded(linear->size);
	CUresult r = memory_recharge(linear->here.gpu, linear->paid, bytes);

	if (r != CUDA_SUCCESS)
		return r;
	context_charged(&linear->here, bytes);
	if (put_pointer(&linear->here, address, bytes) == 0)
		return CUDA_SUCCESS;
	context_refunded(&linear->here, bytes);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* What was charged pays for the block, unless another thread has already paid for it. */
static CUresult enter_small(struct linear *linear, CUdeviceptr address)
{
	struct allocation allocation;
	CUresult r = CUDA_SUCCESS;
	bool is_paid;

	if (block_join(&linear->here, address, linear->size, &is_paid) < 0) {
		memory_refund(linear->here.gpu, linear->paid);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	arrays_room_changed(&linear->here);
	if (!is_paid && linear->paid == 0) {
		r = memory_charge(linear->here.gpu, MEMORY_BLOCK);
		linear->paid = MEMORY_BLOCK;
	}
	if (r != CUDA_SUCCESS) {
		if (take_from_block(address, &allocation))
			release(&allocation);
	} else if (!is_paid && block_pay(&linear->here, address)) {
		context_charged(&linear->here, MEMORY_BLOCK);
	} else {
		memory_refund(linear->here.gpu, linear->paid);
	}
	return r;
}

static CUresult enter(struct linear *linear, CUresult r, CUdeviceptr address)
{
	if (r != CUDA_SUCCESS) {
		memory_refund(linear->here.gpu, linear->paid);
		return r;
	}
	r = block_holds(address, linear->size) ? enter_small(linear, address) : enter_large(linear, address);
	if (r != CUDA_SUCCESS)
		DRIVER(cuMemFree_v2)(address);
	return r;
}

CUresult linear_end(struct linear *linear, CUresult r, CUdeviceptr address)
{
	if (!linear->entered)
		return r;
	r = enter(linear, r, address);
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
	if (memory_recharge(linear->here.gpu, paid, linear->paid) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	memory_refund(linear->here.gpu, paid);
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
	return linear_end(&linear, r, r == CUDA_SUCCESS ? *address : 0);
}

HOOK CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int size)
{
	struct linear linear;
	CUresult r = linear_begin(&linear, size);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuMemAlloc)(address, size);
	return linear_end(&linear, r, r == CUDA_SUCCESS ? *address : 0);
}

/* Charged in full: pages that are in host memory now may move to the GPU at any moment. */
HOOK CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags)
{
	struct linear linear;
	CUresult r = linear_begin(&linear, size);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuMemAllocManaged)(address, size, flags);
	return linear_end(&linear, r, r == CUDA_SUCCESS ? *address : 0);
}

/* The driver chooses the pitch. Most drivers choose the next multiple of 512, which is charged first. */
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
		return linear_end(linear, r, address);
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

static CUresult free_by(CUresult (*driver)(CUdeviceptr), CUdeviceptr address)
{
	struct allocation allocation;
	bool known = take(address, &allocation);
	CUresult r;

	memory_enter_uncharged();
	r = driver(address);
	if (!known)
		pools_settle(); /* the address may have belonged to a pool */
	else if (r == CUDA_SUCCESS)
		release(&allocation);
	else
		put_back(&allocation);
	memory_leave();
	return r;
}

HOOK CUresult cuMemFree_v2(CUdeviceptr address)
{
	return free_by(DRIVER(cuMemFree_v2), address);
}

static CUresult free_v1(CUdeviceptr address)
{
	return DRIVER(cuMemFree)((CUdeviceptr_v1)address);
}

HOOK CUresult cuMemFree(CUdeviceptr_v1 address)
{
	return free_by(free_v1, address);
}
