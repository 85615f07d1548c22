/* The GPUs that NVML shows: those of the grant, in its order. Handles are the driver's own, so all other
 * functions accept them. The handle of another GPU is never handed out. */
#include "shim/nvml-devices.h"

#include <stdlib.h>
#include <string.h>

#include "shim/nvml-library.h"
#include "shim/session.h"

int nvml_device_gpu(nvmlDevice_t device)
{
	const struct shim_session *session = session_get();
	char uuid[NVML_UUID_BUFFER_SIZE];

	if (!session || DRIVER(nvmlDeviceGetUUID)(device, uuid, sizeof(uuid)) != NVML_SUCCESS)
		return -1;
	for (unsigned i = 0; i < session->grant->gpu_count; i++)
		if (strcmp(session->grant->gpus[i].uuid, uuid) == 0)
			return (int)i;
	return -1;
}

/* Turns the driver's answer r about *device into "not found" if this is not a GPU of the grant. */
static nvmlReturn_t only_ours(nvmlReturn_t r, const nvmlDevice_t *found, nvmlDevice_t *device)
{
	if (r != NVML_SUCCESS)
		return r;
	if (nvml_device_gpu(*found) < 0)
		return NVML_ERROR_NOT_FOUND;
	*device = *found;
	return NVML_SUCCESS;
}

static nvmlReturn_t count_gpus(nvmlReturn_t r, unsigned *count)
{
	if (r == NVML_SUCCESS)
		*count = session_get()->grant->gpu_count;
	return r;
}

HOOK nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
	return count_gpus(DRIVER(nvmlDeviceGetCount)(count), count);
}

HOOK nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	return count_gpus(DRIVER(nvmlDeviceGetCount_v2)(count), count);
}

static nvmlReturn_t by_index(unsigned index, nvmlDevice_t *device)
{
	const struct shim_session *session = session_get();
	nvmlDevice_t found;
	nvmlReturn_t r = nvml_started();

	if (r != NVML_SUCCESS)
		return r;
	if (!device || index >= session->grant->gpu_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = DRIVER(nvmlDeviceGetHandleByUUID)(session->grant->gpus[index].uuid, &found);
	if (r == NVML_SUCCESS)
		*device = found;
	return r;
}

HOOK nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
	return by_index(index, device);
}

HOOK nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	return by_index(index, device);
}

HOOK nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	nvmlDevice_t found;

	return only_ours(DRIVER(nvmlDeviceGetHandleByUUID)(uuid, device ? &found : NULL), &found, device);
}

HOOK nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	nvmlDevice_t found;

	return only_ours(DRIVER(nvmlDeviceGetHandleByUUIDV)(uuid, device ? &found : NULL), &found, device);
}

HOOK nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
	nvmlDevice_t found;

	return only_ours(DRIVER(nvmlDeviceGetHandleBySerial)(serial, device ? &found : NULL), &found, device);
}

HOOK nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
	nvmlDevice_t found;

	return only_ours(
		DRIVER(nvmlDeviceGetHandleByPciBusId)(bus_id, device ? &found : NULL), &found, device);
}

HOOK nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	nvmlDevice_t found;

	return only_ours(
		DRIVER(nvmlDeviceGetHandleByPciBusId_v2)(bus_id, device ? &found : NULL), &found, device);
}

HOOK nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
	nvmlReturn_t r = DRIVER(nvmlDeviceGetIndex)(device, index);
	int gpu = r == NVML_SUCCESS ? nvml_device_gpu(device) : -1;

	/* A MIG instance keeps its own index. */
	if (gpu >= 0)
		*index = (unsigned)gpu;
	return r;
}

/* Removes GPUs outside the grant from a list of `found` entries that the driver gave. If the caller gave no
 * room, only the number is returned. */
static nvmlReturn_t keep_ours(nvmlDevice_t *list, unsigned found, unsigned *count, nvmlDevice_t *devices)
{
	unsigned room = *count, kept = 0;

	for (unsigned i = 0; i < found; i++) {
		if (nvml_device_gpu(list[i]) < 0)
			continue;
		if (devices && kept < room)
			devices[kept] = list[i];
		kept++;
	}
	*count = kept;
	return devices && kept > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

HOOK nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(
	nvmlDevice_t device, int level, unsigned *count, nvmlDevice_t *devices)
{
	nvmlDevice_t list[GRANT_FILE_GPUS_MAX];
	unsigned found = GRANT_FILE_GPUS_MAX;
	nvmlReturn_t r = DRIVER(nvmlDeviceGetTopologyNearestGpus)(device, level, count ? &found : NULL, list);

	return r == NVML_SUCCESS ? keep_ours(list, found, count, devices) : r;
}

HOOK nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned cpu, unsigned *count, nvmlDevice_t *devices)
{
	nvmlDevice_t list[GRANT_FILE_GPUS_MAX];
	unsigned found = GRANT_FILE_GPUS_MAX;
	nvmlReturn_t r = DRIVER(nvmlSystemGetTopologyGpuSet)(cpu, count ? &found : NULL, list);

	return r == NVML_SUCCESS ? keep_ours(list, found, count, devices) : r;
}

HOOK nvmlReturn_t nvmlUnitGetDevices(nvmlUnit_t unit, unsigned *count, nvmlDevice_t *devices)
{
	nvmlDevice_t list[GRANT_FILE_GPUS_MAX];
	unsigned found = GRANT_FILE_GPUS_MAX;
	nvmlReturn_t r = DRIVER(nvmlUnitGetDevices)(unit, count ? &found : NULL, list);

	return r == NVML_SUCCESS ? keep_ours(list, found, count, devices) : r;
}
