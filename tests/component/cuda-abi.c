/* cuda-abi.c - prints where src/cuda/abi.h puts what: "TYPE FIELD OFFSET SIZE" for each field and "TYPE - 0
 * SIZE" for the whole, for test_cuda_abi.py to compare with NVIDIA's own bindings. */
#include <stdio.h>

#include "cuda/functions.h"

#define FIELD(type, field)                                                                                   \
	printf(#type " " #field " %zu %zu\n", offsetof(type, field), sizeof(((type *)0)->field))
#define WHOLE(type) printf(#type " - 0 %zu\n", sizeof(type))

static void arrays(void)
{
	WHOLE(CUDA_ARRAY_DESCRIPTOR);
	FIELD(CUDA_ARRAY_DESCRIPTOR, Width);
	FIELD(CUDA_ARRAY_DESCRIPTOR, Height);
	FIELD(CUDA_ARRAY_DESCRIPTOR, NumChannels);
	WHOLE(CUDA_ARRAY3D_DESCRIPTOR);
	FIELD(CUDA_ARRAY3D_DESCRIPTOR, Depth);
	FIELD(CUDA_ARRAY3D_DESCRIPTOR, NumChannels);
	FIELD(CUDA_ARRAY3D_DESCRIPTOR, Flags);
	WHOLE(CUDA_ARRAY_MEMORY_REQUIREMENTS);
	FIELD(CUDA_ARRAY_MEMORY_REQUIREMENTS, size);
	FIELD(CUDA_ARRAY_MEMORY_REQUIREMENTS, alignment);
}

static void copies(void)
{
	WHOLE(CUDA_MEMCPY2D);
	FIELD(CUDA_MEMCPY2D, srcY);
	FIELD(CUDA_MEMCPY2D, srcPitch);
	FIELD(CUDA_MEMCPY2D, dstXInBytes);
	FIELD(CUDA_MEMCPY2D, dstPitch);
	FIELD(CUDA_MEMCPY2D, WidthInBytes);
	FIELD(CUDA_MEMCPY2D, Height);
	WHOLE(CUDA_MEMCPY3D);
	FIELD(CUDA_MEMCPY3D, srcLOD);
	FIELD(CUDA_MEMCPY3D, srcPitch);
	FIELD(CUDA_MEMCPY3D, dstLOD);
	FIELD(CUDA_MEMCPY3D, dstHeight);
	FIELD(CUDA_MEMCPY3D, WidthInBytes);
	FIELD(CUDA_MEMCPY3D, Depth);
}

static void memory(void)
{
	WHOLE(CUmemLocation);
	FIELD(CUmemLocation, id);
	WHOLE(CUmemAllocationProp);
	FIELD(CUmemAllocationProp, location.id);
	FIELD(CUmemAllocationProp, allocFlags.compressionType);
	FIELD(CUmemAllocationProp, allocFlags.usage);
	WHOLE(CUmemAccessDesc);
	FIELD(CUmemAccessDesc, location.id);
	WHOLE(CUmemPoolProps);
	FIELD(CUmemPoolProps, location.id);
	FIELD(CUmemPoolProps, maxSize);
	FIELD(CUmemPoolProps, usage);
	WHOLE(CUmemPoolPtrExportData);
	WHOLE(CUipcMemHandle);
	WHOLE(CUipcEventHandle);
	WHOLE(CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
	FIELD(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle.fd);
	FIELD(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
	FIELD(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags);
	WHOLE(CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
	FIELD(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, offset);
	FIELD(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size);
	FIELD(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags);
	WHOLE(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC);
	FIELD(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, offset);
	FIELD(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, numLevels);
	WHOLE(CUmulticastObjectProp);
	FIELD(CUmulticastObjectProp, numDevices);
	FIELD(CUmulticastObjectProp, size);
	FIELD(CUmulticastObjectProp, flags);
}

static void work(void)
{
	WHOLE(CUuuid);
	WHOLE(CUdevprop);
	FIELD(CUdevprop, maxThreadsPerBlock);
	FIELD(CUdevprop, SIMDWidth);
	FIELD(CUdevprop, textureAlign);
	WHOLE(CUexecAffinityParam);
	WHOLE(CUctxCreateParams);
	WHOLE(CUlaunchAttributeValue);
	FIELD(CUlaunchAttributeValue, cooperative);
	WHOLE(CUlaunchAttribute);
	FIELD(CUlaunchAttribute, value.cooperative);
	WHOLE(CUlaunchConfig);
	FIELD(CUlaunchConfig, gridDimZ);
	FIELD(CUlaunchConfig, blockDimX);
	FIELD(CUlaunchConfig, sharedMemBytes);
	WHOLE(CUDA_LAUNCH_PARAMS);
	FIELD(CUDA_LAUNCH_PARAMS, sharedMemBytes);
}

static void graphs(void)
{
	WHOLE(CUDA_GRAPH_INSTANTIATE_PARAMS);
	FIELD(CUDA_GRAPH_INSTANTIATE_PARAMS, flags);
	WHOLE(CUgraphExecUpdateResultInfo);
	WHOLE(CUgraphEdgeData);
	FIELD(CUgraphEdgeData, to_port);
	FIELD(CUgraphEdgeData, type);
	WHOLE(CUDA_KERNEL_NODE_PARAMS_v1);
	WHOLE(CUDA_KERNEL_NODE_PARAMS);
	FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimX);
	FIELD(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
	WHOLE(CUDA_MEMSET_NODE_PARAMS);
	FIELD(CUDA_MEMSET_NODE_PARAMS, pitch);
	FIELD(CUDA_MEMSET_NODE_PARAMS, value);
	FIELD(CUDA_MEMSET_NODE_PARAMS, height);
	WHOLE(CUDA_MEMSET_NODE_PARAMS_v2);
	WHOLE(CUDA_HOST_NODE_PARAMS);
	WHOLE(CUDA_MEMCPY_NODE_PARAMS);
	FIELD(CUDA_MEMCPY_NODE_PARAMS, flags);
	FIELD(CUDA_MEMCPY_NODE_PARAMS, copyParams.Depth);
	WHOLE(CUDA_CHILD_GRAPH_NODE_PARAMS);
	WHOLE(CUDA_MEM_ALLOC_NODE_PARAMS);
	FIELD(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.maxSize);
	FIELD(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
	WHOLE(CUDA_MEM_FREE_NODE_PARAMS);
	WHOLE(CUgraphNodeParams);
	FIELD(CUgraphNodeParams, kernel.gridDimX);
	FIELD(CUgraphNodeParams, kernel.sharedMemBytes);
	FIELD(CUgraphNodeParams, memcpy.copyParams.Depth);
	FIELD(CUgraphNodeParams, alloc.bytesize);
}

int main(void)
{
	arrays();
	copies();
	memory();
	work();
	graphs();
	return 0;
}
