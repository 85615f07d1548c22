#include "sim/libcuda/cards.h"

static uint64_t capacity(const struct device *device)
{
	const struct sim_card *card = device_card(device);

	return card->memory_bytes > card->idle_used_bytes ? card->memory_bytes - card->idle_used_bytes : 0;
}

CUresult card_take(struct device *device, uint64_t bytes)
{
	uint32_t argument;

	if (sim_trouble_hit(driver.trouble, SIM_FAULT_OOM, "", device->card, &argument) ||
		sim_memory_take(&driver.processes, driver.slot, device->card, bytes, capacity(device)) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fault_point("memory.taken", device->card);
	return CUDA_SUCCESS;
}

void card_give(struct device *device, uint64_t bytes)
{
	fault_point("memory.giving", device->card);
	sim_memory_give(&driver.processes, driver.slot, device->card, bytes);
}

void card_memory(const struct device *device, uint64_t *ret_free, uint64_t *ret_total)
{
	uint64_t used = sim_processes_used(&driver.processes, device->card), all = capacity(device);

	*ret_free = used < all ? all - used : 0;
	*ret_total = device_card(device)->memory_bytes;
}
