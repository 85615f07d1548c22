/* Fills of the GPU's memory: kernels of the driver's own. */
#include "shim/cuda-library.h"
#include "shim/pacing-bytes.h"

static void begin(struct pace *pace, uint64_t bytes, CUstream stream)
{
	pacing_begin_bytes(pace, PACE_CORE, BYTES_FILL, bytes, stream);
}

static CUresult end(struct pace *pace, CUresult r)
{
	pacing_end(pace, r);
	return r;
}

HOOK CUresult cuMemsetD16(CUdeviceptr_v1 to, unsigned short value, unsigned int count)
{
	struct pace pace;

	begin(&pace, (size_t)count * 2, NULL);
	return end(&pace, DRIVER(cuMemsetD16)(to, value, count));
}

HOOK CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
	struct pace pace;

	begin(&pace, count * 2, stream);
	return end(&pace, DRIVER(cuMemsetD16Async)(to, value, count, stream));
}

HOOK CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
	struct pace pace;

	begin(&pace, count * 2, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemsetD16Async_ptsz)(to, value, count, stream));
}

HOOK CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
	struct pace pace;

	begin(&pace, count * 2, NULL);
	return end(&pace, DRIVER(cuMemsetD16_v2)(to, value, count));
}

HOOK CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count)
{
	struct pace pace;

	begin(&pace, count * 2, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemsetD16_v2_ptds)(to, value, count));
}

HOOK CUresult cuMemsetD2D16(
	CUdeviceptr_v1 to, unsigned int pitch, unsigned short value, unsigned int width, unsigned int height)
{
	struct pace pace;

	begin(&pace, (size_t)width * height * 2, NULL);
	return end(&pace, DRIVER(cuMemsetD2D16)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD2D16Async(
	CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream)
{
	struct pace pace;

	begin(&pace, width * height * 2, stream);
	return end(&pace, DRIVER(cuMemsetD2D16Async)(to, pitch, value, width, height, stream));
}

HOOK CUresult cuMemsetD2D16Async_ptsz(
	CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream)
{
	struct pace pace;

	begin(&pace, width * height * 2, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemsetD2D16Async_ptsz)(to, pitch, value, width, height, stream));
}

HOOK CUresult cuMemsetD2D16_v2(
	CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height)
{
	struct pace pace;

	begin(&pace, width * height * 2, NULL);
	return end(&pace, DRIVER(cuMemsetD2D16_v2)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD2D16_v2_ptds(
	CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height)
{
	struct pace pace;

	begin(&pace, width * height * 2, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemsetD2D16_v2_ptds)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD2D32(
	CUdeviceptr_v1 to, unsigned int pitch, unsigned int value, unsigned int width, unsigned int height)
{
	struct pace pace;

	begin(&pace, (size_t)width * height * 4, NULL);
	return end(&pace, DRIVER(cuMemsetD2D32)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD2D32Async(
	CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream)
{
	struct pace pace;

	begin(&pace, width * height * 4, stream);
	return end(&pace, DRIVER(cuMemsetD2D32Async)(to, pitch, value, width, height, stream));
}

HOOK CUresult cuMemsetD2D32Async_ptsz(
	CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream)
{
	struct pace pace;

	begin(&pace, width * height * 4, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemsetD2D32Async_ptsz)(to, pitch, value, width, height, stream));
}

HOOK CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height)
{
	struct pace pace;

	begin(&pace, width * height * 4, NULL);
	return end(&pace, DRIVER(cuMemsetD2D32_v2)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD2D32_v2_ptds(
	CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height)
{
	struct pace pace;

	begin(&pace, width * height * 4, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemsetD2D32_v2_ptds)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD2D8(
	CUdeviceptr_v1 to, unsigned int pitch, unsigned char value, unsigned int width, unsigned int height)
{
	struct pace pace;

	begin(&pace, (size_t)width * height, NULL);
	return end(&pace, DRIVER(cuMemsetD2D8)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD2D8Async(
	CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream)
{
	struct pace pace;

	begin(&pace, width * height, stream);
	return end(&pace, DRIVER(cuMemsetD2D8Async)(to, pitch, value, width, height, stream));
}

HOOK CUresult cuMemsetD2D8Async_ptsz(
	CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream)
{
	struct pace pace;

	begin(&pace, width * height, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemsetD2D8Async_ptsz)(to, pitch, value, width, height, stream));
}

HOOK CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
	struct pace pace;

	begin(&pace, width * height, NULL);
	return end(&pace, DRIVER(cuMemsetD2D8_v2)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD2D8_v2_ptds(
	CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
	struct pace pace;

	begin(&pace, width * height, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemsetD2D8_v2_ptds)(to, pitch, value, width, height));
}

HOOK CUresult cuMemsetD32(CUdeviceptr_v1 to, unsigned int value, unsigned int count)
{
	struct pace pace;

	begin(&pace, (size_t)count * 4, NULL);
	return end(&pace, DRIVER(cuMemsetD32)(to, value, count));
}

HOOK CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	struct pace pace;

	begin(&pace, count * 4, stream);
	return end(&pace, DRIVER(cuMemsetD32Async)(to, value, count, stream));
}

HOOK CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	struct pace pace;

	begin(&pace, count * 4, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemsetD32Async_ptsz)(to, value, count, stream));
}

HOOK CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
	struct pace pace;

	begin(&pace, count * 4, NULL);
	return end(&pace, DRIVER(cuMemsetD32_v2)(to, value, count));
}

HOOK CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count)
{
	struct pace pace;

	begin(&pace, count * 4, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemsetD32_v2_ptds)(to, value, count));
}

HOOK CUresult cuMemsetD8(CUdeviceptr_v1 to, unsigned char value, unsigned int count)
{
	struct pace pace;

	begin(&pace, count, NULL);
	return end(&pace, DRIVER(cuMemsetD8)(to, value, count));
}

HOOK CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	struct pace pace;

	begin(&pace, count, stream);
	return end(&pace, DRIVER(cuMemsetD8Async)(to, value, count, stream));
}

HOOK CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	struct pace pace;

	begin(&pace, count, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemsetD8Async_ptsz)(to, value, count, stream));
}

HOOK CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
	struct pace pace;

	begin(&pace, count, NULL);
	return end(&pace, DRIVER(cuMemsetD8_v2)(to, value, count));
}

HOOK CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count)
{
	struct pace pace;

	begin(&pace, count, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemsetD8_v2_ptds)(to, value, count));
}
