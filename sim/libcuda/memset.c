/* memset.c - cuMemset in all its widths. */
#include "sim/libcuda/task.h"

static CUresult fill(struct fill wanted, CUstream handle, const char *function)
{
	_cleanup_call_ struct call call = {};
	struct task task = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .fill = wanted};
	struct stream *stream;
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = call_begin_context(&call, function);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r == CUDA_SUCCESS)
		r = fill_check(&wanted);
	return r == CUDA_SUCCESS ? task_start(stream, &task) : r;
}

static struct fill row(uint64_t to, uint32_t value, uint32_t element, size_t count)
{
	return (struct fill){to, 0, count, 1, value, element};
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
	return fill(row(to, value, 1, count), NULL, __func__);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
	return fill(row(to, value, 2, count), NULL, __func__);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count)
{
	return fill(row(to, value, 4, count), NULL, __func__);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	return fill(row(to, value, 1, count), stream, __func__);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
	return fill(row(to, value, 2, count), stream, __func__);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
	return fill(row(to, value, 4, count), stream, __func__);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
	return fill((struct fill){to, pitch, width, height, value, 1}, NULL, __func__);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height)
{
	return fill((struct fill){to, pitch, width, height, value, 2}, NULL, __func__);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height)
{
	return fill((struct fill){to, pitch, width, height, value, 4}, NULL, __func__);
}

CUresult cuMemsetD2D8Async(
	CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream)
{
	return fill((struct fill){to, pitch, width, height, value, 1}, stream, __func__);
}

CUresult cuMemsetD2D16Async(
	CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream)
{
	return fill((struct fill){to, pitch, width, height, value, 2}, stream, __func__);
}

CUresult cuMemsetD2D32Async(
	CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream)
{
	return fill((struct fill){to, pitch, width, height, value, 4}, stream, __func__);
}

CUresult cuMemsetD8(CUdeviceptr_v1 to, unsigned char value, unsigned count)
{
	return fill(row(to, value, 1, count), NULL, __func__);
}

CUresult cuMemsetD16(CUdeviceptr_v1 to, unsigned short value, unsigned count)
{
	return fill(row(to, value, 2, count), NULL, __func__);
}

CUresult cuMemsetD32(CUdeviceptr_v1 to, unsigned value, unsigned count)
{
	return fill(row(to, value, 4, count), NULL, __func__);
}
