/* host.c - page-locked host memory, and managed memory with its hints. Of these only managed memory is on the
 * GPU. */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/libcuda/capture.h"
#include "sim/libcuda/memory.h"
#include "sim/libcuda/stream.h"

#define HOST_PAGE 4096

static CUresult add_region(
	struct context *context, void *start, size_t size, enum region_kind kind, unsigned flags)
{
	struct region *region = calloc(1, sizeof(*region));

	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*region = (struct region){
		.span = {(uintptr_t)start, size}, .kind = kind, .context = context, .host_flags = flags};
	if (region_add(region) < 0) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

void host_free(struct region *region)
{
	region_remove(region);
	if (region->kind == REGION_HOST)
		munmap((void *)(uintptr_t)region->span.base, round_up(region->span.size, HOST_PAGE));
	free(region);
}

static CUresult allocate(void **ret, size_t size, unsigned flags, const char *function)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, function);
	void *p;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret || size == 0 || flags & ~7u)
		return CUDA_ERROR_INVALID_VALUE;
	if (capture_forbids())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (size > UINT64_C(1) << 46)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = mmap(NULL, round_up(size, HOST_PAGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = add_region(call.context, p, size, REGION_HOST, flags);
	if (r == CUDA_SUCCESS)
		*ret = p;
	else
		munmap(p, round_up(size, HOST_PAGE));
	return r;
}

CUresult cuMemHostAlloc(void **ret, size_t size, unsigned flags)
{
	return allocate(ret, size, flags, __func__);
}

CUresult cuMemAllocHost_v2(void **ret, size_t size)
{
	return allocate(ret, size, 0, __func__);
}

CUresult cuMemAllocHost(void **ret, unsigned size)
{
	return allocate(ret, size, 0, __func__);
}

static CUresult begin(struct call *call, const void *p, enum region_kind kind, struct region **ret_region,
	const char *function)
{
	CUresult r = call_begin_context(call, function);

	return r == CUDA_SUCCESS ? region_expect((uintptr_t)p, kind, ret_region) : r;
}

CUresult cuMemFreeHost(void *p)
{
	_cleanup_call_ struct call call = {};
	struct region *region;
	CUresult r = p ? begin(&call, p, REGION_HOST, &region, __func__) : CUDA_SUCCESS;

	if (p && r == CUDA_SUCCESS)
		host_free(region);
	return r;
}

CUresult cuMemHostRegister_v2(void *p, size_t size, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	uint64_t address = (uintptr_t)p;

	if (r != CUDA_SUCCESS)
		return r;
	if (!p || size == 0 || flags & ~15u || address + size < address)
		return CUDA_ERROR_INVALID_VALUE;
	if (region_overlapping(address, size))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return add_region(call.context, p, size, REGION_REGISTERED, flags);
}

CUresult cuMemHostRegister(void *p, size_t size, unsigned flags)
{
	return cuMemHostRegister_v2(p, size, flags);
}

CUresult cuMemHostUnregister(void *p)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct region *region = r == CUDA_SUCCESS ? region_at((uintptr_t)p) : NULL;

	if (r != CUDA_SUCCESS)
		return r;
	if (!region || region->kind != REGION_REGISTERED || region->span.base != (uintptr_t)p)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	host_free(region);
	return CUDA_SUCCESS;
}

static struct region *host_region(const void *p)
{
	struct region *region = region_at((uintptr_t)p);

	return region && (region->kind == REGION_HOST || region->kind == REGION_REGISTERED) ? region : NULL;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret_address, void *p, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address || flags || !host_region(p))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_address = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *ret_flags, void *p)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_flags || !host_region(p))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_flags = host_region(p)->host_flags;
	return CUDA_SUCCESS;
}

/* Managed memory is charged in full, as if all of it were on the GPU. */

CUresult cuMemAllocManaged(CUdeviceptr *ret_address, size_t size, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct region *region;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address || size == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	if (capture_forbids())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	r = memory_new(call.context, REGION_MANAGED, ARENA_MANAGED, size, &region);
	if (r == CUDA_SUCCESS)
		*ret_address = region->span.base;
	return r;
}

static CUresult hint(CUdeviceptr address, size_t size, CUstream handle, const char *function)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, function);
	struct stream *stream;
	struct region *region;

	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	region = region_at(address);
	return region && region->kind == REGION_MANAGED && region_bytes(address, size)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAdvise(CUdeviceptr address, size_t size, int advice, CUdevice device)
{
	return hint(address, size, NULL, __func__);
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, int advice, CUmemLocation location)
{
	return hint(address, size, NULL, __func__);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t size, unsigned flags)
{
	return hint(address, size ? size : 1, stream, __func__);
}
