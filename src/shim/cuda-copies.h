/* cuda-copies.h - copies and fills that are hooked but not in cuda/functions.h: nothing simulates them, or
 * they have the arguments of the name without _ptsz or _ptds, of the calling thread's own default stream.
 * From the signatures in the CUDA Driver API reference, 13.0, and in cuda.h of
 * 13.5. */
#pragma once

#include "cuda/functions.h"

/* From before CUDA 3.2, with addresses of 32 bits. */
typedef struct {
	unsigned int srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr_v1 srcDevice;
	CUarray srcArray;
	unsigned int srcPitch;
	unsigned int dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr_v1 dstDevice;
	CUarray dstArray;
	unsigned int dstPitch;
	unsigned int WidthInBytes, Height;
} CUDA_MEMCPY2D_v1;

typedef struct {
	unsigned int srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr_v1 srcDevice;
	CUarray srcArray;
	void *reserved0;
	unsigned int srcPitch, srcHeight;
	unsigned int dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr_v1 dstDevice;
	CUarray dstArray;
	void *reserved1;
	unsigned int dstPitch, dstHeight;
	unsigned int WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v1;

/* Its contexts lie where CUDA_MEMCPY3D has reserved words. */
typedef CUDA_MEMCPY3D CUDA_MEMCPY3D_PEER;

#define CU_MEMCPY_OPERAND_TYPE_POINTER 1

typedef struct {
	int type;
	union {
		struct {
			CUdeviceptr ptr;
			size_t rowLength, layerHeight;
			CUmemLocation locHint;
		} ptr;
		struct {
			CUarray array;
			size_t x, y, z;
		} array;
	} op;
} CUmemcpy3DOperand;

typedef struct {
	CUmemcpy3DOperand src, dst;
	struct {
		size_t width, height, depth;
	} extent;
	int srcAccessOrder;
	unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP;

typedef struct {
	size_t srcNumBytes, dstNumBytes;
	uint32_t *dstActBytes;
	const void *src;
	void *dst;
	int algo;
	unsigned char padding[20];
} CUmemDecompressParams;

/* An operand is an address, or a place in an endpoint of the fabric. */
typedef struct {
	int type;
	union {
		struct {
			CUdeviceptr ptr;
			CUmemLocation locHint;
		} ptr;
		struct {
			uint32_t id;
			uint64_t offset;
		} le;
	} op;
} CUfabricCpyOperand;

typedef struct {
	CUfabricCpyOperand src, dst;
	size_t size;
	unsigned int flags;
} CUDA_FABRIC_COPY_BATCH_OP;

_Static_assert(sizeof(CUDA_MEMCPY2D_v1) == 96, "layout");
_Static_assert(sizeof(CUDA_MEMCPY3D_v1) == 144, "layout");
_Static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == 112, "layout");
_Static_assert(sizeof(CUmemDecompressParams) == 64, "layout");
_Static_assert(sizeof(CUDA_FABRIC_COPY_BATCH_OP) == 64, "layout");

CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *, size_t, unsigned int, size_t *, CUstream);
__typeof__(cuMemBatchDecompressAsync) cuMemBatchDecompressAsync_ptsz;
CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *);
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *, CUstream);
__typeof__(cuMemPrefetchAsync) cuMemPrefetchAsync_ptsz;
__typeof__(cuMemPrefetchAsync_v2) cuMemPrefetchAsync_v2_ptsz;
__typeof__(cuMemPrefetchBatchAsync) cuMemPrefetchBatchAsync_ptsz;
__typeof__(cuMemcpy2DAsync_v2) cuMemcpy2DAsync_v2_ptsz;
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *);
__typeof__(cuMemcpy2DUnaligned_v2) cuMemcpy2DUnaligned_v2_ptds;
__typeof__(cuMemcpy2D_v2) cuMemcpy2D_v2_ptds;
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *);
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *, CUstream);
__typeof__(cuMemcpy3DAsync_v2) cuMemcpy3DAsync_v2_ptsz;
CUresult cuMemcpy3DBatchAsync(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream);
__typeof__(cuMemcpy3DBatchAsync) cuMemcpy3DBatchAsync_ptsz;
CUresult cuMemcpy3DBatchAsync_v2(size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
__typeof__(cuMemcpy3DBatchAsync_v2) cuMemcpy3DBatchAsync_v2_ptsz;
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *);
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *, CUstream);
__typeof__(cuMemcpy3DPeerAsync) cuMemcpy3DPeerAsync_ptsz;
__typeof__(cuMemcpy3DPeer) cuMemcpy3DPeer_ptds;
__typeof__(cuMemcpy3D_v2) cuMemcpy3D_v2_ptds;
__typeof__(cuMemcpyAsync) cuMemcpyAsync_ptsz;
__typeof__(cuMemcpyAtoA_v2) cuMemcpyAtoA_v2_ptds;
__typeof__(cuMemcpyAtoD_v2) cuMemcpyAtoD_v2_ptds;
__typeof__(cuMemcpyAtoHAsync_v2) cuMemcpyAtoHAsync_v2_ptsz;
__typeof__(cuMemcpyAtoH_v2) cuMemcpyAtoH_v2_ptds;
CUresult cuMemcpyBatchAsync(
	CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, size_t *, CUstream);
__typeof__(cuMemcpyBatchAsync) cuMemcpyBatchAsync_ptsz;
CUresult cuMemcpyBatchAsync_v2(
	CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, CUstream);
__typeof__(cuMemcpyBatchAsync_v2) cuMemcpyBatchAsync_v2_ptsz;
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, size_t, void *, CUstream);
__typeof__(cuMemcpyWithAttributesAsync) cuMemcpyWithAttributesAsync_ptsz;
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
__typeof__(cuMemcpy3DWithAttributesAsync) cuMemcpy3DWithAttributesAsync_ptsz;
CUresult cuFabricCpyBatchAsync(size_t, CUDA_FABRIC_COPY_BATCH_OP *, unsigned long long, CUstream);
__typeof__(cuFabricCpyBatchAsync) cuFabricCpyBatchAsync_ptsz;
__typeof__(cuMemcpyDtoA_v2) cuMemcpyDtoA_v2_ptds;
__typeof__(cuMemcpyDtoDAsync_v2) cuMemcpyDtoDAsync_v2_ptsz;
__typeof__(cuMemcpyDtoD_v2) cuMemcpyDtoD_v2_ptds;
__typeof__(cuMemcpyDtoHAsync_v2) cuMemcpyDtoHAsync_v2_ptsz;
__typeof__(cuMemcpyDtoH_v2) cuMemcpyDtoH_v2_ptds;
__typeof__(cuMemcpyHtoAAsync_v2) cuMemcpyHtoAAsync_v2_ptsz;
__typeof__(cuMemcpyHtoA_v2) cuMemcpyHtoA_v2_ptds;
__typeof__(cuMemcpyHtoDAsync_v2) cuMemcpyHtoDAsync_v2_ptsz;
__typeof__(cuMemcpyHtoD_v2) cuMemcpyHtoD_v2_ptds;
__typeof__(cuMemcpyPeerAsync) cuMemcpyPeerAsync_ptsz;
__typeof__(cuMemcpyPeer) cuMemcpyPeer_ptds;
__typeof__(cuMemcpy) cuMemcpy_ptds;
__typeof__(cuMemsetD16Async) cuMemsetD16Async_ptsz;
__typeof__(cuMemsetD16_v2) cuMemsetD16_v2_ptds;
__typeof__(cuMemsetD2D16Async) cuMemsetD2D16Async_ptsz;
__typeof__(cuMemsetD2D16_v2) cuMemsetD2D16_v2_ptds;
__typeof__(cuMemsetD2D32Async) cuMemsetD2D32Async_ptsz;
__typeof__(cuMemsetD2D32_v2) cuMemsetD2D32_v2_ptds;
__typeof__(cuMemsetD2D8Async) cuMemsetD2D8Async_ptsz;
__typeof__(cuMemsetD2D8_v2) cuMemsetD2D8_v2_ptds;
__typeof__(cuMemsetD32Async) cuMemsetD32Async_ptsz;
__typeof__(cuMemsetD32_v2) cuMemsetD32_v2_ptds;
__typeof__(cuMemsetD8Async) cuMemsetD8Async_ptsz;
__typeof__(cuMemsetD8_v2) cuMemsetD8_v2_ptds;
