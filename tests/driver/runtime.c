/* The part of CUDA's runtime by which PyTorch finds GPUs and manages memory, on the driver's public functions
 * alone.
 *
 * NVIDIA's libcudart also uses functions without names (cuGetExportTable), which the simulated driver does
 * not have. With this library in its place PyTorch's own allocators run on the simulated driver: those for
 * pieces, for expandable segments and for pools. Each thread has the primary context of its device; kernels
 * are not launched. Types and signatures are those of NVIDIA's headers of CUDA 12.
 */
#define __CUDA_API_VERSION_INTERNAL /* functions under the names that libraries export */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define DEVICES_MAX 16

static __thread int device, bound = -1;
static __thread cudaError_t last;
static CUcontext contexts[DEVICES_MAX];

/* The numbers of both interfaces are the same for what can occur here. */
static cudaError_t answer(CUresult r)
{
	if (r != CUDA_SUCCESS)
		last = (cudaError_t)r;
	return (cudaError_t)r;
}

static cudaError_t bind(void)
{
	CUresult r = bound == device ? CUDA_SUCCESS : cuInit(0);

	if (r == CUDA_SUCCESS && !contexts[device])
		r = cuDevicePrimaryCtxRetain(&contexts[device], device);
	if (r == CUDA_SUCCESS && bound != device)
		r = cuCtxSetCurrent(contexts[device]);
	if (r == CUDA_SUCCESS)
		bound = device;
	return answer(r);
}

#define BOUND(call)                                                                                          \
	({                                                                                                   \
		cudaError_t r_ = bind();                                                                     \
		r_ ? r_ : answer(call);                                                                      \
	})

cudaError_t cudaGetDeviceCount(int *count)
{
	CUresult r = cuInit(0);

	*count = 0;
	return answer(r ? r : cuDeviceGetCount(count));
}

cudaError_t cudaGetDevice(int *ret)
{
	*ret = device;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int wanted)
{
	device = wanted;
	return bind();
}

cudaError_t cudaDriverGetVersion(int *version)
{
	return answer(cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 12040;
	return cudaSuccess;
}

static int attribute(CUdevice_attribute which, int of)
{
	int value = 0;

	cuDeviceGetAttribute(&value, which, of);
	return value;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int of)
{
	return answer(cuDeviceGetAttribute(value, (CUdevice_attribute)which, of));
}

cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *ret, int of)
{
	struct cudaDeviceProp found = {""};
	CUresult r = cuInit(0);

	if (r == CUDA_SUCCESS)
		r = cuDeviceGetName(found.name, sizeof(found.name), of);
	if (r == CUDA_SUCCESS)
		r = cuDeviceTotalMem_v2(&found.totalGlobalMem, of);
	if (r == CUDA_SUCCESS)
		r = cuDeviceGetUuid_v2((CUuuid *)&found.uuid, of);
	found.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, of);
	found.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, of);
	found.multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, of);
	found.memoryPoolsSupported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, of);
	found.pciDomainID = attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, of); /* NVML is asked by these */
	found.pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, of);
	found.pciDeviceID = attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, of);
	found.warpSize = 32;
	if (r == CUDA_SUCCESS)
		*ret = found;
	return answer(r);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	return BOUND(cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaDeviceSynchronize(void)
{
	return BOUND(cuCtxSynchronize());
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int from, int to)
{
	return answer(cuDeviceCanAccessPeer(can, from, to));
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t was = last;

	last = cudaSuccess;
	return was;
}

cudaError_t cudaPeekAtLastError(void)
{
	return last;
}

const char *cudaGetErrorString(cudaError_t error)
{
	const char *text = NULL;

	return cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error)
{
	const char *text = NULL;

	return cuGetErrorName((CUresult)error, &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **ret, size_t size)
{
	return BOUND(cuMemAlloc_v2((CUdeviceptr *)ret, size));
}

cudaError_t cudaFree(void *pointer)
{
	return pointer ? BOUND(cuMemFree_v2((CUdeviceptr)pointer)) : bind();
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
	return BOUND(cuMemGetInfo_v2(left, total));
}

cudaError_t cudaHostAlloc(void **ret, size_t size, unsigned int flags)
{
	return BOUND(cuMemHostAlloc(ret, size, flags));
}

cudaError_t cudaFreeHost(void *pointer)
{
	return BOUND(cuMemFreeHost(pointer));
}

cudaError_t cudaMemcpyAsync(
	void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return BOUND(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, size, stream));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	return BOUND(cuMemcpy((CUdeviceptr)to, (CUdeviceptr)from, size));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
	return BOUND(cuMemsetD8Async((CUdeviceptr)to, (unsigned char)value, size, stream));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *ret, const void *pointer)
{
	CUmemorytype type = 0;
	int of = 0;
	CUresult r = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pointer);

	*ret = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered};
	if (r != CUDA_SUCCESS)
		return cudaSuccess; /* of the host, unknown to the driver */
	cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)pointer);
	ret->type = (enum cudaMemoryType)type;
	ret->device = of;
	ret->devicePointer = ret->hostPointer = (void *)pointer;
	return cudaSuccess;
}

/* ---- pools ---- */

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int of)
{
	return BOUND(cuDeviceGetDefaultMemPool(pool, of));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value)
{
	return BOUND(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)which, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value)
{
	return BOUND(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)which, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count)
{
	return BOUND(cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)list, count));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	return BOUND(cuMemPoolTrimTo(pool, keep));
}

cudaError_t cudaMallocAsync(void **ret, size_t size, cudaStream_t stream)
{
	return BOUND(cuMemAllocAsync((CUdeviceptr *)ret, size, stream));
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
	return BOUND(cuMemFreeAsync((CUdeviceptr)pointer, stream));
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned int flags, int priority)
{
	return BOUND(cuStreamCreateWithPriority(ret, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	return BOUND(cuStreamDestroy_v2(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return BOUND(cuStreamQuery(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return BOUND(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	return BOUND(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	return BOUND(cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status));
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
	unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count)
{
	return BOUND(cuStreamGetCaptureInfo_v2(
		stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph, dependencies, count));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	return BOUND(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned int flags)
{
	return BOUND(cuEventCreate(ret, flags));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return BOUND(cuEventRecord(event, stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return BOUND(cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	return BOUND(cuEventSynchronize(event));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	return BOUND(cuEventDestroy_v2(event));
}

/* ---- kernels: compiled ones are registered when a library is loaded, and not looked at ---- */

void **__cudaRegisterFatBinary(void *image)
{
	static void *none;

	return &none;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
}

void __cudaUnregisterFatBinary(void **handle)
{
}

void __cudaRegisterFunction(void **handle, const char *stub, char *name, const char *mangled, int threads,
	uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
}

void __cudaRegisterVar(void **handle, char *variable, char *name, const char *mangled, int external,
	size_t size, int constant, int global)
{
}
