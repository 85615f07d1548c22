/* Copies of a row of bytes, in all their names. */
#include "shim/cuda-library.h"
#include "shim/pacing-bytes.h"

static void begin(struct pace *pace, enum pace_kind kind, uint64_t bytes, CUstream stream)
{
	pacing_begin_bytes(pace, kind, BYTES_COPY, bytes, stream);
}

/* From one GPU to another, by its copy engine: the sending one's time. */
static void begin_peer(struct pace *pace, uint64_t bytes, CUstream stream)
{
	pacing_begin_bytes(pace, PACE_FROM_GPU, BYTES_PEER, bytes, stream);
}

static void begin_unified(
	struct pace *pace, CUdeviceptr to, CUdeviceptr from, uint64_t bytes, CUstream stream)
{
	begin(pace, pacing_is_on() ? pacing_kind_of(to, from) : PACE_KINDS, bytes, stream);
}

static CUresult end(struct pace *pace, CUresult r)
{
	pacing_end(pace, r);
	return r;
}

HOOK CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	struct pace pace;

	begin_unified(&pace, to, from, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpy)(to, from, bytes));
}

HOOK CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin_unified(&pace, to, from, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyAsync)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin_unified(&pace, to, from, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpyAsync_ptsz)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyAtoA(
	CUarray to, unsigned int to_offset, CUarray from, unsigned int from_offset, unsigned int bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyAtoA)(to, to_offset, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyAtoA_v2)(to, to_offset, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyAtoA_v2_ptds(
	CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyAtoA_v2_ptds)(to, to_offset, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyAtoD(CUdeviceptr_v1 to, CUarray from, unsigned int from_offset, unsigned int bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyAtoD)(to, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t from_offset, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyAtoD_v2)(to, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t from_offset, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyAtoD_v2_ptds)(to, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyAtoH(void *to, CUarray from, unsigned int from_offset, unsigned int bytes)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyAtoH)(to, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyAtoHAsync(
	void *to, CUarray from, unsigned int from_offset, unsigned int bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyAtoHAsync)(to, from, from_offset, bytes, stream));
}

HOOK CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t from_offset, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyAtoHAsync_v2)(to, from, from_offset, bytes, stream));
}

HOOK CUresult cuMemcpyAtoHAsync_v2_ptsz(
	void *to, CUarray from, size_t from_offset, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpyAtoHAsync_v2_ptsz)(to, from, from_offset, bytes, stream));
}

HOOK CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t from_offset, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyAtoH_v2)(to, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyAtoH_v2_ptds(void *to, CUarray from, size_t from_offset, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyAtoH_v2_ptds)(to, from, from_offset, bytes));
}

HOOK CUresult cuMemcpyDtoA(CUarray to, unsigned int to_offset, CUdeviceptr_v1 from, unsigned int bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyDtoA)(to, to_offset, from, bytes));
}

HOOK CUresult cuMemcpyDtoA_v2(CUarray to, size_t to_offset, CUdeviceptr from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyDtoA_v2)(to, to_offset, from, bytes));
}

HOOK CUresult cuMemcpyDtoA_v2_ptds(CUarray to, size_t to_offset, CUdeviceptr from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyDtoA_v2_ptds)(to, to_offset, from, bytes));
}

HOOK CUresult cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyDtoD)(to, from, bytes));
}

HOOK CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyDtoDAsync)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyDtoDAsync_v2)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpyDtoDAsync_v2_ptsz)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyDtoD_v2)(to, from, bytes));
}

HOOK CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_CORE, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyDtoD_v2_ptds)(to, from, bytes));
}

HOOK CUresult cuMemcpyDtoH(void *to, CUdeviceptr_v1 from, unsigned int bytes)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyDtoH)(to, from, bytes));
}

HOOK CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr_v1 from, unsigned int bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyDtoHAsync)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyDtoHAsync_v2)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpyDtoHAsync_v2_ptsz)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyDtoH_v2)(to, from, bytes));
}

HOOK CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_FROM_GPU, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyDtoH_v2_ptds)(to, from, bytes));
}

HOOK CUresult cuMemcpyHtoA(CUarray to, unsigned int to_offset, const void *from, unsigned int bytes)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyHtoA)(to, to_offset, from, bytes));
}

HOOK CUresult cuMemcpyHtoAAsync(
	CUarray to, unsigned int to_offset, const void *from, unsigned int bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyHtoAAsync)(to, to_offset, from, bytes, stream));
}

HOOK CUresult cuMemcpyHtoAAsync_v2(
	CUarray to, size_t to_offset, const void *from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyHtoAAsync_v2)(to, to_offset, from, bytes, stream));
}

HOOK CUresult cuMemcpyHtoAAsync_v2_ptsz(
	CUarray to, size_t to_offset, const void *from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpyHtoAAsync_v2_ptsz)(to, to_offset, from, bytes, stream));
}

HOOK CUresult cuMemcpyHtoA_v2(CUarray to, size_t to_offset, const void *from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyHtoA_v2)(to, to_offset, from, bytes));
}

HOOK CUresult cuMemcpyHtoA_v2_ptds(CUarray to, size_t to_offset, const void *from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyHtoA_v2_ptds)(to, to_offset, from, bytes));
}

HOOK CUresult cuMemcpyHtoD(CUdeviceptr_v1 to, const void *from, unsigned int bytes)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyHtoD)(to, from, bytes));
}

HOOK CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 to, const void *from, unsigned int bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyHtoDAsync)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpyHtoDAsync_v2_ptsz)(to, from, bytes, stream));
}

HOOK CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyHtoD_v2)(to, from, bytes));
}

HOOK CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes)
{
	struct pace pace;

	begin(&pace, PACE_TO_GPU, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyHtoD_v2_ptds)(to, from, bytes));
}

HOOK CUresult cuMemcpyPeer(
	CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
	struct pace pace;

	begin_peer(&pace, bytes, NULL);
	return end(&pace, DRIVER(cuMemcpyPeer)(to, to_context, from, from_context, bytes));
}

HOOK CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
	CUcontext from_context, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin_peer(&pace, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyPeerAsync)(to, to_context, from, from_context, bytes, stream));
}

HOOK CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
	CUcontext from_context, size_t bytes, CUstream stream)
{
	struct pace pace;

	begin_peer(&pace, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpyPeerAsync_ptsz)(to, to_context, from, from_context, bytes, stream));
}

HOOK CUresult cuMemcpyPeer_ptds(
	CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
	struct pace pace;

	begin_peer(&pace, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpyPeer_ptds)(to, to_context, from, from_context, bytes));
}

HOOK CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	struct pace pace;

	begin_unified(&pace, to, from, bytes, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpy_ptds)(to, from, bytes));
}

HOOK CUresult cuMemcpyWithAttributesAsync(
	CUdeviceptr to, CUdeviceptr from, size_t bytes, void *attributes, CUstream stream)
{
	struct pace pace;

	begin_unified(&pace, to, from, bytes, stream);
	return end(&pace, DRIVER(cuMemcpyWithAttributesAsync)(to, from, bytes, attributes, stream));
}

HOOK CUresult cuMemcpyWithAttributesAsync_ptsz(
	CUdeviceptr to, CUdeviceptr from, size_t bytes, void *attributes, CUstream stream)
{
	struct pace pace;

	begin_unified(&pace, to, from, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpyWithAttributesAsync_ptsz)(to, from, bytes, attributes, stream));
}
