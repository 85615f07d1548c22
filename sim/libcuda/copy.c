/* copy.c - copies of a row of bytes, under all their names. A call that must return the result waits for the
 * stream. */
#include "sim/libcuda/regions.h"
#include "sim/libcuda/task.h"

enum side { HOST, DEVICE, EITHER };

static bool is_host(enum side side, uint64_t address)
{
	const struct region *region;

	if (side != EITHER)
		return side == HOST;
	region = region_at(address);
	return !region || region->kind == REGION_HOST || region->kind == REGION_REGISTERED;
}

static CUresult copy(uint64_t to, enum side to_side, uint64_t from, enum side from_side, size_t bytes,
	CUstream handle, bool wait, const char *function)
{
	_cleanup_call_ struct call call = {};
	struct task task = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	struct stream *stream;
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = call_begin_context(&call, function);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	task.copy = (struct copy){.to = to,
		.from = from,
		.width = bytes,
		.height = 1,
		.depth = 1,
		.to_host = is_host(to_side, to),
		.from_host = is_host(from_side, from)};
	r = copy_check(&task.copy);
	if (r == CUDA_SUCCESS && wait && stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (r == CUDA_SUCCESS)
		r = task_start(stream, &task);
	return r == CUDA_SUCCESS && wait ? stream_wait(stream) : r;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return copy(to, DEVICE, (uintptr_t)from, HOST, bytes, NULL, true, __func__);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return copy((uintptr_t)to, HOST, from, DEVICE, bytes, NULL, true, __func__);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copy(to, DEVICE, from, DEVICE, bytes, NULL, false, __func__);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copy(to, EITHER, from, EITHER, bytes, NULL, true, __func__);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copy(to, DEVICE, (uintptr_t)from, HOST, bytes, stream, false, __func__);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy((uintptr_t)to, HOST, from, DEVICE, bytes, stream, false, __func__);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy(to, DEVICE, from, DEVICE, bytes, stream, false, __func__);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy(to, EITHER, from, EITHER, bytes, stream, false, __func__);
}

/* Peers: addresses are unique in the process, so the contexts add no information. */
CUresult cuMemcpyPeer(
	CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
	return copy(to, DEVICE, from, DEVICE, bytes, NULL, false, __func__);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
	size_t bytes, CUstream stream)
{
	return copy(to, DEVICE, from, DEVICE, bytes, stream, false, __func__);
}

/* The functions from the time when pointers and sizes had 32 bits. */

CUresult cuMemcpyHtoD(CUdeviceptr_v1 to, const void *from, unsigned bytes)
{
	return copy(to, DEVICE, (uintptr_t)from, HOST, bytes, NULL, true, __func__);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr_v1 from, unsigned bytes)
{
	return copy((uintptr_t)to, HOST, from, DEVICE, bytes, NULL, true, __func__);
}

CUresult cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned bytes)
{
	return copy(to, DEVICE, from, DEVICE, bytes, NULL, false, __func__);
}
