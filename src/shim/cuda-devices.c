#include "shim/cuda-devices.h"

#include <stdio.h>
#include <string.h>

#include "shim/cuda-library.h"
#include "shim/session.h"

/* cuInit writes these; every thread that calls it writes the same values. */
static int gpu_of[CUDA_DEVICES_MAX];	   /* by CUdevice: index in the grant plus 1; 0: not granted */
static CUdevice visible[CUDA_DEVICES_MAX]; /* the granted devices, in the driver's order */
static int visible_count;

static void uuid_text(const CUuuid *uuid, char text[64])
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(text, 64, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		b[15]);
}

/* Returns -1 if the driver's device is not one of the grant's GPUs. */
static int grant_gpu(const struct grant_file *grant, CUdevice device)
{
	CUuuid uuid = {{0}};
	char text[64];

	if (DRIVER(cuDeviceGetUuid)(&uuid, device) != CUDA_SUCCESS)
		return -1;
	uuid_text(&uuid, text);
	for (unsigned i = 0; i < grant->gpu_count; i++)
		if (strcmp(grant->gpus[i].uuid, text) == 0)
			return (int)i;
	return -1;
}

int cuda_devices_find(void)
{
	const struct shim_session *session = session_get();
	int count = 0, found = 0;

	if (!session || DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS)
		return 0;
	for (int i = 0; i < count && i < CUDA_DEVICES_MAX; i++) {
		CUdevice device;
		int gpu;

		if (DRIVER(cuDeviceGet)(&device, i) != CUDA_SUCCESS || device < 0 ||
			device >= CUDA_DEVICES_MAX)
			continue;
		gpu = grant_gpu(session->grant, device);
		if (gpu < 0)
			continue;
		__atomic_store_n(&gpu_of[device], gpu + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&visible[found++], device, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&visible_count, found, __ATOMIC_RELEASE);
	if (found < count)
		shim_log("%d of the driver's %d devices are granted", found, count);
	return found;
}

bool cuda_is_started(void)
{
	return __atomic_load_n(&visible_count, __ATOMIC_ACQUIRE) > 0;
}

int cuda_device_gpu(CUdevice device)
{
	if (device < 0 || device >= CUDA_DEVICES_MAX)
		return -1;
	return __atomic_load_n(&gpu_of[device], __ATOMIC_RELAXED) - 1;
}

int cuda_current_gpu(void)
{
	CUdevice device;

	return DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS ? cuda_device_gpu(device) : -1;
}

bool cuda_location_device(CUmemLocation location, CUdevice *ret_device)
{
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		*ret_device = location.id;
	else if (location.type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN)
		*ret_device = location.id & 0xff; /* cuda.h 13.5.37, CUmemLocation: localized.deviceId */
	else
		return false;
	return true;
}

bool cuda_location_is_host(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_HOST ||
	       location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

int cuda_managed_gpu(void)
{
	int gpu = cuda_current_gpu();

	return gpu < 0 ? 0 : gpu;
}

CUresult cuda_location_gpu(CUmemLocation location, CUmemAllocationType type, int *ret_gpu)
{
	CUdevice device;
	int gpu;

	if (cuda_location_device(location, &device)) {
		gpu = cuda_device_gpu(device);
		if (gpu < 0)
			return cuda_refuse_device();
		*ret_gpu = gpu;
		return CUDA_SUCCESS;
	}
	if (cuda_location_is_host(location) && type == CU_MEM_ALLOCATION_TYPE_PINNED) {
		*ret_gpu = -1;
		return CUDA_SUCCESS;
	}
	if (cuda_location_is_host(location) || location.type == CU_MEM_LOCATION_TYPE_NONE) {
		*ret_gpu = cuda_managed_gpu();
		return CUDA_SUCCESS;
	}
	/* This is the answer of a driver that does not know the type; programs then try another type. */
	shim_log(
		"refused memory at a location of type %d, which this version of ration does not support; update ration",
		(int)location.type);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuda_refuse_device(void)
{
	int count;
	CUresult r = DRIVER(cuDeviceGetCount)(&count);

	return r == CUDA_SUCCESS ? CUDA_ERROR_INVALID_DEVICE : r;
}

HOOK CUresult cuDeviceGetCount(int *count)
{
	CUresult r = DRIVER(cuDeviceGetCount)(count);

	if (r == CUDA_SUCCESS && count)
		*count = __atomic_load_n(&visible_count, __ATOMIC_ACQUIRE);
	return r;
}

HOOK CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUdevice first;
	/* The driver is called for its errors: not initialized, no output pointer. */
	CUresult r = DRIVER(cuDeviceGet)(device ? &first : NULL, 0);

	if (r != CUDA_SUCCESS)
		return r;
	if (ordinal < 0 || ordinal >= __atomic_load_n(&visible_count, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = __atomic_load_n(&visible[ordinal], __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

HOOK CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *bus_id)
{
	CUdevice found;
	CUresult r = DRIVER(cuDeviceGetByPCIBusId)(device ? &found : NULL, bus_id);

	if (r != CUDA_SUCCESS)
		return r;
	if (cuda_device_gpu(found) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = found;
	return CUDA_SUCCESS;
}

/* Returns the driver's list of devices that draw for the current OpenGL context, without devices that are not
 * granted. Like the driver, it sets *count to the total number and lists at most `room` of them. */
static CUresult gl_devices(__typeof__(cuGLGetDevices) *driver, unsigned int *count, CUdevice *devices,
	unsigned int room, int which)
{
	CUdevice list[CUDA_DEVICES_MAX];
	unsigned int found = 0, kept = 0;
	CUresult r = driver(count ? &found : NULL, list, CUDA_DEVICES_MAX, which);

	if (r != CUDA_SUCCESS)
		return r;
	for (unsigned int i = 0; i < found && i < CUDA_DEVICES_MAX; i++) {
		if (cuda_device_gpu(list[i]) < 0)
			continue;
		if (devices && kept < room)
			devices[kept] = list[i];
		kept++;
	}
	if (kept == 0)
		return CUDA_ERROR_NO_DEVICE;
	*count = kept;
	return CUDA_SUCCESS;
}

HOOK CUresult cuGLGetDevices(unsigned int *count, CUdevice *devices, unsigned int room, int which)
{
	return gl_devices(DRIVER(cuGLGetDevices), count, devices, room, which);
}

HOOK CUresult cuGLGetDevices_v2(unsigned int *count, CUdevice *devices, unsigned int room, int which)
{
	return gl_devices(DRIVER(cuGLGetDevices_v2), count, devices, room, which);
}
