/* cuda-copies.h - copies and fills that are hooked but not declared in cuda/functions.h. Either nothing
 * simulates them, or they are the _ptsz and _ptds variants, which use the calling thread's own default stream
 * and take the same arguments. The signatures are from the CUDA Driver API reference, 13.0, and from cuda.h
 * of 13.5. */
#pragma once

#include "cuda/functions.h"

/* From before CUDA 3.2, with 32-bit addresses. */
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

/* Its contexts are where CUDA_MEMCPY3D has reserved words. */
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

/* The functions in the rows of hooks.def that start work, and their variants for the calling thread's default
 * stream. */
#define WORK_V1(symbol, params, ...) CUresult symbol params;
#define WORK_V1_ASYNC(symbol, params, ...) CUresult symbol params;
#define WORK_SYNC(symbol, variant, params, ...) CUresult symbol params, symbol##_ptds params;
#define WORK_ASYNC(symbol, variant, params, ...) CUresult symbol params, symbol##_ptsz params;
#include "shim/hooks.def"
