#include "tests/gpu/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define NO_CARD 77

struct cuda_calls cu;
struct nvml_calls ml;

static CUdevice device;

static void *library(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW);

	if (!handle) {
		fprintf(stderr, "gpu-probe: %s\n", dlerror());
		exit(NO_CARD);
	}
	return handle;
}

static void *symbol(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	if (!found) {
		fprintf(stderr, "gpu-probe: the driver has no %s\n", name);
		exit(1);
	}
	return found;
}

void must(const char *call, int result)
{
	if (result == 0)
		return;
	fprintf(stderr, "gpu-probe: %s says %d\n", call, result);
	exit(1);
}

void *must_calloc(size_t count, size_t size)
{
	void *made = calloc(count, size);

	if (!made) {
		fprintf(stderr, "gpu-probe: no memory\n");
		exit(1);
	}
	return made;
}

CUfunction must_kernel(const char *image, const char *name)
{
	CUfunction function;
	CUmodule module;

	must("cuModuleLoadData", cu.ModuleLoadData(&module, image));
	must("cuModuleGetFunction", cu.ModuleGetFunction(&function, module, name));
	return function;
}

void cuda_open(void)
{
	void *cuda = library("libcuda.so.1");
	CUcontext context;
	CUresult r;

	cu.Init = symbol(cuda, "cuInit");
	cu.DeviceGet = symbol(cuda, "cuDeviceGet");
	cu.DeviceGetName = symbol(cuda, "cuDeviceGetName");
	cu.DeviceTotalMem = symbol(cuda, "cuDeviceTotalMem_v2");
	cu.CtxCreate = symbol(cuda, "cuCtxCreate_v2");
	cu.CtxSynchronize = symbol(cuda, "cuCtxSynchronize");
	cu.MemGetInfo = symbol(cuda, "cuMemGetInfo_v2");
	cu.MemAlloc = symbol(cuda, "cuMemAlloc_v2");
	cu.MemFree = symbol(cuda, "cuMemFree_v2");
	cu.MemsetD8 = symbol(cuda, "cuMemsetD8_v2");
	cu.MemcpyDtoH = symbol(cuda, "cuMemcpyDtoH_v2");
	cu.ModuleLoadData = symbol(cuda, "cuModuleLoadData");
	cu.ModuleGetFunction = symbol(cuda, "cuModuleGetFunction");
	cu.LaunchKernel = symbol(cuda, "cuLaunchKernel");
	r = cu.Init(0);
	if (r != CUDA_SUCCESS || cu.DeviceGet(&device, 0) != CUDA_SUCCESS) {
		fprintf(stderr, "gpu-probe: no card (cuInit says %d)\n", (int)r);
		exit(NO_CARD);
	}
	must("cuCtxCreate_v2", cu.CtxCreate(&context, 0, device));
}

CUdevice cuda_device(void)
{
	return device;
}

void *nvml_device(void)
{
	void *nvml = library("libnvidia-ml.so.1"), *found;

	ml.Init = symbol(nvml, "nvmlInit_v2");
	ml.DeviceGetHandleByIndex = symbol(nvml, "nvmlDeviceGetHandleByIndex_v2");
	ml.SystemGetDriverVersion = symbol(nvml, "nvmlSystemGetDriverVersion");
	ml.DeviceGetMemoryInfo = symbol(nvml, "nvmlDeviceGetMemoryInfo");
	ml.DeviceGetMemoryInfo_v2 = dlsym(nvml, "nvmlDeviceGetMemoryInfo_v2");
	must("nvmlInit_v2", ml.Init());
	must("nvmlDeviceGetHandleByIndex_v2", ml.DeviceGetHandleByIndex(0, &found));
	return found;
}
