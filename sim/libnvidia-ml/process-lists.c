/* process-lists.c - the processes that hold memory of a GPU, in the layouts of three NVML versions. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/libnvidia-ml/session.h"

/* Returns the processes of the GPU that are visible in the caller's pid namespace. The caller frees the
 * list. */
static nvmlReturn_t visible_processes(
	const struct call *call, struct sim_process_view **ret_views, size_t *ret_count)
{
	const struct sim_processes *processes = session_processes(call->session);
	_cleanup_free_ struct sim_process_view *views = calloc(SIM_MAX_PROCESSES, sizeof(*views));
	size_t all = 0, kept = 0;

	if (!views)
		return NVML_ERROR_MEMORY;
	if (processes)
		all = sim_processes_list(processes, (unsigned)(call->gpu - call->session->state->gpus), views,
			SIM_MAX_PROCESSES);
	for (size_t i = 0; i < all; i++)
		if (views[i].pid != 0)
			views[kept++] = views[i];
	*ret_views = TAKE_PTR(views);
	*ret_count = kept;
	return NVML_SUCCESS;
}

/* NVML's rule for lists: *count is the room on entry and the number on return. Too little room answers
 * NVML_ERROR_INSUFFICIENT_SIZE with the needed number. If the list is empty, no room is a success. */
static nvmlReturn_t list(nvmlDevice_t device, unsigned *count, void *infos, size_t info_size, bool compute)
{
	_cleanup_call_ struct call call = {};
	_cleanup_free_ struct sim_process_view *views = NULL;
	nvmlReturn_t r = call_begin_device(&call, device);
	size_t found = 0;

	if (r != NVML_SUCCESS)
		return r;
	if (!count || (*count > 0 && !infos))
		return NVML_ERROR_INVALID_ARGUMENT;
	r = compute ? visible_processes(&call, &views, &found) : NVML_SUCCESS;
	if (r != NVML_SUCCESS)
		return r;
	if (found > *count) {
		*count = (unsigned)found;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	for (size_t i = 0; i < found; i++) {
		nvmlProcessInfo_v2_t info = {
			(unsigned)views[i].pid, views[i].bytes, NVML_NO_INSTANCE, NVML_NO_INSTANCE};

		memcpy((char *)infos + i * info_size, &info, info_size);
	}
	*count = (unsigned)found;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos)
{
	return list(device, count, infos, sizeof(*infos), true);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list(device, count, infos, sizeof(*infos), true);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list(device, count, infos, sizeof(*infos), true);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos)
{
	return list(device, count, infos, sizeof(*infos), false);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list(device, count, infos, sizeof(*infos), false);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list(device, count, infos, sizeof(*infos), false);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos)
{
	return list(device, count, infos, sizeof(*infos), false);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list(device, count, infos, sizeof(*infos), false);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
{
	return list(device, count, infos, sizeof(*infos), false);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list_v1)
{
	_cleanup_call_ struct call call = {};
	_cleanup_free_ struct sim_process_view *views = NULL;
	nvmlReturn_t r = call_begin_device(&call, device);
	size_t found = 0;

	if (r != NVML_SUCCESS)
		return r;
	if (!list_v1 || (list_v1->numProcArrayEntries > 0 && !list_v1->procArray))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (list_v1->version != NVML_PROCESS_DETAIL_LIST_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (list_v1->mode > NVML_PROCESS_MODE_MPS)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = list_v1->mode == NVML_PROCESS_MODE_COMPUTE ? visible_processes(&call, &views, &found)
						       : NVML_SUCCESS;
	if (r == NVML_SUCCESS && found > list_v1->numProcArrayEntries)
		r = NVML_ERROR_INSUFFICIENT_SIZE;
	for (size_t i = 0; r == NVML_SUCCESS && i < found; i++)
		list_v1->procArray[i] = (nvmlProcessDetail_v1_t){
			(unsigned)views[i].pid, views[i].bytes, NVML_NO_INSTANCE, NVML_NO_INSTANCE, 0};
	list_v1->numProcArrayEntries = (unsigned)found;
	return r;
}
