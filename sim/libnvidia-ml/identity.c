/* identity.c - which GPUs there are, and their names and addresses. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/libnvidia-ml/session.h"

struct pci_address {
	unsigned domain, bus, device;
};

/* Parses "00000000:00:09.0", "0000:00:09.0" or "00:09.0": hexadecimal, in either case. */
static int parse_pci_address(const char *text, struct pci_address *ret_address)
{
	struct pci_address a = {};
	unsigned function;
	char rest;

	if (strnlen(text, 32) >= 32)
		return -EINVAL;
	if (sscanf(text, "%8x:%2x:%2x.%1x%c", &a.domain, &a.bus, &a.device, &function, &rest) != 4) {
		a.domain = 0;
		if (sscanf(text, "%2x:%2x.%1x%c", &a.bus, &a.device, &function, &rest) != 3)
			return -EINVAL;
	}
	if (a.device > 0x1f || function != 0)
		return -EINVAL;
	*ret_address = a;
	return 0;
}

static struct pci_address gpu_address(const struct sim_gpu *gpu)
{
	struct pci_address address = {};
	char text[sizeof(gpu->bus_id) + 1] = {};

	memcpy(text, gpu->bus_id, sizeof(gpu->bus_id));
	parse_pci_address(text, &address);
	return address;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *ret_count)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_count = call.session->device_count;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *ret_count)
{
	return nvmlDeviceGetCount_v2(ret_count);
}

static nvmlReturn_t hand_out(struct session *session, unsigned index, nvmlDevice_t *ret_device)
{
	nvmlReturn_t r = device_state(session, &session->devices[index]);

	if (r == NVML_SUCCESS)
		*ret_device = &session->devices[index];
	return r;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *ret_device)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_device || index >= call.session->device_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	return hand_out(call.session, index, ret_device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *ret_device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, ret_device);
}

static nvmlReturn_t find(
	const char *wanted, bool (*matches)(const struct sim_gpu *, const char *), nvmlDevice_t *ret_device)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);

	if (r != NVML_SUCCESS)
		return r;
	if (!wanted || !ret_device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < call.session->device_count; i++)
		if (matches(&call.session->state->gpus[call.session->devices[i].gpu], wanted))
			return hand_out(call.session, i, ret_device);
	return NVML_ERROR_NOT_FOUND;
}

static bool uuid_matches(const struct sim_gpu *gpu, const char *uuid)
{
	return strncmp(gpu->uuid, uuid, sizeof(gpu->uuid)) == 0;
}

static bool serial_matches(const struct sim_gpu *gpu, const char *serial)
{
	return strncmp(gpu->serial, serial, sizeof(gpu->serial)) == 0;
}

static bool bus_id_matches(const struct sim_gpu *gpu, const char *bus_id)
{
	struct pci_address wanted, own = gpu_address(gpu);

	return parse_pci_address(bus_id, &wanted) == 0 && wanted.domain == own.domain &&
	       wanted.bus == own.bus && wanted.device == own.device;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *ret_device)
{
	return find(uuid, uuid_matches, ret_device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *ret_device)
{
	return find(serial, serial_matches, ret_device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *ret_device)
{
	return find(bus_id, bus_id_matches, ret_device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *ret_device)
{
	return find(bus_id, bus_id_matches, ret_device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_v1_t *uuid, nvmlDevice_t *ret_device)
{
	char text[sizeof(uuid->value.str) + 1] = {};
	const unsigned char *b;

	if (!uuid)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (uuid->version != NVML_UUID_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	b = uuid->value.bytes;
	if (uuid->type == 1)
		memcpy(text, uuid->value.str, sizeof(uuid->value.str));
	else if (uuid->type == 2)
		snprintf(text, sizeof(text),
			"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
			b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
			b[14], b[15]);
	else
		return NVML_ERROR_INVALID_ARGUMENT;
	return find(text, uuid_matches, ret_device);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	return r == NVML_SUCCESS ? copy_text(call.gpu->name, sizeof(call.gpu->name), name, length) : r;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	return r == NVML_SUCCESS ? copy_text(call.gpu->uuid, sizeof(call.gpu->uuid), uuid, length) : r;
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	return r == NVML_SUCCESS ? copy_text(call.gpu->serial, sizeof(call.gpu->serial), serial, length) : r;
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned length)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	return r == NVML_SUCCESS ? copy_text("88.00.00.00.00", 16, version, length) : r;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *ret_index)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_index)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_index = call.index;
	return NVML_SUCCESS;
}

void gpu_pci_info(const struct sim_gpu *gpu, nvmlPciInfo_t *ret_info)
{
	struct pci_address address = gpu_address(gpu);
	nvmlPciInfo_t info = {};

	info.domain = address.domain;
	info.bus = address.bus;
	info.device = address.device;
	info.pciDeviceId = gpu->pci_device_id;
	info.pciSubSystemId = gpu->pci_subsystem_id;
	snprintf(info.busIdLegacy, sizeof(info.busIdLegacy), "%04X:%02X:%02X.0", address.domain & 0xffff,
		address.bus & 0xff, address.device & 0x1f);
	snprintf(info.busId, sizeof(info.busId), "%08X:%02X:%02X.0", address.domain, address.bus,
		address.device);
	*ret_info = info;
}

/* Fills the first `size` bytes, which is the room that a caller of this version has. */
static nvmlReturn_t pci_info(nvmlDevice_t device, void *ret_info, size_t size)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	nvmlPciInfo_t info;

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_info)
		return NVML_ERROR_INVALID_ARGUMENT;
	gpu_pci_info(call.gpu, &info);
	if (size != sizeof(info))
		memset(info.busId, 0, sizeof(info.busId));
	memcpy(ret_info, &info, size);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *ret_info)
{
	return pci_info(device, ret_info, sizeof(*ret_info));
}

/* v2 had four reserved words after pciSubSystemId, and v1 ended before that field. */
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, void *ret_info)
{
	return pci_info(device, ret_info, offsetof(nvmlPciInfo_t, busId) + 4 * sizeof(unsigned));
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, void *ret_info)
{
	return pci_info(device, ret_info, offsetof(nvmlPciInfo_t, pciSubSystemId));
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *info)
{
	nvmlPciInfo_t plain;
	nvmlReturn_t r = pci_info(device, &plain, sizeof(plain));

	if (r != NVML_SUCCESS)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (info->version != NVML_PCI_INFO_EXT_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	info->domain = plain.domain;
	info->bus = plain.bus;
	info->device = plain.device;
	info->pciDeviceId = plain.pciDeviceId;
	info->pciSubSystemId = plain.pciSubSystemId;
	info->baseClass = 0x03; /* display controller */
	info->subClass = 0x02;	/* 3D */
	memcpy(info->busId, plain.busId, sizeof(info->busId));
	return NVML_SUCCESS;
}
