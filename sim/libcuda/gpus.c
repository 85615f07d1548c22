#include "sim/libcuda/gpus.h"

static uint64_t capacity(const struct device *device)
{
	const struct sim_gpu *gpu = device_gpu(device);

	return gpu->memory_bytes > gpu->idle_used_bytes ? gpu->memory_bytes - gpu->idle_used_bytes : 0;
}

CUresult gpu_take(struct device *device, uint64_t bytes)
{
	uint32_t argument;

	if (sim_trouble_hit(driver.trouble, SIM_FAULT_OOM, "", device->gpu, &argument) ||
		sim_memory_take(&driver.processes, driver.slot, device->gpu, bytes, capacity(device)) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fault_point("memory.taken", device->gpu);
	return CUDA_SUCCESS;
}

void gpu_give(struct device *device, uint64_t bytes)
{
	fault_point("memory.giving", device->gpu);
	sim_memory_give(&driver.processes, driver.slot, device->gpu, bytes);
}

void gpu_memory(const struct device *device, uint64_t *ret_free, uint64_t *ret_total)
{
	uint64_t used = sim_processes_used(&driver.processes, device->gpu), all = capacity(device);

	*ret_free = used < all ? all - used : 0;
	*ret_total = device_gpu(device)->memory_bytes;
}
