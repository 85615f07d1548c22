#include "nvml/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "nvml/abi.h"

struct nvml {
	void *library;
	bool started;
	struct nvml_functions table;
};

/* `fallback` is an older name of the same function; `optional` functions may be missing. */
static const struct symbol {
	size_t offset;
	const char *name, *fallback;
	bool optional;
} symbols[] = {
	{offsetof(struct nvml_functions, init), "nvmlInit_v2", NULL, false},
	{offsetof(struct nvml_functions, shutdown), "nvmlShutdown", NULL, false},
	{offsetof(struct nvml_functions, error_string), "nvmlErrorString", NULL, false},
	{offsetof(struct nvml_functions, driver_version), "nvmlSystemGetDriverVersion", NULL, false},
	{offsetof(struct nvml_functions, cuda_version), "nvmlSystemGetCudaDriverVersion_v2",
		"nvmlSystemGetCudaDriverVersion", false},
	{offsetof(struct nvml_functions, device_count), "nvmlDeviceGetCount_v2", NULL, false},
	{offsetof(struct nvml_functions, device_by_index), "nvmlDeviceGetHandleByIndex_v2", NULL, false},
	{offsetof(struct nvml_functions, device_by_uuid), "nvmlDeviceGetHandleByUUID", NULL, false},
	{offsetof(struct nvml_functions, device_index), "nvmlDeviceGetIndex", NULL, false},
	{offsetof(struct nvml_functions, device_minor), "nvmlDeviceGetMinorNumber", NULL, false},
	{offsetof(struct nvml_functions, device_uuid), "nvmlDeviceGetUUID", NULL, false},
	{offsetof(struct nvml_functions, device_name), "nvmlDeviceGetName", NULL, false},
	{offsetof(struct nvml_functions, device_pci), "nvmlDeviceGetPciInfo_v3", NULL, false},
	{offsetof(struct nvml_functions, device_memory), "nvmlDeviceGetMemoryInfo", NULL, false},
	{offsetof(struct nvml_functions, device_compute_mode), "nvmlDeviceGetComputeMode", NULL, false},
	{offsetof(struct nvml_functions, device_mig_mode), "nvmlDeviceGetMigMode", NULL, true},
	{offsetof(struct nvml_functions, device_memory_affinity), "nvmlDeviceGetMemoryAffinity", NULL, true},
	{offsetof(struct nvml_functions, device_compute_capability), "nvmlDeviceGetCudaComputeCapability",
		NULL, true},
	{offsetof(struct nvml_functions, device_fields), "nvmlDeviceGetFieldValues", NULL, false},
	{offsetof(struct nvml_functions, device_compute_processes), "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2", true},
	{offsetof(struct nvml_functions, device_graphics_processes),
		"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2", true},
	{offsetof(struct nvml_functions, device_utilization), "nvmlDeviceGetUtilizationRates", NULL, true},
	{offsetof(struct nvml_functions, device_process_utilization), "nvmlDeviceGetProcessUtilization", NULL,
		true},
	{offsetof(struct nvml_functions, common_ancestor), "nvmlDeviceGetTopologyCommonAncestor", NULL, true},
	{offsetof(struct nvml_functions, link_state), "nvmlDeviceGetNvLinkState", NULL, true},
	{offsetof(struct nvml_functions, link_version), "nvmlDeviceGetNvLinkVersion", NULL, true},
	{offsetof(struct nvml_functions, link_remote_type), "nvmlDeviceGetNvLinkRemoteDeviceType", NULL,
		true},
	{offsetof(struct nvml_functions, link_remote_pci), "nvmlDeviceGetNvLinkRemotePciInfo_v2", NULL, true},
	{offsetof(struct nvml_functions, event_types), "nvmlDeviceGetSupportedEventTypes", NULL, false},
	{offsetof(struct nvml_functions, event_register), "nvmlDeviceRegisterEvents", NULL, false},
	{offsetof(struct nvml_functions, event_set_create), "nvmlEventSetCreate", NULL, false},
	{offsetof(struct nvml_functions, event_set_free), "nvmlEventSetFree", NULL, false},
	{offsetof(struct nvml_functions, event_wait), "nvmlEventSetWait_v2", "nvmlEventSetWait", false},
};

/* Drivers of nvml.h 12.2.81 and 12.2.128 (535 before 535.104) report for each process how much of its memory
 * is protected. They have the first of these functions and lack the second, which nvml.h 12.2.140 added when
 * it removed that field. */
static size_t process_info_size(const struct nvml *nvml)
{
	bool longer = dlsym(nvml->library, "nvmlDeviceGetConfComputeMemSizeInfo") &&
		      !dlsym(nvml->library, "nvmlDeviceGetRunningProcessDetailList");

	return sizeof(struct nvml_process_info) + (longer ? sizeof(unsigned long long) : 0);
}

static int load_symbols(struct nvml *nvml, const char *path, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *function = dlsym(nvml->library, symbols[i].name);

		if (!function && symbols[i].fallback)
			function = dlsym(nvml->library, symbols[i].fallback);
		if (!function && !symbols[i].optional)
			return error_set(err, ELIBBAD,
				"%s: has no %s: it is not NVIDIA's management library, or belongs to a driver older than 418.87.01",
				path, symbols[i].name);
		memcpy((char *)&nvml->table + symbols[i].offset, &function, sizeof(function));
	}
	nvml->table.process_info_size = process_info_size(nvml);
	return 0;
}

/* The only place that turns NVML's results into an errno and a sentence. */
static int nvml_error(const struct nvml *nvml, int result, const char *what, struct error *err)
{
	switch (result) {
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return error_set(err, ENODEV, "%s: the NVIDIA driver is not loaded", what);
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
		return error_set(err, ELIBBAD,
			"%s: library and kernel driver differ in version: reload the driver or reboot", what);
	case NVML_ERROR_NO_PERMISSION:
		return error_set(err, EACCES, "%s: no permission for the NVIDIA device nodes", what);
	default:
		return error_set(
			err, EIO, "%s: %s (NVML %d)", what, nvml->table.error_string(result), result);
	}
}

static int start(struct nvml *nvml, struct error *err)
{
	int result = nvml->table.init();

	if (result != NVML_SUCCESS)
		return nvml_error(nvml, result, "nvmlInit", err);
	nvml->started = true;
	return 0;
}

int nvml_open(struct nvml **ret_nvml, const char *path, struct error *err)
{
	_cleanup_nvml_ struct nvml *nvml = calloc(1, sizeof(*nvml));
	const char *name = path ? path : "libnvidia-ml.so.1";
	int r;

	if (!nvml)
		return error_set(err, ENOMEM, "out of memory");
	nvml->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library) {
		const char *reason = dlerror();
		bool missing = path ? access(path, F_OK) < 0 : strstr(reason, "No such file") != NULL;

		return error_set(err, missing ? ENOENT : ELIBBAD,
			"cannot load the NVIDIA driver's library: %s", reason);
	}
	r = load_symbols(nvml, name, err);
	if (r == 0)
		r = start(nvml, err);
	if (r < 0)
		return r;
	*ret_nvml = TAKE_PTR(nvml);
	return 0;
}

struct nvml *nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return NULL;
	if (nvml->started)
		nvml->table.shutdown();
	if (nvml->library)
		dlclose(nvml->library);
	free(nvml);
	return NULL;
}

int nvml_restart(struct nvml *nvml, struct error *err)
{
	if (nvml->started)
		nvml->table.shutdown();
	nvml->started = false;
	return start(nvml, err);
}

const struct nvml_functions *nvml_table(const struct nvml *nvml)
{
	return &nvml->table;
}

/* Returns the node, if the driver names exactly one. */
static int numa_node_of(const struct nvml *nvml, nvml_device device)
{
	const size_t bits = sizeof(unsigned long) * CHAR_BIT;
	unsigned long nodes[16] = {};
	int found = -1;

	if (!nvml->table.device_memory_affinity ||
		nvml->table.device_memory_affinity(
			device, ARRAY_SIZE(nodes), nodes, NVML_AFFINITY_SCOPE_NODE) != NVML_SUCCESS)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(nodes) * bits; i++) {
		if (!(nodes[i / bits] >> (i % bits) & 1))
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

static void read_compute_capability(const struct nvml *nvml, nvml_device device, struct nvml_gpu *gpu)
{
	int major = 0, minor = 0;

	if (!nvml->table.device_compute_capability ||
		nvml->table.device_compute_capability(device, &major, &minor) != NVML_SUCCESS || major < 0 ||
		minor < 0)
		return;
	gpu->compute_major = (unsigned)major;
	gpu->compute_minor = (unsigned)minor;
}

/* Returns NVML_SUCCESS, or the reason why this GPU cannot be described. */
static int read_gpu(const struct nvml *nvml, unsigned index, struct nvml_gpu *ret_gpu)
{
	const struct nvml_functions *f = &nvml->table;
	struct nvml_gpu gpu = {.index = index, .numa_node = -1};
	struct nvml_memory memory = {};
	struct nvml_pci_info pci = {};
	unsigned mode = 0, mig = 0, pending;
	nvml_device device;
	int result = f->device_by_index(index, &device);

	if (result == NVML_SUCCESS)
		result = f->device_uuid(device, gpu.uuid, sizeof(gpu.uuid));
	if (result == NVML_SUCCESS)
		result = f->device_name(device, gpu.name, sizeof(gpu.name));
	if (result == NVML_SUCCESS)
		result = f->device_minor(device, &gpu.minor);
	if (result == NVML_SUCCESS)
		result = f->device_pci(device, &pci);
	if (result != NVML_SUCCESS)
		return result;
	/* If the memory belongs to the host (Tegra, GB10), the answer is NOT_SUPPORTED: such a GPU cannot be
	 * shared by memory. */
	result = f->device_memory(device, &memory);
	if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_SUPPORTED)
		return result;
	if (f->device_mig_mode && f->device_mig_mode(device, &mig, &pending) != NVML_SUCCESS)
		mig = 0;
	if (f->device_compute_mode(device, &mode) != NVML_SUCCESS)
		mode = NVML_COMPUTE_DEFAULT;
	memcpy(gpu.bus_id, pci.bus_id, sizeof(gpu.bus_id));
	gpu.bus_id[sizeof(gpu.bus_id) - 1] = '\0';
	gpu.memory_mib = memory.total >> 20;
	gpu.mig_enabled = mig != 0;
	gpu.compute_mode = (enum nvml_compute_mode)mode;
	gpu.numa_node = numa_node_of(nvml, device);
	read_compute_capability(nvml, device, &gpu);
	*ret_gpu = gpu;
	return NVML_SUCCESS;
}

int nvml_inventory(struct nvml *nvml, struct nvml_inventory *ret_inventory, struct error *err)
{
	_cleanup_free_ struct nvml_inventory *inventory = calloc(1, sizeof(*inventory));
	unsigned count = 0;
	int cuda = 0, result;

	if (!inventory)
		return error_set(err, ENOMEM, "out of memory");
	result = nvml->table.driver_version(inventory->driver_version, sizeof(inventory->driver_version));
	if (result != NVML_SUCCESS)
		return nvml_error(nvml, result, "driver version", err);
	if (nvml->table.cuda_version(&cuda) == NVML_SUCCESS) {
		inventory->cuda_major = (unsigned)cuda / 1000;
		inventory->cuda_minor = (unsigned)cuda % 1000 / 10;
	}
	result = nvml->table.device_count(&count);
	if (result != NVML_SUCCESS)
		return nvml_error(nvml, result, "number of GPUs", err);
	if (count > NVML_MAX_GPUS)
		return error_set(
			err, E2BIG, "%u GPUs: more than the %d that are supported", count, NVML_MAX_GPUS);
	for (unsigned i = 0; i < count; i++) {
		if (read_gpu(nvml, i, &inventory->gpus[inventory->count]) == NVML_SUCCESS)
			inventory->count++;
		else
			inventory->unreachable++;
	}
	*ret_inventory = *inventory;
	return 0;
}
