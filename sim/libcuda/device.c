/* device.c - GPUs by ordinal: names, sizes, identities. */
#include <stdio.h>
#include <string.h>

#include "sim/libcuda/attributes.h"
#include "sim/libcuda/driver.h"

struct device *driver_device(CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < driver.device_count ? &driver.devices[ordinal] : NULL;
}

struct device *driver_location(CUmemLocation location)
{
	unsigned char ordinal = location.id & 0xff, domain = location.id >> 8 & 0xff;

	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return driver_device(location.id);
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN &&
		driver.state->cuda_version >= 13040 && domain == 0)
		return driver_device(ordinal);
	return NULL;
}

struct sim_gpu *device_gpu(const struct device *device)
{
	return &driver.state->gpus[device->gpu];
}

CUresult device_trouble(const struct device *device)
{
	if (atomic_load(&driver.state->retired) || atomic_load(&device_gpu(device)->health) == SIM_LOST)
		return CUDA_ERROR_UNKNOWN;
	return CUDA_SUCCESS;
}

static CUresult begin(struct call *call, CUdevice ordinal, const void *output, const char *function)
{
	CUresult r = call_begin(call, function);

	if (r != CUDA_SUCCESS)
		return r;
	if (!output)
		return CUDA_ERROR_INVALID_VALUE;
	return driver_device(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *ret_count)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_count)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_count = driver.device_count;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *ret_ordinal, int ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_ordinal, __func__);

	if (r == CUDA_SUCCESS)
		*ret_ordinal = ordinal;
	return r;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, name, __func__);
	const struct sim_gpu *gpu;

	if (r != CUDA_SUCCESS)
		return r;
	if (length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	gpu = device_gpu(driver_device(ordinal));
	snprintf(name, (size_t)length, "%.*s", (int)sizeof(gpu->name), gpu->name);
	return CUDA_SUCCESS;
}

static int nibble(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

CUresult cuDeviceGetUuid_v2(CUuuid *ret_uuid, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_uuid, __func__);
	const char *text;
	size_t at = 0;

	if (r != CUDA_SUCCESS)
		return r;
	text = device_gpu(driver_device(ordinal))->uuid + strlen("GPU-");
	for (size_t i = 0; i < sizeof(ret_uuid->bytes); i++) {
		at += text[at] == '-';
		ret_uuid->bytes[i] = (char)(nibble(text[at]) << 4 | nibble(text[at + 1]));
		at += 2;
	}
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *ret_uuid, CUdevice ordinal)
{
	return cuDeviceGetUuid_v2(ret_uuid, ordinal);
}

CUresult cuDeviceTotalMem_v2(size_t *ret_bytes, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_bytes, __func__);

	if (r == CUDA_SUCCESS)
		*ret_bytes = device_gpu(driver_device(ordinal))->memory_bytes;
	return r;
}

/* The version from the time when sizes had 32 bits. */
CUresult cuDeviceTotalMem(unsigned *ret_bytes, CUdevice ordinal)
{
	size_t bytes = 0;
	CUresult r = ret_bytes ? cuDeviceTotalMem_v2(&bytes, ordinal) : CUDA_ERROR_INVALID_VALUE;

	if (r == CUDA_SUCCESS)
		*ret_bytes = bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
	return r;
}

CUresult cuDeviceGetAttribute(int *ret_value, CUdevice_attribute attribute, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_value, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	return attribute_of_gpu(device_gpu(driver_device(ordinal)), attribute, ret_value) < 0
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *ret_major, int *ret_minor, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_major && ret_minor ? ret_major : NULL, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	*ret_major = (int)device_gpu(driver_device(ordinal))->compute_major;
	*ret_minor = (int)device_gpu(driver_device(ordinal))->compute_minor;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *ret_properties, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_properties, __func__);

	if (r == CUDA_SUCCESS)
		*ret_properties = properties_of_gpu(device_gpu(driver_device(ordinal)));
	return r;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, text, __func__);
	struct pci_place pci;

	if (r != CUDA_SUCCESS)
		return r;
	if (length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	pci = pci_of_gpu(device_gpu(driver_device(ordinal)));
	snprintf(text, (size_t)length, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *ret_ordinal, const char *text)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	unsigned domain = 0, bus, device;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_ordinal || !text ||
		(sscanf(text, "%x:%x:%x", &domain, &bus, &device) != 3 &&
			(domain = 0, sscanf(text, "%x:%x", &bus, &device) != 2)))
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < driver.device_count; i++) {
		struct pci_place pci = pci_of_gpu(device_gpu(&driver.devices[i]));

		if (pci.domain == domain && pci.bus == bus && pci.device == device) {
			*ret_ordinal = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *ret_can, CUdevice ordinal, CUdevice peer)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_can, __func__);

	if (r == CUDA_SUCCESS && !driver_device(peer))
		r = CUDA_ERROR_INVALID_DEVICE;
	if (r == CUDA_SUCCESS)
		*ret_can = ordinal != peer;
	return r;
}

/* All GPUs reach each other at the same speed. */
CUresult cuDeviceGetP2PAttribute(int *ret_value, CUdevice_P2PAttribute which, CUdevice ordinal, CUdevice peer)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_value, __func__);

	if (r == CUDA_SUCCESS && (!driver_device(peer) || ordinal == peer))
		r = CUDA_ERROR_INVALID_DEVICE;
	if (r == CUDA_SUCCESS && (which < 1 || which > 4))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_value = which == 2; /* access yes, atomics no, arrays no, performance rank 0 */
	return r;
}

/* Execution affinity requires MPS. */
CUresult cuDeviceGetExecAffinitySupport(int *ret_supported, CUexecAffinityType type, CUdevice ordinal)
{
	_cleanup_call_ struct call call = {};
	CUresult r = begin(&call, ordinal, ret_supported, __func__);

	if (r == CUDA_SUCCESS)
		*ret_supported = 0;
	return r;
}

/* There is no profiler to start or stop. That is not an error. */
CUresult cuProfilerStart(void)
{
	_cleanup_call_ struct call call = {};

	return call_begin_context(&call, __func__);
}

CUresult cuProfilerStop(void)
{
	_cleanup_call_ struct call call = {};

	return call_begin_context(&call, __func__);
}
