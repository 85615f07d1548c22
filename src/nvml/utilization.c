/* utilization.c - reads how busy a GPU was, and which processes used it. */
#include "nvml/nvml.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "nvml/abi.h"

#define PERIOD_US UINT64_C(166667)

/* The driver keeps several sample periods, and lists in each the processes that used the GPU. A process
 * counts with its mean over as many periods as the process with the most samples has. */
struct sample_sum {
	pid_t pid;
	uint32_t percent, samples;
};

static void add(struct sample_sum *sums, size_t *count, const struct nvml_process_sample *sample)
{
	uint32_t percent = sample->sm_percent < 100 ? sample->sm_percent : 100;

	for (size_t i = 0; i < *count; i++) {
		if (sums[i].pid != (pid_t)sample->pid)
			continue;
		sums[i].percent += percent;
		sums[i].samples++;
		return;
	}
	if (*count < NVML_MAX_PROCESSES)
		sums[(*count)++] = (struct sample_sum){(pid_t)sample->pid, percent, 1};
}

static void give_means(
	const struct sample_sum *sums, size_t count, struct nvml_process_use *list, size_t *ret_count)
{
	uint32_t periods = 1;

	for (size_t i = 0; i < count; i++)
		periods = sums[i].samples > periods ? sums[i].samples : periods;
	for (size_t i = 0; i < count; i++)
		list[i] = (struct nvml_process_use){sums[i].pid, (sums[i].percent + periods / 2) / periods};
	*ret_count = count;
}

/* For a process that has just begun to use the GPU, only recent samples count, and not the mean since its
 * last use or since the beginning. (The driver's sample periods are at least a sixth of a second, nvml.h. Its
 * times are times of day, which may be set back.) */
static uint64_t since_of(uint64_t last_us)
{
	uint64_t now_us = (uint64_t)realtime_ns() / 1000;

	if (last_us > now_us)
		return now_us;
	return last_us + PERIOD_US < now_us ? now_us - PERIOD_US : last_us;
}

static int read_processes(const struct nvml_functions *f, nvml_device device, uint64_t *since_us,
	struct nvml_process_use *list, size_t *ret_count)
{
	_cleanup_free_ struct nvml_process_sample *samples = calloc(NVML_MAX_PROCESSES, sizeof(*samples));
	_cleanup_free_ struct sample_sum *sums = calloc(NVML_MAX_PROCESSES, sizeof(*sums));
	unsigned found = NVML_MAX_PROCESSES;
	size_t count = 0;
	int result;

	if (!samples || !sums)
		return -ENOMEM;
	result = f->device_process_utilization(device, samples, &found, *since_us);
	/* No process has used the GPU since. */
	if (result == NVML_ERROR_NOT_FOUND)
		found = 0;
	else if (result == NVML_ERROR_NOT_SUPPORTED)
		return -ENOTSUP;
	else if (result != NVML_SUCCESS)
		return result == NVML_ERROR_GPU_IS_LOST ? -ENODEV : -EIO;
	for (unsigned i = 0; i < found && i < NVML_MAX_PROCESSES; i++) {
		add(sums, &count, &samples[i]);
		if (samples[i].time_us > *since_us)
			*since_us = samples[i].time_us;
	}
	*since_us = since_of(*since_us);
	give_means(sums, count, list, ret_count);
	return 0;
}

int nvml_utilization(struct nvml *nvml, const char *uuid, uint64_t *since_us, unsigned *ret_gpu_percent,
	struct nvml_process_use *ret_list, size_t *ret_count)
{
	const struct nvml_functions *f = nvml_table(nvml);
	struct nvml_utilization_rates rates;
	nvml_device device;
	int result;

	if (!f->device_process_utilization || !f->device_utilization)
		return -ENOTSUP;
	if (f->device_by_uuid(uuid, &device) != NVML_SUCCESS)
		return -ENODEV;
	result = f->device_utilization(device, &rates);
	if (result != NVML_SUCCESS)
		return result == NVML_ERROR_NOT_SUPPORTED ? -ENOTSUP : -EIO;
	result = read_processes(f, device, since_us, ret_list, ret_count);
	if (result == 0)
		*ret_gpu_percent = rates.gpu < 100 ? rates.gpu : 100;
	return result;
}
