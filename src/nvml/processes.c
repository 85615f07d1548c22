/* processes.c - reads which processes hold memory of a GPU. */
#include "nvml/nvml.h"

#include <errno.h>
#include <string.h>

#include "nvml/abi.h"

typedef int (*list_function)(nvml_device device, unsigned *count, void *infos);

/* A process that both computes and draws is in two lists, with the same memory. */
static void add(struct nvml_process *list, size_t *count, const struct nvml_process_info *info)
{
	for (size_t i = 0; i < *count; i++) {
		if (list[i].pid != (pid_t)info->pid)
			continue;
		if (list[i].bytes < info->bytes)
			list[i].bytes = info->bytes;
		return;
	}
	if (*count < NVML_MAX_PROCESSES)
		list[(*count)++] = (struct nvml_process){(pid_t)info->pid, info->bytes};
}

/* infos: room for NVML_MAX_PROCESSES entries of this size. */
static int add_list(list_function function, nvml_device device, size_t size, char *infos,
	struct nvml_process *list, size_t *count)
{
	unsigned found = NVML_MAX_PROCESSES;
	int result = function(device, &found, infos);

	if (result == NVML_ERROR_NOT_SUPPORTED)
		return -ENOTSUP;
	if (result != NVML_SUCCESS)
		return result == NVML_ERROR_GPU_IS_LOST ? -ENODEV : -EIO;
	for (unsigned i = 0; i < found && i < NVML_MAX_PROCESSES; i++) {
		struct nvml_process_info info;

		memcpy(&info, infos + i * size, sizeof(info));
		if (info.bytes != NVML_VALUE_NOT_AVAILABLE)
			add(list, count, &info);
	}
	return 0;
}

int nvml_processes(struct nvml *nvml, const char *uuid, struct nvml_process *ret_list, size_t *ret_count)
{
	const struct nvml_functions *f = nvml_table(nvml);
	size_t size = f->process_info_size;
	_cleanup_free_ char *infos = calloc(NVML_MAX_PROCESSES, size);
	nvml_device device;
	size_t count = 0;
	int r;

	if (!infos)
		return -ENOMEM;
	if (!f->device_compute_processes)
		return -ENOTSUP;
	if (f->device_by_uuid(uuid, &device) != NVML_SUCCESS)
		return -ENODEV;
	r = add_list(f->device_compute_processes, device, size, infos, ret_list, &count);
	/* Compute GPUs may have no graphics. */
	if (r == 0 && f->device_graphics_processes)
		r = add_list(f->device_graphics_processes, device, size, infos, ret_list, &count);
	if (r < 0 && r != -ENOTSUP)
		return r;
	if (r == -ENOTSUP && count == 0)
		return r;
	*ret_count = count;
	return 0;
}
