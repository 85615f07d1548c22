/* cuMemCreate and the life of its memory: physical memory lives as long as anything refers to it.
 *
 * A handle is one reference for each release that is due, and each mapping is one. The charge is given back
 * when the last reference is gone, because frameworks create, map, release, use and then unmap. The GPU that
 * the properties name is charged, not the current context's. Host memory is not charged.
 *
 * An import is not charged: the process that created the memory was charged, in this container or another
 * one. If that process ends while we still hold the memory, the driver counts it as ours, and the keeper
 * counts it as overhead.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory-shared.h"
#include "shim/memory.h"
#include "shim/objects.h"
#include "shim/session.h"

#define MAPPINGS_ON_STACK 32
#define STEPS_MAX                                                                                            \
	(UINT64_C(1)                                                                                         \
		<< 20) /* 2 TiB: an invalid range that the driver will reject must not be charged in full */

/* ---- physical memory ------------------------------------------------------------------------------------
 */

/* The index of an OBJECT_PHYSICAL. */
enum { OWN, EXPORTED, IMPORTED };

struct reference {
	int more;
	bool gone;
	struct object was;
};

static bool change_reference(struct object *physical, void *context)
{
	struct reference *reference = context;

	physical->count += (uint32_t)reference->more;
	reference->gone = physical->count == 0;
	reference->was = *physical;
	return !reference->gone;
}

static void refer(uint64_t id, int more)
{
	struct reference reference = {.more = more};
	const struct object *was = &reference.was;

	if (objects_change(OBJECT_PHYSICAL, id, change_reference, &reference) < 0 || !reference.gone)
		return;
	if (was->index == EXPORTED)
		shared_exported(was->gpu, -(int64_t)was->bytes);
	if (was->index == IMPORTED)
		shared_imported(was->gpu, -(int64_t)was->bytes);
	else
		memory_refund(was->gpu, was->bytes);
}

static uint64_t next_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

/* ---- handles --------------------------------------------------------------------------------------------
 */

struct handle_change {
	int more;
	uint64_t id; /* in: the id for a new handle; out: the id of the known one */
};

static bool change_handle(struct object *handle, void *context)
{
	struct handle_change *change = context;

	if (handle->count == 0)
		handle->stamp = change->more > 0 ? change->id : 0;
	change->id = handle->stamp;
	if (handle->stamp != 0)
		handle->count += (uint32_t)change->more;
	return handle->count > 0;
}

/* Adds or removes one release that is due. Returns 0 if this handle is not known and id is 0. */
static int handle_refer(CUmemGenericAllocationHandle handle, int more, uint64_t id, uint64_t *ret_id)
{
	struct handle_change change = {.more = more, .id = id};
	int r = objects_change(OBJECT_HANDLE, handle, change_handle, &change);

	if (r == 0)
		*ret_id = change.id;
	return r;
}

/* If it fails, what is refunded has been charged. */
static CUresult create_charged(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags, uint32_t gpu)
{
	struct object physical = {.kind = OBJECT_PHYSICAL,
		.key = next_id(),
		.gpu = gpu,
		.bytes = memory_rounded(size),
		.count = 1};
	CUresult r = DRIVER(cuMemCreate)(handle, size, prop, flags);
	uint64_t id;

	if (r == CUDA_SUCCESS && objects_put(&physical) == 0) {
		if (handle_refer(*handle, 1, physical.key, &id) == 0)
			return r;
		objects_take(OBJECT_PHYSICAL, physical.key, &physical);
	}
	if (r == CUDA_SUCCESS) {
		DRIVER(cuMemRelease)(*handle);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	memory_refund(gpu, physical.bytes);
	return r;
}

HOOK CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
	unsigned long long flags)
{
	CUmemAllocationProp own;
	CUresult r;
	int gpu;

	if (!cuda_is_started())
		return cuda_refuse_device();
	if (!prop)
		return DRIVER(cuMemCreate)(handle, size, prop, flags);
	own = *prop; /* another thread may write to the program's structure */
	r = cuda_location_gpu(own.location, own.type, &gpu);
	if (r != CUDA_SUCCESS)
		return r;
	if (gpu < 0)
		return DRIVER(cuMemCreate)(handle, size, &own, flags);
	r = memory_enter((unsigned)gpu, memory_rounded(size));
	if (r != CUDA_SUCCESS)
		return r;
	r = create_charged(handle, size, &own, flags, (uint32_t)gpu);
	memory_leave();
	return r;
}

/* The release is entered before the driver can give the same handle out again. */
HOOK CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	uint64_t id = 0, ignored;
	bool known = handle_refer(handle, -1, 0, &id) == 0 && id != 0;
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuMemRelease)(handle);
	if (known && r == CUDA_SUCCESS)
		refer(id, -1);
	else if (known)
		handle_refer(handle, 1, id, &ignored);
	memory_leave();
	return r;
}

/* Returns a handle for what is mapped at an address: the one that the program had, or a new one. */
HOOK CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	CUresult r = DRIVER(cuMemRetainAllocationHandle)(handle, address);
	struct object mapping;
	CUdeviceptr base;
	size_t size;
	uint64_t id;

	if (r != CUDA_SUCCESS)
		return r;
	if (!objects_get(OBJECT_MAPPING, (uintptr_t)address, &mapping) &&
		(DRIVER(cuMemGetAddressRange_v2)(&base, &size, (uintptr_t)address) != CUDA_SUCCESS ||
			!objects_get(OBJECT_MAPPING, base, &mapping)))
		return r;
	refer(mapping.stamp, 1);
	if (handle_refer(*handle, 1, mapping.stamp, &id) == 0)
		return r;
	refer(mapping.stamp, -1);
	DRIVER(cuMemRelease)(*handle);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- between processes ----------------------------------------------------------------------------------
 */

static bool mark_exported(struct object *physical, void *context)
{
	struct object *was = context;

	*was = *physical;
	if (physical->index == OWN)
		physical->index = EXPORTED;
	return physical->count > 0;
}

HOOK CUresult cuMemExportToShareableHandle(void *os_handle, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	struct object known, was;
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuMemExportToShareableHandle)(os_handle, handle, type, flags);
	if (r == CUDA_SUCCESS && objects_get(OBJECT_HANDLE, handle, &known) &&
		objects_change(OBJECT_PHYSICAL, known.stamp, mark_exported, &was) == 0 && was.count > 0 &&
		was.index == OWN)
		shared_exported(was.gpu, (int64_t)was.bytes);
	memory_leave();
	return r;
}

/* Its size becomes known when it is mapped. */
HOOK CUresult cuMemImportFromShareableHandle(
	CUmemGenericAllocationHandle *handle, void *os_handle, CUmemAllocationHandleType type)
{
	CUresult r = DRIVER(cuMemImportFromShareableHandle)(handle, os_handle, type);
	struct object physical = {.kind = OBJECT_PHYSICAL, .index = IMPORTED, .count = 1};
	CUmemAllocationProp prop;
	CUdevice device;
	uint64_t id = 0;

	if (r != CUDA_SUCCESS)
		return r;
	session_request_sample();
	if (DRIVER(cuMemGetAllocationPropertiesFromHandle)(&prop, *handle) != CUDA_SUCCESS ||
		!cuda_location_device(prop.location, &device) || cuda_device_gpu(device) < 0)
		return r;
	physical.gpu = (uint32_t)cuda_device_gpu(device);
	physical.key = next_id();
	if (objects_put(&physical) < 0)
		return r;
	/* A driver might return the handle that the process already has for this memory. */
	if (handle_refer(*handle, 1, physical.key, &id) < 0 || id != physical.key)
		objects_take(OBJECT_PHYSICAL, physical.key, &physical);
	return r;
}

struct seen {
	uint64_t bytes, more;
	uint32_t gpu;
};

static bool see_size(struct object *physical, void *context)
{
	struct seen *seen = context;

	seen->more = 0;
	if (physical->index == IMPORTED && seen->bytes > physical->bytes) {
		seen->more = seen->bytes - physical->bytes;
		seen->gpu = physical->gpu;
		physical->bytes = seen->bytes;
	}
	return physical->count > 0;
}

/* ---- mappings -------------------------------------------------------------------------------------------
 */

HOOK CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	unsigned long long flags)
{
	struct object known, mapping = {.kind = OBJECT_MAPPING, .key = address, .bytes = size};
	CUresult r;

	if (!objects_get(OBJECT_HANDLE, handle, &known))
		return DRIVER(cuMemMap)(address, size, offset, handle, flags);
	mapping.stamp = known.stamp;
	refer(mapping.stamp, 1);
	r = DRIVER(cuMemMap)(address, size, offset, handle, flags);
	if (r == CUDA_SUCCESS && objects_put(&mapping) == 0) {
		uint64_t end = offset + size;
		struct seen seen = {.bytes = memory_rounded(end)};

		if (objects_change(OBJECT_PHYSICAL, mapping.stamp, see_size, &seen) == 0 && seen.more > 0) {
			memory_enter_uncharged();
			shared_imported(seen.gpu, (int64_t)seen.more);
			memory_leave();
			session_request_sample();
		}
		return r;
	}
	if (r == CUDA_SUCCESS) {
		DRIVER(cuMemUnmap)(address, size);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	refer(mapping.stamp, -1);
	return r;
}

/* Takes the mappings that begin in the range: one may be unmapped together with its neighbours. Mappings of
 * memory that is not charged are unknown here and are skipped. */
static size_t take_mappings(CUdeviceptr address, size_t size, struct object *taken, size_t max)
{
	CUdeviceptr at = address, end = address + size;
	size_t count = 0;

	for (uint64_t i = 0; i < STEPS_MAX && at < end && at >= address && count < max; i++) {
		if (objects_take(OBJECT_MAPPING, at, &taken[count]))
			at += taken[count++].bytes;
		else
			at += MEMORY_BLOCK;
	}
	return count;
}

static CUresult unmap(CUdeviceptr address, size_t size, struct object *taken, size_t max)
{
	size_t count = take_mappings(address, size, taken, max);
	CUresult r;

	memory_enter_uncharged();
	r = DRIVER(cuMemUnmap)(address, size);
	for (size_t i = 0; i < count; i++) {
		if (r == CUDA_SUCCESS)
			refer(taken[i].stamp, -1);
		else
			objects_put(&taken[i]);
	}
	memory_leave();
	return r;
}

HOOK CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
	struct object on_stack[MAPPINGS_ON_STACK], *taken;
	size_t most = size / MEMORY_BLOCK + 1;
	CUresult r;

	if (most <= MAPPINGS_ON_STACK)
		return unmap(address, size, on_stack, MAPPINGS_ON_STACK);
	taken = most <= STEPS_MAX ? malloc(most * sizeof(*taken)) : NULL;
	if (!taken)
		return unmap(address, size, on_stack, MAPPINGS_ON_STACK);
	r = unmap(address, size, taken, most);
	free(taken);
	return r;
}
