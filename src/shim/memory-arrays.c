/* Arrays and mipmapped arrays: memory without an address.
 *
 * How large an array is on the card is computed from its description, without the card's own padding, which
 * is overhead. Small ones share blocks of 2 MiB, which cannot be told apart here: of each context the sum of
 * its small arrays is charged, rounded up to blocks.
 */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-contexts.h"
#include "shim/memory.h"
#include "shim/objects.h"

#define LEVELS_MAX 32

/* ---- sizes ----------------------------------------------------------------------------------------------
 */

/* Of one texel with `channels` channels, from the table of CUarray_format in the CUDA driver API, 13.0. */
static unsigned texel_bits(unsigned format, unsigned channels)
{
	static const unsigned char normalized[] = {8, 16, 32, 16, 32, 64, 8, 16, 32, 16, 32, 64};

	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 8 * channels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 16 * channels;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 32 * channels;
	case 0x91: /* BC1, BC4: 8 bytes for 16 texels */
	case 0x92:
	case 0x97:
	case 0x98:
		return 4;
	}
	if (format >= 0x93 && format <= 0x9e) /* BC2, 3, 5, 6H, 7: 16 bytes for 16 texels */
		return 8;
	if (format >= 0xc0 && format < 0xc0 + sizeof(normalized)) /* UNORM_INT8X1 ... SNORM_INT16X4 */
		return normalized[format - 0xc0];
	return 32; /* video formats: none has more */
}

static uint64_t saturating(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b ? b : 1, &product) || product > INT64_MAX ? INT64_MAX : product;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level)
{
	bool layered = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	uint64_t width = d->Width >> level, height = d->Height >> level;
	uint64_t texels = saturating(width, height);

	texels = saturating(texels, layered ? d->Depth : d->Depth >> level);
	return (saturating(texels, texel_bits((unsigned)d->Format, d->NumChannels)) + 7) / 8;
}

static bool takes_no_memory(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
}

/* ---- small ones of one context --------------------------------------------------------------------------
 */

struct small_change {
	struct memory_here here;
	int64_t bytes, paid; /* more, or less */
	uint64_t missing, surplus;
};

static bool change_small(struct object *small, void *context)
{
	struct small_change *change = context;
	uint64_t sum, need;

	if (small->stamp != change->here.stamp) /* of a context that has ended */
		small->bytes = small->index = small->count = 0;
	small->stamp = change->here.stamp;
	sum = small->bytes + (uint64_t)change->bytes;
	need = memory_rounded(sum) / MEMORY_BLOCK;
	small->bytes = sum;
	small->count = (uint32_t)(small->count + change->paid);
	change->missing = need > small->count ? need - small->count : 0;
	change->surplus = small->count > need ? small->count - need : 0;
	small->count -= (uint32_t)change->surplus;
	return sum > 0 || small->count > 0;
}

static CUresult small_change(struct small_change *change, int64_t bytes, int64_t paid)
{
	change->bytes = bytes;
	change->paid = paid;
	if (objects_change(OBJECT_SMALL_ARRAYS, change->here.index, change_small, change) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context_refunded(&change->here, change->surplus * MEMORY_BLOCK);
	return CUDA_SUCCESS;
}

static CUresult small_charge(const struct memory_here *here, uint64_t bytes)
{
	struct small_change change = {.here = *here};
	uint64_t blocks;

	if (small_change(&change, (int64_t)bytes, 0) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	blocks = change.missing;
	if (blocks == 0)
		return CUDA_SUCCESS;
	if (memory_charge(here->card, blocks * MEMORY_BLOCK) == CUDA_SUCCESS) {
		context_charged(here, blocks * MEMORY_BLOCK);
		return small_change(&change, 0, (int64_t)blocks);
	}
	small_change(&change, -(int64_t)bytes, 0);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void small_refund(const struct memory_here *here, uint64_t bytes)
{
	struct small_change change = {.here = *here};

	if (context_lives(here))
		small_change(&change, -(int64_t)bytes, 0);
}

/* ---- an array's charge ----------------------------------------------------------------------------------
 */

struct array {
	struct memory_here here;
	bool entered;
	uint64_t small, large; /* bytes */
};

static void array_refund(const struct array *array)
{
	if (array->small > 0)
		small_refund(&array->here, array->small);
	context_refunded(&array->here, array->large);
}

static CUresult array_begin(struct array *array, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	*array = (struct array){0};
	if (!context_here(&array->here))
		return CUDA_ERROR_INVALID_DEVICE;
	if (array->here.stamp == 0 || takes_no_memory(d))
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < levels && i < LEVELS_MAX; i++) {
		uint64_t bytes = level_bytes(d, i);
		bool last = d->Width >> i == 0 && d->Height >> i == 0 && d->Depth >> i == 0;

		if (i > 0 && last)
			break;
		if (bytes <= MEMORY_SMALL_MAX)
			array->small += (bytes + MEMORY_SMALL_UNIT - 1) & ~(MEMORY_SMALL_UNIT - 1);
		else if (memory_rounded(bytes) > INT64_MAX - array->large)
			return CUDA_ERROR_OUT_OF_MEMORY;
		else
			array->large += memory_rounded(bytes);
	}
	if (memory_enter(array->here.card, array->large) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->entered = true;
	context_charged(&array->here, array->large);
	if (array->small == 0 || small_charge(&array->here, array->small) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	context_refunded(&array->here, array->large);
	memory_leave();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* 0: entered, or nothing to enter. */
static int array_enter(const struct array *array, CUresult r, uintptr_t handle)
{
	struct object object = {
		.kind = OBJECT_ARRAY,
		.key = handle,
		.card = array->here.card,
		.stamp = array->here.stamp,
		.index = array->here.index,
		.bytes = array->large,
		.count = (uint32_t)(array->small / MEMORY_SMALL_UNIT),
	};

	if (r == CUDA_SUCCESS && (array->small == 0 && array->large == 0))
		return 0;
	if (r == CUDA_SUCCESS && objects_put(&object) == 0)
		return 0;
	array_refund(array);
	return r == CUDA_SUCCESS ? -1 : 0;
}

static CUresult array_end(const struct array *array, CUresult r, CUarray *handle)
{
	if (array_enter(array, r, r == CUDA_SUCCESS ? (uintptr_t)*handle : 0) < 0) {
		DRIVER(cuArrayDestroy)(*handle);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (array->entered)
		memory_leave();
	return r;
}

static void array_release(const struct object *object)
{
	struct array array = {.here = context_of(object),
		.small = object->count * MEMORY_SMALL_UNIT,
		.large = object->bytes};

	array_refund(&array);
}

/* ---- hooks ----------------------------------------------------------------------------------------------
 */

HOOK CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR deep = {0};
	struct array array;
	CUresult r;

	if (d && cuda_is_started())
		deep = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	r = array_begin(&array, &deep, d ? 1 : 0);
	return r == CUDA_SUCCESS ? array_end(&array, DRIVER(cuArrayCreate_v2)(handle, d), handle) : r;
}

HOOK CUresult cuArrayCreate(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR deep = {0};
	struct array array;
	CUresult r;

	if (d && cuda_is_started())
		deep = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	r = array_begin(&array, &deep, d ? 1 : 0);
	return r == CUDA_SUCCESS ? array_end(&array, DRIVER(cuArrayCreate)(handle, d), handle) : r;
}

HOOK CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	static const CUDA_ARRAY3D_DESCRIPTOR nothing;
	struct array array;
	CUresult r = array_begin(&array, d ? d : &nothing, d ? 1 : 0);

	return r == CUDA_SUCCESS ? array_end(&array, DRIVER(cuArray3DCreate_v2)(handle, d), handle) : r;
}

HOOK CUresult cuArray3DCreate(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = {0};
	struct array array;
	CUresult r;

	if (d && cuda_is_started())
		wide = (CUDA_ARRAY3D_DESCRIPTOR){
			d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags};
	r = array_begin(&array, &wide, d ? 1 : 0);
	return r == CUDA_SUCCESS ? array_end(&array, DRIVER(cuArray3DCreate)(handle, d), handle) : r;
}

HOOK CUresult cuMipmappedArrayCreate(
	CUmipmappedArray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	static const CUDA_ARRAY3D_DESCRIPTOR nothing;
	struct array array;
	CUresult r = array_begin(&array, d ? d : &nothing, d ? levels : 0);

	if (r != CUDA_SUCCESS)
		return r;
	r = DRIVER(cuMipmappedArrayCreate)(handle, d, levels);
	if (array_enter(&array, r, r == CUDA_SUCCESS ? (uintptr_t)*handle : 0) < 0) {
		DRIVER(cuMipmappedArrayDestroy)(*handle);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (array.entered)
		memory_leave();
	return r;
}

HOOK CUresult cuArrayDestroy(CUarray handle)
{
	struct object object;
	bool known = objects_take(OBJECT_ARRAY, (uintptr_t)handle, &object);
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuArrayDestroy)(handle);
	if (known && r == CUDA_SUCCESS)
		array_release(&object);
	else if (known)
		objects_put(&object);
	memory_leave();
	return r;
}

HOOK CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
	struct object object;
	bool known = objects_take(OBJECT_ARRAY, (uintptr_t)handle, &object);
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuMipmappedArrayDestroy)(handle);
	if (known && r == CUDA_SUCCESS)
		array_release(&object);
	else if (known)
		objects_put(&object);
	memory_leave();
	return r;
}
