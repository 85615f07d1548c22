#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/nvidia-smi/smi.h"

#define FUNCTION(field, symbol)                                                                              \
	{                                                                                                    \
		offsetof(struct smi_nvml, field), symbol                                                     \
	}

static const struct {
	size_t offset;
	const char *symbol;
} functions[] = {
	FUNCTION(init, "nvmlInit_v2"),
	FUNCTION(error_string, "nvmlErrorString"),
	FUNCTION(driver_version, "nvmlSystemGetDriverVersion"),
	FUNCTION(cuda_version, "nvmlSystemGetCudaDriverVersion_v2"),
	FUNCTION(process_name, "nvmlSystemGetProcessName"),
	FUNCTION(count, "nvmlDeviceGetCount_v2"),
	FUNCTION(by_index, "nvmlDeviceGetHandleByIndex_v2"),
	FUNCTION(by_uuid, "nvmlDeviceGetHandleByUUID"),
	FUNCTION(by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2"),
	FUNCTION(index, "nvmlDeviceGetIndex"),
	FUNCTION(name, "nvmlDeviceGetName"),
	FUNCTION(uuid, "nvmlDeviceGetUUID"),
	FUNCTION(serial, "nvmlDeviceGetSerial"),
	FUNCTION(pci, "nvmlDeviceGetPciInfo_v3"),
	FUNCTION(memory, "nvmlDeviceGetMemoryInfo"),
	FUNCTION(utilization, "nvmlDeviceGetUtilizationRates"),
	FUNCTION(temperature, "nvmlDeviceGetTemperature"),
	FUNCTION(fan, "nvmlDeviceGetFanSpeed"),
	FUNCTION(performance, "nvmlDeviceGetPerformanceState"),
	FUNCTION(power, "nvmlDeviceGetPowerUsage"),
	FUNCTION(power_limit, "nvmlDeviceGetEnforcedPowerLimit"),
	FUNCTION(persistence, "nvmlDeviceGetPersistenceMode"),
	FUNCTION(display_active, "nvmlDeviceGetDisplayActive"),
	FUNCTION(display_mode, "nvmlDeviceGetDisplayMode"),
	FUNCTION(compute_mode, "nvmlDeviceGetComputeMode"),
	FUNCTION(compute_capability, "nvmlDeviceGetCudaComputeCapability"),
	FUNCTION(clock, "nvmlDeviceGetClockInfo"),
	FUNCTION(ecc_mode, "nvmlDeviceGetEccMode"),
	FUNCTION(ecc_errors, "nvmlDeviceGetTotalEccErrors"),
	FUNCTION(mig_mode, "nvmlDeviceGetMigMode"),
	/* It has the form of _v3, which drivers before 495 lack. */
	FUNCTION(processes, "nvmlDeviceGetComputeRunningProcesses_v2"),
};

static int no_library(void)
{
	printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n"
	       "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n");
	return SMI_NO_LIBRARY;
}

int smi_open(struct smi *smi)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	nvmlReturn_t r;

	if (!library)
		return no_library();
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		void *function = dlsym(library, functions[i].symbol);

		if (!function)
			return no_library();
		memcpy((char *)&smi->nvml + functions[i].offset, &function, sizeof(function));
	}
	r = smi->nvml.init();
	if (r == NVML_ERROR_DRIVER_NOT_LOADED) {
		printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n");
		return SMI_NO_DRIVER;
	}
	if (r != NVML_SUCCESS) {
		printf("Failed to initialize NVML: %s\n", smi->nvml.error_string(r));
		return r > 0 && r < 255 ? r : 255;
	}
	return 0;
}

static int no_device(void)
{
	printf("No devices were found\n");
	return SMI_NO_DEVICE;
}

static int choose_one(struct smi *smi, const char *id)
{
	nvmlDevice_t device;
	char *end;
	unsigned long index = strtoul(id, &end, 10);
	nvmlReturn_t r;

	if (*id && !*end)
		r = smi->nvml.by_index((unsigned)index, &device);
	else if (strncmp(id, "GPU-", 4) == 0)
		r = smi->nvml.by_uuid(id, &device);
	else
		r = smi->nvml.by_bus_id(id, &device);
	if (r == NVML_ERROR_GPU_IS_LOST) {
		printf("Unable to determine the device handle for GPU %s: %s.  Reboot the system to recover this GPU\n",
			id, smi->nvml.error_string(r));
		return SMI_LOST;
	}
	if (r != NVML_SUCCESS || smi->count >= SMI_MAX_DEVICES)
		return no_device();
	for (unsigned i = 0; i < smi->count; i++)
		if (smi->devices[i] == device)
			return 0;
	smi->devices[smi->count++] = device;
	return 0;
}

int smi_choose(struct smi *smi, const char *ids)
{
	_cleanup_free_ char *copy = ids ? strdup(ids) : NULL;
	unsigned count = 0;
	char *rest = copy, *id;
	int rc = 0;

	if (ids) {
		while (rc == 0 && (id = strsep(&rest, ",")))
			rc = choose_one(smi, id);
		return rc;
	}
	if (smi->nvml.count(&count) != NVML_SUCCESS || count == 0)
		return no_device();
	for (unsigned i = 0; rc == 0 && i < count; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%u", i);
		rc = choose_one(smi, text);
	}
	return rc;
}

unsigned smi_running(const struct smi *smi, nvmlDevice_t device, nvmlProcessInfo_v2_t **ret_infos)
{
	_cleanup_free_ nvmlProcessInfo_v2_t *infos = NULL;
	unsigned count = 64;
	nvmlReturn_t r;

	/* More processes may have come between the two calls; the answer has the present number. */
	do {
		free(infos);
		infos = calloc(count + 16, sizeof(*infos));
		if (!infos)
			return 0;
		count += 16;
		r = smi->nvml.processes(device, &count, infos);
	} while (r == NVML_ERROR_INSUFFICIENT_SIZE && count < 1u << 20);
	*ret_infos = TAKE_PTR(infos);
	return r == NVML_SUCCESS ? count : 0;
}
