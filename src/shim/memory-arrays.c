/* Arrays and mipmapped arrays: memory without an address.
 *
 * The size of an array on the GPU is computed from its description, without the GPU's own padding, which
 * counts as overhead. Small arrays share blocks of 2 MiB with each other and with other small memory of the
 * context. No call tells in which block an array is. So they are charged for the largest number of blocks
 * that they can occupy, beyond the blocks that are charged for other memory.
 */
#include "shim/memory-arrays.h"

#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-contexts.h"
#include "shim/memory.h"
#include "shim/objects.h"

#define LEVELS_MAX 32

/* ---- sizes ----------------------------------------------------------------------------------------------
 */

/* BC1 to BC7: blocks of 4 x 4 texels. */
static bool is_of_blocks(unsigned format)
{
	return format >= 0x91 && format <= 0x9e;
}

/* Bits of one texel with `channels` channels. For block formats: of one texel's part of its block. From the
 * table of CUarray_format in cuda.h of CUDA 13.5.37. */
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
	case 0x58: /* AYUV of 16 bits, Y416, and 4:4:4 of 16 bits in planes */
	case 0x5e:
	case 0xb1:
	case 0xb3:
	case 0xb5:
		return 64;
	}
	if (is_of_blocks(format)) /* BC2, 3, 5, 6H, 7: 16 bytes for 16 texels */
		return 8;
	if (format >= 0xc0 && format < 0xc0 + sizeof(normalized)) /* UNORM_INT8X1 ... SNORM_INT16X4 */
		return normalized[format - 0xc0];
	if ((format >= 0x50 && format <= 0x5d) || (format >= 0x9f && format <= 0xb4)) /* video */
		return 32;
	return 128; /* no known format has more */
}

static uint64_t saturating(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b ? b : 1, &product) || product > INT64_MAX ? INT64_MAX : product;
}

static uint64_t in_whole_blocks(uint64_t texels)
{
	return texels > INT64_MAX ? INT64_MAX : (texels + 3) / 4 * 4;
}

/* 0: the array does not have this dimension. */
static uint64_t halved(uint64_t size, unsigned level)
{
	return size == 0 || size >> level ? size >> level : 1;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level)
{
	uint64_t width = halved(d->Width, level), height = halved(d->Height, level);
	uint64_t depth = (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) ? d->Depth
										    : halved(d->Depth, level),
		 texels;

	if (is_of_blocks((unsigned)d->Format)) {
		width = in_whole_blocks(width);
		height = in_whole_blocks(height);
	}
	texels = saturating(saturating(width, height), depth);
	return (saturating(texels, texel_bits((unsigned)d->Format, d->NumChannels)) + 7) / 8;
}

/* The driver makes no more levels than the largest dimension can be halved (cuda.h of CUDA 13.5.37,
 * cuMipmappedArrayCreate()). */
static bool has_level(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level)
{
	return level == 0 || (level < LEVELS_MAX && (d->Width | d->Height | d->Depth) >> level);
}

/* ---- small ones of one context --------------------------------------------------------------------------
 *
 * OBJECT_SMALL_ARRAYS is charged for `count` blocks. That must be at least the number of blocks that contain
 * only small arrays. The bound follows from these facts:
 * - The driver takes a new block only if the memory fits into no other block. Arrays of U units in n pieces
 * that occupy B blocks leave B x 4096 - U units free. The free units form at most B pieces as long as no
 * array was destroyed, else at most B + n. The largest piece is not smaller than their mean.
 * - Each of these blocks contains at least one array, so there are never more blocks than arrays.
 * - When other memory leaves a block, arrays may remain in it, so its charge is kept (arrays_keep_block()).
 */

#define UNITS (MEMORY_BLOCK / MEMORY_SMALL_UNIT) /* units of a block */

static _Atomic bool any_small; /* whether any context has had small arrays so far */

/* The small levels of one array or mipmapped array. */
struct small {
	uint32_t count, units; /* sums over all levels */
	uint32_t of[LEVELS_MAX];
};

struct entering {
	const struct small *small;
	struct memory_here here;
	uint32_t paid, used; /* blocks; used > paid: the arrays were not entered */
};

/* The charge does not prove that the driver took the memory. The blocks that certainly contain only small
 * arrays are those for which the other blocks have no room. */
static void tell_surplus(const struct object *all, const struct memory_here *here)
{
	uint64_t room = context_room(here), least = 0;

	if (all->bytes > room)
		least = (all->bytes - room + UNITS - 1) / UNITS;
	context_set_surplus(here, all->count > least ? (all->count - least) * MEMORY_BLOCK : 0);
}

static void begin_context(struct object *all, const struct memory_here *here)
{
	if (all->stamp == here->stamp)
		return;
	/* Also if the stamp was that of a context that has ended. */
	all->stamp = here->stamp;
	all->bytes = all->index = all->count = all->gpu = 0;
}

static bool enter_small(struct object *all, void *context)
{
	struct entering *entering = context;
	const struct small *small = entering->small;
	struct object after;

	begin_context(all, &entering->here);
	after = *all;
	for (uint32_t i = 0; i < small->count; i++) {
		uint64_t pieces = after.count + (after.gpu == ARRAYS_WITH_HOLES ? after.index : 0);

		if (after.count == 0 || after.count * UNITS - after.bytes < small->of[i] * pieces)
			after.count++;
		after.bytes += small->of[i];
		after.index++;
	}
	entering->used = after.count - all->count;
	if (entering->used <= entering->paid) {
		*all = after;
		tell_surplus(all, &entering->here);
	}
	return all->index > 0;
}

/* The charge is made before the arrays are entered, because other threads count on the room of a block as
 * soon as it is entered. */
static CUresult small_charge(const struct memory_here *here, const struct small *small)
{
	struct entering entering = {.small = small, .here = *here};

	atomic_store_explicit(&any_small, true, memory_order_relaxed);
	for (;;) {
		uint32_t more;

		if (objects_change(OBJECT_SMALL_ARRAYS, here->index, enter_small, &entering) < 0)
			break;
		if (entering.used <= entering.paid) {
			context_charged(here, entering.used * MEMORY_BLOCK);
			memory_refund(here->gpu, (entering.paid - entering.used) * MEMORY_BLOCK);
			return CUDA_SUCCESS;
		}
		more = entering.used - entering.paid;
		if (memory_charge(here->gpu, more * MEMORY_BLOCK) != CUDA_SUCCESS)
			break;
		entering.paid += more;
	}
	memory_refund(here->gpu, entering.paid * MEMORY_BLOCK);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

struct leaving {
	struct memory_here here;
	uint32_t count, units, surplus;
};

static bool leave_small(struct object *all, void *context)
{
	struct leaving *leaving = context;

	if (all->stamp != leaving->here.stamp)
		return true;
	all->bytes -= leaving->units;
	all->index -= leaving->count;
	all->gpu = ARRAYS_WITH_HOLES;
	leaving->surplus = all->count > all->index ? all->count - all->index : 0;
	all->count -= leaving->surplus;
	tell_surplus(all, &leaving->here);
	return all->index > 0;
}

static bool keep_block(struct object *all, void *context)
{
	struct leaving *leaving = context;

	if (all->stamp != leaving->here.stamp || all->count >= all->index)
		return true;
	all->count++;
	all->gpu = ARRAYS_WITH_HOLES;
	leaving->count = 1;
	return true;
}

bool arrays_keep_block(const struct memory_here *here)
{
	struct leaving leaving = {.here = *here};

	return atomic_load_explicit(&any_small, memory_order_relaxed) &&
	       objects_edit(OBJECT_SMALL_ARRAYS, here->index, keep_block, &leaving) && leaving.count;
}

static bool change_room(struct object *all, void *context)
{
	const struct memory_here *here = context;

	if (all->stamp == here->stamp)
		tell_surplus(all, here);
	return true;
}

void arrays_room_changed(const struct memory_here *here)
{
	struct memory_here of = *here;

	if (atomic_load_explicit(&any_small, memory_order_relaxed))
		objects_edit(OBJECT_SMALL_ARRAYS, here->index, change_room, &of);
}

/* ---- an array's charge ----------------------------------------------------------------------------------
 */

struct array {
	struct memory_here here;
	bool entered;
	uint64_t large; /* bytes */
	struct small small;
};

/* The small levels of an array, as stored in the count of its object. */
#define COUNT_OF_SMALL(small) ((small).count << 26 | (small).units)
#define SMALL_COUNT(count) ((count) >> 26)
#define SMALL_UNITS(count) ((count) & ((1u << 26) - 1))
_Static_assert(LEVELS_MAX < 64 && LEVELS_MAX * UNITS < 1u << 26, "they fit");

static void array_refund(const struct array *array)
{
	if (array->small.count > 0) {
		struct leaving leaving = {
			.here = array->here, .count = array->small.count, .units = array->small.units};

		objects_edit(OBJECT_SMALL_ARRAYS, array->here.index, leave_small, &leaving);
		context_refunded(&array->here, leaving.surplus * MEMORY_BLOCK);
	}
	context_refunded(&array->here, array->large);
}

static CUresult array_begin(struct array *array, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	*array = (struct array){0};
	if (!context_here(&array->here))
		return CUDA_ERROR_INVALID_DEVICE;
	if (array->here.stamp == 0 || (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)))
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < levels && has_level(d, i); i++) {
		uint64_t bytes = level_bytes(d, i);

		if (bytes <= MEMORY_SMALL_MAX) {
			uint32_t units = (uint32_t)((bytes + MEMORY_SMALL_UNIT - 1) / MEMORY_SMALL_UNIT);

			array->small.of[array->small.count++] = units;
			array->small.units += units;
		} else if (memory_rounded(bytes) > INT64_MAX - array->large)
			return CUDA_ERROR_OUT_OF_MEMORY;
		else
			array->large += memory_rounded(bytes);
	}
	if (memory_enter(array->here.gpu, array->large) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->entered = true;
	context_charged(&array->here, array->large);
	if (array->small.count == 0 || small_charge(&array->here, &array->small) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	context_refunded(&array->here, array->large);
	memory_leave();
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Returns 0 if the array was entered, or if there was nothing to enter. */
static int array_enter(const struct array *array, CUresult r, uintptr_t handle)
{
	struct object object = {
		.kind = OBJECT_ARRAY,
		.key = handle,
		.gpu = array->here.gpu,
		.stamp = array->here.stamp,
		.index = array->here.index,
		.bytes = array->large,
		.count = COUNT_OF_SMALL(array->small),
	};

	if (r == CUDA_SUCCESS && (array->small.count == 0 && array->large == 0))
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
		.small = {SMALL_COUNT(object->count), SMALL_UNITS(object->count)},
		.large = object->bytes};

	array_refund(&array);
}

/* ---- hooks ----------------------------------------------------------------------------------------------
 */

/* The driver gets a copy, from which the charge was computed: another thread may write to the program's
 * description. */

HOOK CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR deep = {0};
	CUDA_ARRAY_DESCRIPTOR own;
	struct array array;
	CUresult r;

	if (d && cuda_is_started()) {
		own = *d;
		d = &own;
		deep = (CUDA_ARRAY3D_DESCRIPTOR){own.Width, own.Height, 0, own.Format, own.NumChannels, 0};
	}
	r = array_begin(&array, &deep, d ? 1 : 0);
	return r == CUDA_SUCCESS ? array_end(&array, DRIVER(cuArrayCreate_v2)(handle, d), handle) : r;
}

HOOK CUresult cuArrayCreate(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR deep = {0};
	CUDA_ARRAY_DESCRIPTOR_v1 own;
	struct array array;
	CUresult r;

	if (d && cuda_is_started()) {
		own = *d;
		d = &own;
		deep = (CUDA_ARRAY3D_DESCRIPTOR){own.Width, own.Height, 0, own.Format, own.NumChannels, 0};
	}
	r = array_begin(&array, &deep, d ? 1 : 0);
	return r == CUDA_SUCCESS ? array_end(&array, DRIVER(cuArrayCreate)(handle, d), handle) : r;
}

HOOK CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR own = {0};
	struct array array;
	CUresult r;

	if (d && cuda_is_started()) {
		own = *d;
		d = &own;
	}
	r = array_begin(&array, &own, d ? 1 : 0);
	return r == CUDA_SUCCESS ? array_end(&array, DRIVER(cuArray3DCreate_v2)(handle, d), handle) : r;
}

HOOK CUresult cuArray3DCreate(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = {0};
	CUDA_ARRAY3D_DESCRIPTOR_v1 own;
	struct array array;
	CUresult r;

	if (d && cuda_is_started()) {
		own = *d;
		d = &own;
		wide = (CUDA_ARRAY3D_DESCRIPTOR){
			own.Width, own.Height, own.Depth, own.Format, own.NumChannels, own.Flags};
	}
	r = array_begin(&array, &wide, d ? 1 : 0);
	return r == CUDA_SUCCESS ? array_end(&array, DRIVER(cuArray3DCreate)(handle, d), handle) : r;
}

HOOK CUresult cuMipmappedArrayCreate(
	CUmipmappedArray *handle, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	CUDA_ARRAY3D_DESCRIPTOR own = {0};
	struct array array;
	CUresult r;

	if (d && cuda_is_started()) {
		own = *d;
		d = &own;
	}
	r = array_begin(&array, &own, d ? levels : 0);
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
