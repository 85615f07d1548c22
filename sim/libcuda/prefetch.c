/* prefetch.c - moves managed memory before it is used, like a copy, over the lines between host and GPU. A
 * region is in one place as a whole, and initially in host memory. */
#include "sim/libcuda/capture.h"
#include "sim/libcuda/regions.h"
#include "sim/libcuda/task.h"

#define RANGES_MAX 65536

static struct region *managed_at(CUdeviceptr address, size_t size)
{
	struct region *region = region_at(address);

	return region && region->kind == REGION_MANAGED && region_bytes(address, size) ? region : NULL;
}

static CUresult location_read(CUmemLocation location, bool *ret_to_gpu)
{
	*ret_to_gpu = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	if (location.type < CU_MEM_LOCATION_TYPE_DEVICE ||
		location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	return *ret_to_gpu && !driver_device(location.id) ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult prefetch(struct stream *stream, CUdeviceptr address, size_t size, bool to_gpu)
{
	const struct sim_gpu *gpu = device_gpu(stream->object.context->device);
	struct region *region = managed_at(address, size);

	if (!region || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (region->on_gpu == to_gpu)
		return CUDA_SUCCESS;
	region->on_gpu = to_gpu;
	return queue_add(stream, &(struct op){.kind = OP_WORK,
					 .engine = to_gpu ? SIM_COPY_IN : SIM_COPY_OUT,
					 .duration_ns = gpu->pcie_gbps ? size / gpu->pcie_gbps : size});
}

static CUresult prefetch_call(
	CUdeviceptr address, size_t size, CUmemLocation location, CUstream handle, const char *function)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, function);
	struct stream *stream;
	bool to_gpu;

	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r == CUDA_SUCCESS)
		r = location_read(location, &to_gpu);
	return r == CUDA_SUCCESS ? prefetch(stream, address, size, to_gpu) : r;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream stream)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

	if (device == CU_DEVICE_CPU)
		location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	return prefetch_call(address, size, location, stream, __func__);
}

CUresult cuMemPrefetchAsync_v2(
	CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags, CUstream stream)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : prefetch_call(address, size, location, stream, __func__);
}

/* locations[k] is for the ranges from first[k] on. */
static CUresult ranges_check(size_t count, const CUmemLocation *locations, const size_t *first, size_t n)
{
	CUresult r = CUDA_SUCCESS;
	bool to_gpu;

	if (count == 0 || count > RANGES_MAX || !locations || !first || n == 0 || n > count || first[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t k = 0; k < n && r == CUDA_SUCCESS; k++) {
		if (first[k] >= count || (k > 0 && first[k] <= first[k - 1]))
			return CUDA_ERROR_INVALID_VALUE;
		r = location_read(locations[k], &to_gpu);
	}
	return r;
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
	CUmemLocation *locations, size_t *first, size_t n, unsigned long long flags, CUstream handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct stream *stream;
	size_t at = 0;

	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r == CUDA_SUCCESS && (flags || !addresses || !sizes))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = ranges_check(count, locations, first, n);
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
		bool to_gpu;

		if (at + 1 < n && first[at + 1] == i)
			at++;
		location_read(locations[at], &to_gpu);
		r = prefetch(stream, addresses[i], sizes[i], to_gpu);
	}
	return r;
}
