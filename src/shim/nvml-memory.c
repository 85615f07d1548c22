/* Memory of a GPU as NVML shows it: the limit, and what this container uses of it. The driver is called
 * first, for its errors. */
#include "shim/nvml-devices.h"
#include "shim/nvml-library.h"
#include "shim/session.h"

/* Returns false if this is not a GPU of the grant (a MIG instance); its numbers stay unchanged. */
static bool memory_of(nvmlDevice_t device, struct session_memory *ret_memory)
{
	int gpu = nvml_device_gpu(device);

	if (gpu < 0)
		return false;
	*ret_memory = session_memory(session_get(), (unsigned)gpu);
	return true;
}

HOOK nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *info)
{
	nvmlReturn_t r = DRIVER(nvmlDeviceGetMemoryInfo)(device, info);
	struct session_memory memory;

	if (r == NVML_SUCCESS && memory_of(device, &memory))
		*info = (nvmlMemory_t){
			memory.limit_bytes, memory.limit_bytes - memory.used_bytes, memory.used_bytes};
	return r;
}

/* Gives the answer of version 2 on a driver before 510, which has only version 1. */
static nvmlReturn_t memory_by_v1(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
	nvmlMemory_t old;
	nvmlReturn_t r = DRIVER(nvmlDeviceGetMemoryInfo)(device, info ? &old : NULL);

	if (r != NVML_SUCCESS)
		return r;
	if (info->version != NVML_MEMORY_VERSION_2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	*info = (nvmlMemory_v2_t){info->version, old.total, 0, old.free, old.used};
	return NVML_SUCCESS;
}

HOOK nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
	bool has = shim_driver_has(SYMBOL_nvmlDeviceGetMemoryInfo_v2);
	nvmlReturn_t r = has ? DRIVER(nvmlDeviceGetMemoryInfo_v2)(device, info) : memory_by_v1(device, info);
	struct session_memory memory;

	/* What the driver reserves for itself is not part of the limit. */
	if (r == NVML_SUCCESS && memory_of(device, &memory))
		*info = (nvmlMemory_v2_t){info->version, memory.limit_bytes, 0,
			memory.limit_bytes - memory.used_bytes, memory.used_bytes};
	return r;
}

static unsigned long long smaller(unsigned long long a, unsigned long long b)
{
	return a < b ? a : b;
}

HOOK nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *info)
{
	nvmlReturn_t r = DRIVER(nvmlDeviceGetBAR1MemoryInfo)(device, info);
	struct session_memory memory;

	if (r != NVML_SUCCESS || !memory_of(device, &memory))
		return r;
	info->bar1Total = smaller(info->bar1Total, memory.limit_bytes);
	info->bar1Used = smaller(smaller(info->bar1Used, memory.used_bytes), info->bar1Total);
	info->bar1Free = info->bar1Total - info->bar1Used;
	return r;
}
