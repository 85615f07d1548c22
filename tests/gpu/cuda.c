#include "tests/gpu/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define NO_GPU 77

struct cuda_calls cu;
struct nvml_calls ml;

static void *cuda;
static CUdevice device;

static void *library(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW);

	if (!handle) {
		fprintf(stderr, "gpu-probe: %s\n", dlerror());
		exit(NO_GPU);
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

void *cuda_symbol(const char *name)
{
	return symbol(cuda, name);
}

void cuda_open(void)
{
	CUcontext context;
	CUresult r;

	cuda = library("libcuda.so.1");
	cu.Init = cuda_symbol("cuInit");
	cu.DeviceGet = cuda_symbol("cuDeviceGet");
	cu.DeviceGetName = cuda_symbol("cuDeviceGetName");
	cu.DeviceTotalMem = cuda_symbol("cuDeviceTotalMem_v2");
	cu.CtxCreate = cuda_symbol("cuCtxCreate_v2");
	cu.CtxSynchronize = cuda_symbol("cuCtxSynchronize");
	cu.MemGetInfo = cuda_symbol("cuMemGetInfo_v2");
	cu.MemAlloc = cuda_symbol("cuMemAlloc_v2");
	cu.MemFree = cuda_symbol("cuMemFree_v2");
	cu.MemsetD8 = cuda_symbol("cuMemsetD8_v2");
	cu.MemcpyDtoH = cuda_symbol("cuMemcpyDtoH_v2");
	cu.ModuleLoadData = cuda_symbol("cuModuleLoadData");
	cu.ModuleGetFunction = cuda_symbol("cuModuleGetFunction");
	cu.LaunchKernel = cuda_symbol("cuLaunchKernel");
	r = cu.Init(0);
	if (r != CUDA_SUCCESS || cu.DeviceGet(&device, 0) != CUDA_SUCCESS) {
		fprintf(stderr, "gpu-probe: no card (cuInit says %d)\n", (int)r);
		exit(NO_GPU);
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
