/* numbers.c - properties of a GPU that are a single number. */
#include <unistd.h>

#include "sim/libnvidia-ml/session.h"

typedef unsigned (*reader)(const struct sim_gpu *gpu);

static nvmlReturn_t number(nvmlDevice_t device, reader read, unsigned *ret_value)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_value)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_value = read(call.gpu);
	return NVML_SUCCESS;
}

static unsigned zero(const struct sim_gpu *gpu)
{
	return 0;
}

static unsigned minor(const struct sim_gpu *gpu)
{
	return gpu->minor;
}

static unsigned board_id(const struct sim_gpu *gpu)
{
	return gpu->board_id;
}

static unsigned brand(const struct sim_gpu *gpu)
{
	return gpu->brand;
}

static unsigned architecture(const struct sim_gpu *gpu)
{
	return gpu->architecture;
}

static unsigned cuda_cores(const struct sim_gpu *gpu)
{
	return gpu->sm_count * 64;
}

static unsigned bus_width(const struct sim_gpu *gpu)
{
	return 4096;
}

static unsigned pcie_bus(const struct sim_gpu *gpu)
{
	return NVML_BUS_TYPE_PCIE;
}

static unsigned pcie_generation(const struct sim_gpu *gpu)
{
	return gpu->architecture >= NVML_DEVICE_ARCH_HOPPER   ? 5
	       : gpu->architecture >= NVML_DEVICE_ARCH_AMPERE ? 4
							      : 3;
}

static unsigned pcie_width(const struct sim_gpu *gpu)
{
	return 16;
}

static unsigned compute_mode(const struct sim_gpu *gpu)
{
	return gpu->compute_mode;
}

static unsigned persistence(const struct sim_gpu *gpu)
{
	return atomic_load(&gpu->persistence) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
}

static unsigned power_usage(const struct sim_gpu *gpu)
{
	return gpu->power_mw;
}

static unsigned power_limit(const struct sim_gpu *gpu)
{
	return gpu->power_limit_mw;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *ret_minor)
{
	return number(device, minor, ret_minor);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned *ret_id)
{
	return number(device, board_id, ret_id);
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned *ret_multi)
{
	return number(device, zero, ret_multi);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned *ret_brand)
{
	return number(device, brand, ret_brand);
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *ret_architecture)
{
	return number(device, architecture, ret_architecture);
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned *ret_cores)
{
	return number(device, cuda_cores, ret_cores);
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned *ret_width)
{
	return number(device, bus_width, ret_width);
}

nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t device, unsigned *ret_type)
{
	return number(device, pcie_bus, ret_type);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *ret_generation)
{
	return number(device, pcie_generation, ret_generation);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *ret_generation)
{
	return number(device, pcie_generation, ret_generation);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *ret_width)
{
	return number(device, pcie_width, ret_width);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *ret_width)
{
	return number(device, pcie_width, ret_width);
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *ret_count)
{
	return number(device, zero, ret_count);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, unsigned *ret_state)
{
	return number(device, zero, ret_state);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, unsigned *ret_state)
{
	return number(device, zero, ret_state);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned *ret_mode)
{
	return number(device, compute_mode, ret_mode);
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned *ret_mode)
{
	return number(device, zero, ret_mode);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *ret_is)
{
	return number(device, zero, ret_is);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned *ret_mode)
{
	return number(device, persistence, ret_mode);
}

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned mode)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (mode != NVML_FEATURE_DISABLED && mode != NVML_FEATURE_ENABLED)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (geteuid() != 0 || !call.session->writable)
		return NVML_ERROR_NO_PERMISSION;
	atomic_store(&call.gpu->persistence, mode);
	return NVML_SUCCESS;
}

/* An idle data-centre GPU stays at P0 while persistence mode is on. */
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, unsigned *ret_state)
{
	return number(device, zero, ret_state);
}

nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, unsigned *ret_state)
{
	return number(device, zero, ret_state);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *ret_milliwatts)
{
	return number(device, power_usage, ret_milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *ret_milliwatts)
{
	return number(device, power_limit, ret_milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned *ret_milliwatts)
{
	return number(device, power_limit, ret_milliwatts);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *ret_milliwatts)
{
	return number(device, power_limit, ret_milliwatts);
}
