/* cuda.h - the driver's libraries, found as a program finds them, for programs that end at the first error.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cuda/functions.h"

#define NVML_MEMORY_V2 0x02000028u

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

extern struct cuda_calls {
	__typeof__(&cuInit) Init;
	__typeof__(&cuDeviceGet) DeviceGet;
	__typeof__(&cuDeviceGetName) DeviceGetName;
	__typeof__(&cuDeviceTotalMem_v2) DeviceTotalMem;
	__typeof__(&cuCtxCreate_v2) CtxCreate;
	__typeof__(&cuCtxSynchronize) CtxSynchronize;
	__typeof__(&cuMemGetInfo_v2) MemGetInfo;
	__typeof__(&cuMemAlloc_v2) MemAlloc;
	__typeof__(&cuMemFree_v2) MemFree;
	__typeof__(&cuMemsetD8_v2) MemsetD8;
	__typeof__(&cuMemcpyDtoH_v2) MemcpyDtoH;
	__typeof__(&cuModuleLoadData) ModuleLoadData;
	__typeof__(&cuModuleGetFunction) ModuleGetFunction;
	__typeof__(&cuLaunchKernel) LaunchKernel;
} cu;

extern struct nvml_calls {
	int (*Init)(void);
	int (*DeviceGetHandleByIndex)(unsigned, void **);
	int (*SystemGetDriverVersion)(char *, unsigned);
	int (*DeviceGetMemoryInfo)(void *, struct nvml_memory *);
	int (*DeviceGetMemoryInfo_v2)(void *, struct nvml_memory_v2 *); /* NULL before driver 510 */
} ml;

/* cuda_open() - the library, GPU 0 and a context on it. Ends the program with 77 where there is no GPU. */
void cuda_open(void);
CUdevice cuda_device(void);
/* cuda_symbol() - another function of the library; ends the program if it lacks it. */
void *cuda_symbol(const char *name);
/* nvml_device() - likewise of the management library. */
void *nvml_device(void);

/* must() - ends the program if `result` is not 0. */
void must(const char *call, int result);
void *must_calloc(size_t count, size_t size);
CUfunction must_kernel(const char *image, const char *name);
