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

/* Memory of a GPU as NVML shows it: the limit, and what this container uses of it. The driver is called
 * first, for its errors. */

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
