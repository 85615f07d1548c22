/* readings.c - memory, utilisation, temperature, clocks, ECC and modes of a GPU. */
#include <stdint.h>
#include <time.h>

#include "sim/libnvidia-ml/session.h"

struct memory {
	uint64_t total, used;
};

static struct memory gpu_memory(const struct call *call)
{
	const struct sim_processes *processes = session_processes(call->session);
	struct memory memory = {call->gpu->memory_bytes, call->gpu->idle_used_bytes};

	if (processes)
		memory.used += sim_processes_used(
			processes, (unsigned)(call->gpu - call->session->state->gpus));
	/* Processes write the table and may write wrong numbers; a GPU never shows more memory than it
	 * has. */
	if (memory.used > memory.total)
		memory.used = memory.total;
	return memory;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *ret_memory)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	struct memory memory;

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	memory = gpu_memory(&call);
	*ret_memory = (nvmlMemory_t){memory.total, memory.total - memory.used, memory.used};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	struct memory now;

	if (r != NVML_SUCCESS)
		return r;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory->version != NVML_MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	now = gpu_memory(&call);
	memory->total = now.total;
	memory->reserved = 0;
	memory->used = now.used;
	memory->free = now.total - now.used;
	return NVML_SUCCESS;
}

/* BAR1 is a power of two that covers the GPU's memory, as on data-centre GPUs. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *ret_memory)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	uint64_t size = UINT64_C(1) << 28;

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	while (size < call.gpu->memory_bytes && size < UINT64_C(1) << 62)
		size <<= 1;
	*ret_memory = (nvmlBAR1Memory_t){size, size, 0};
	return NVML_SUCCESS;
}

static nvmlReturn_t idle_engine(nvmlDevice_t device, unsigned *ret_utilization, unsigned *ret_period_us)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_utilization || !ret_period_us)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_utilization = 0;
	*ret_period_us = 167000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(
	nvmlDevice_t device, unsigned *ret_percent, unsigned *ret_period_us)
{
	return idle_engine(device, ret_percent, ret_period_us);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(
	nvmlDevice_t device, unsigned *ret_percent, unsigned *ret_period_us)
{
	return idle_engine(device, ret_percent, ret_period_us);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *ret_celsius)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_celsius || sensor != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_celsius = call.gpu->temperature_c;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature)
{
	unsigned celsius;
	nvmlReturn_t r;

	if (!temperature)
		return nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, NULL);
	r = nvmlDeviceGetTemperature(device, temperature->sensorType, &celsius);
	if (r != NVML_SUCCESS)
		return r;
	if (temperature->version != NVML_TEMPERATURE_V1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	temperature->temperature = (int)celsius;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned threshold, unsigned *ret_celsius)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_celsius)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (threshold > NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
		return NVML_ERROR_NOT_SUPPORTED;
	*ret_celsius = threshold == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN ? 90 : 87;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(
	nvmlDevice_t device, unsigned *ret_min, unsigned *ret_max)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_min || !ret_max)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_min = call.gpu->power_limit_mw / 2;
	*ret_max = call.gpu->power_limit_mw;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *ret_mhz)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_mhz || type >= NVML_CLOCK_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_mhz = type == NVML_CLOCK_MEM ? call.gpu->memory_clock_mhz : call.gpu->sm_clock_mhz;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *ret_mhz)
{
	return nvmlDeviceGetClockInfo(device, type, ret_mhz);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned type, unsigned *ret_mhz)
{
	return nvmlDeviceGetClockInfo(device, type, ret_mhz);
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, unsigned type, unsigned *ret_mhz)
{
	return nvmlDeviceGetClockInfo(device, type, ret_mhz);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned type, unsigned id, unsigned *ret_mhz)
{
	nvmlReturn_t r = nvmlDeviceGetClockInfo(device, type, ret_mhz);

	return r == NVML_SUCCESS && id >= NVML_CLOCK_ID_COUNT ? NVML_ERROR_INVALID_ARGUMENT : r;
}

/* A list with one entry: the simulated GPU has a single clock. */
static nvmlReturn_t one_clock(unsigned mhz, unsigned *count, unsigned *ret_clocks)
{
	if (!count || (*count > 0 && !ret_clocks))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (*count == 0) {
		*count = 1;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	*count = 1;
	ret_clocks[0] = mhz;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned *count, unsigned *ret_clocks)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	return r == NVML_SUCCESS ? one_clock(call.gpu->memory_clock_mhz, count, ret_clocks) : r;
}

nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(
	nvmlDevice_t device, unsigned memory_mhz, unsigned *count, unsigned *ret_clocks)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (memory_mhz != call.gpu->memory_clock_mhz)
		return NVML_ERROR_NOT_FOUND;
	return one_clock(call.gpu->sm_clock_mhz, count, ret_clocks);
}

static nvmlReturn_t no_reasons(nvmlDevice_t device, unsigned long long *ret_reasons)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_reasons)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_reasons = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *ret_reasons)
{
	return no_reasons(device, ret_reasons);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *ret_reasons)
{
	return no_reasons(device, ret_reasons);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter, unsigned *ret_kib_per_s)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_kib_per_s || counter >= NVML_PCIE_UTIL_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_kib_per_s = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *ret_major, int *ret_minor)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_major || !ret_minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_major = (int)call.gpu->compute_major;
	*ret_minor = (int)call.gpu->compute_minor;
	return NVML_SUCCESS;
}

/* A pair: the present value, and the value after the next reset. */
static nvmlReturn_t mode_pair(nvmlDevice_t device, bool ecc, unsigned *ret_current, unsigned *ret_pending)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_current || !ret_pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!ecc && call.gpu->mig == SIM_MIG_UNSUPPORTED)
		return NVML_ERROR_NOT_SUPPORTED;
	*ret_current = *ret_pending = ecc || call.gpu->mig == SIM_MIG_ENABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *ret_current, unsigned *ret_pending)
{
	return mode_pair(device, true, ret_current, ret_pending);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *ret_current, unsigned *ret_pending)
{
	return mode_pair(device, false, ret_current, ret_pending);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *ret_count)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_count = call.gpu->mig == SIM_MIG_UNSUPPORTED ? 0 : 7;
	return NVML_SUCCESS;
}

/* The simulated driver has no MIG instances. A GPU with MIG enabled exists so that tests can check that
 * programs refuse it. */
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(
	nvmlDevice_t device, unsigned index, nvmlDevice_t *ret_device)
{
	unsigned count;
	nvmlReturn_t r = nvmlDeviceGetMaxMigDeviceCount(device, &count);

	if (r != NVML_SUCCESS)
		return r;
	return !ret_device || index >= count ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(
	nvmlDevice_t device, unsigned type, unsigned counter, unsigned long long *ret_count)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_count || type >= NVML_MEMORY_ERROR_TYPE_COUNT || counter >= NVML_ECC_COUNTER_TYPE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (type == NVML_MEMORY_ERROR_TYPE_CORRECTED)
		*ret_count = 0;
	else
		*ret_count = atomic_load(
			counter == NVML_VOLATILE_ECC ? &call.gpu->ecc_volatile : &call.gpu->ecc_aggregate);
	return NVML_SUCCESS;
}

static nvmlReturn_t field_value(const struct sim_gpu *gpu, nvmlFieldValue_t *field)
{
	field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
	switch (field->fieldId) {
	case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
		field->value.ullVal = atomic_load(&gpu->ecc_volatile);
		return NVML_SUCCESS;
	case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
		field->value.ullVal = atomic_load(&gpu->ecc_aggregate);
		return NVML_SUCCESS;
	case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
		field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		field->value.uiVal = atomic_load(&gpu->recovery_action);
		return NVML_SUCCESS;
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	struct timespec now;

	if (r != NVML_SUCCESS)
		return r;
	if (count <= 0 || !values)
		return NVML_ERROR_INVALID_ARGUMENT;
	clock_gettime(CLOCK_REALTIME, &now);
	for (int i = 0; i < count; i++) {
		values[i].timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
		values[i].latencyUsec = 0;
		values[i].nvmlReturn = field_value(call.gpu, &values[i]);
	}
	return NVML_SUCCESS;
}
