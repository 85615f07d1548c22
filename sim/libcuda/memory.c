#include "sim/libcuda/memory.h"

#include <stdlib.h>

#include "sim/libcuda/capture.h"
#include "sim/libcuda/gpus.h"
#include "sim/libcuda/idle.h"
#include "sim/libcuda/physical.h"
#include "sim/libcuda/pool.h"
#include "sim/libcuda/stream.h"
#include "sim/libcuda/suballoc.h"

#define PITCH_ALIGN 512

CUresult memory_new(struct context *context, enum region_kind kind, enum arena arena, uint64_t size,
	struct region **ret_region)
{
	struct region *region = calloc(1, sizeof(*region));
	CUresult r;

	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	region->kind = kind;
	region->context = context;
	region->device = context->device;
	r = suballoc_take(context, arena, size, region);
	if (r == CUDA_SUCCESS && region_add(region) < 0) {
		suballoc_give(region);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r != CUDA_SUCCESS) {
		free(region);
		return r;
	}
	fault_point("memory.recorded", context->device->gpu);
	*ret_region = region;
	return CUDA_SUCCESS;
}

void memory_free(struct region *region)
{
	region_remove(region);
	suballoc_give(region);
	free(region);
}

static CUresult allocate(CUdeviceptr *ret_address, size_t size, enum arena arena, const char *function)
{
	_cleanup_call_ struct call call = {};
	struct region *region;
	CUresult r = call_begin_context(&call, function);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (capture_forbids())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	r = memory_new(call.context, REGION_DEVICE, arena, size, &region);
	if (r == CUDA_SUCCESS)
		*ret_address = region->span.base;
	return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret_address, size_t size)
{
	if (driver_does_nothing)
		return idle_allocation(ret_address, size);
	return allocate(ret_address, size, ARENA_DEVICE, __func__);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *ret_address, unsigned size)
{
	CUdeviceptr address = 0;
	CUresult r = allocate(ret_address ? &address : NULL, size, ARENA_LOW, __func__);

	if (r == CUDA_SUCCESS)
		*ret_address = (CUdeviceptr_v1)address;
	return r;
}

static CUresult allocate_pitch(CUdeviceptr *ret_address, size_t *ret_pitch, size_t width, size_t height,
	unsigned element, enum arena arena, const char *function)
{
	size_t pitch = round_up(width, PITCH_ALIGN);
	CUresult r;

	if (!ret_pitch || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16) ||
		pitch < width || height > (UINT64_C(1) << 50) / pitch)
		return CUDA_ERROR_INVALID_VALUE;
	r = allocate(ret_address, pitch * height, arena, function);
	if (r == CUDA_SUCCESS)
		*ret_pitch = pitch;
	return r;
}

CUresult cuMemAllocPitch_v2(
	CUdeviceptr *ret_address, size_t *ret_pitch, size_t width, size_t height, unsigned element)
{
	return allocate_pitch(ret_address, ret_pitch, width, height, element, ARENA_DEVICE, __func__);
}

CUresult cuMemAllocPitch(
	CUdeviceptr_v1 *ret_address, unsigned *ret_pitch, unsigned width, unsigned height, unsigned element)
{
	CUdeviceptr address = 0;
	size_t pitch = 0;
	CUresult r = ret_address && ret_pitch
			     ? allocate_pitch(&address, &pitch, width, height, element, ARENA_LOW, __func__)
			     : CUDA_ERROR_INVALID_VALUE;

	if (r == CUDA_SUCCESS) {
		*ret_address = (CUdeviceptr_v1)address;
		*ret_pitch = (unsigned)pitch;
	}
	return r;
}

/* Stream-ordered memory can also be freed at once when no work uses it any more. */
static CUresult free_ordered(struct context *context, struct region *region)
{
	uint64_t id = region->id, address = region->span.base;
	CUresult r = context ? context_wait(context) : CUDA_SUCCESS;

	region = region_at(address);
	if (r != CUDA_SUCCESS || !region || region->id != id)
		return r;
	if (region->kind == REGION_GRAPH)
		return graph_memory_release(region);
	pool_give(region);
	return CUDA_SUCCESS;
}

/* Before it frees memory, the driver waits for the work of the memory's context. Meanwhile another thread may
 * have freed it. */
static CUresult free_when_idle(struct region *region)
{
	uint64_t id = region->id, address = region->span.base;
	CUresult r = context_wait_submitted(region->context);

	if (r != CUDA_SUCCESS)
		return r;
	region = region_at(address);
	if (!region || region->id != id)
		return misuse(SIM_DOUBLE_FREE, CUDA_ERROR_INVALID_VALUE);
	memory_free(region);
	return CUDA_SUCCESS;
}

/* A thread without a current context may free memory, because the memory names its context. */
static CUresult context_to_free_in(const struct region *region, struct context **ret_context)
{
	CUresult r = context_current(ret_context);

	if (r != CUDA_ERROR_INVALID_CONTEXT || !region)
		return r;
	*ret_context = region->context ? region->context : region->device ? region->device->primary : NULL;
	return *ret_context ? context_check(*ret_context) : CUDA_SUCCESS;
}

/* Frees memory of any context of the process, current or not. */
CUresult cuMemFree_v2(CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	struct context *context = NULL;
	struct region *region;
	CUresult r;

	if (driver_does_nothing)
		return idle_free(address);
	r = call_begin(&call, __func__);
	if (r != CUDA_SUCCESS)
		return r;
	region = region_at(address);
	r = context_to_free_in(region, &context);
	if (r != CUDA_SUCCESS || address == 0)
		return r;
	if (region && region->span.base == address &&
		(region->kind == REGION_POOL || region->kind == REGION_GRAPH))
		return free_ordered(context, region);
	if (region && region->span.base == address && region->kind == REGION_EXTERNAL) {
		physical_region_free(region);
		return CUDA_SUCCESS;
	}
	r = region_expect(
		address, region && region->kind == REGION_MANAGED ? REGION_MANAGED : REGION_DEVICE, &region);
	return r == CUDA_SUCCESS ? free_when_idle(region) : r;
}

CUresult cuMemFree(CUdeviceptr_v1 address)
{
	return cuMemFree_v2(address);
}

CUresult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
	_cleanup_call_ struct call call = {};
	uint64_t left, total;
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	gpu_memory(call.context->device, &left, &total);
	if (ret_free)
		*ret_free = left;
	if (ret_total)
		*ret_total = total;
	return CUDA_SUCCESS;
}

static unsigned clamp(size_t bytes)
{
	return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

CUresult cuMemGetInfo(unsigned *ret_free, unsigned *ret_total)
{
	size_t left, total;
	CUresult r = cuMemGetInfo_v2(&left, &total);

	if (r == CUDA_SUCCESS && ret_free)
		*ret_free = clamp(left);
	if (r == CUDA_SUCCESS && ret_total)
		*ret_total = clamp(total);
	return r;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct region *region;

	if (r != CUDA_SUCCESS)
		return r;
	region = region_at(address);
	if (!region || !region->device)
		return CUDA_ERROR_NOT_FOUND;
	if (ret_base)
		*ret_base = region->span.base;
	if (ret_size)
		*ret_size = region->span.size;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *ret_base, unsigned *ret_size, CUdeviceptr_v1 address)
{
	CUdeviceptr base;
	size_t size;
	CUresult r = cuMemGetAddressRange_v2(&base, &size, address);

	if (r == CUDA_SUCCESS && ret_base)
		*ret_base = (CUdeviceptr_v1)base;
	if (r == CUDA_SUCCESS && ret_size)
		*ret_size = (unsigned)size;
	return r;
}
