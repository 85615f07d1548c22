/* nvml-abi.h - the functions of NVIDIA's management library that the shim answers itself.
 *
 * Facts are from the NVML API reference (docs.nvidia.com/deploy/nvml-api) and the ctypes declarations of
 * nvidia-ml-py 13.615. Names are NVIDIA's, so that they can be looked up. Each version of a name is a
 * separate function.
 */
#pragma once

#include <stdint.h>

/* Included so that the hooks are compiled under their own names. */
#include "libnvidia-ml-symbols.h"

typedef int nvmlReturn_t;
enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

#define NVML_UUID_BUFFER_SIZE 96

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlUnit_st *nvmlUnit_t;
typedef struct nvmlUUID_st nvmlUUID_t;
typedef struct nvmlAccountingStats_st nvmlAccountingStats_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

#define NVML_MEMORY_VERSION_2 (sizeof(nvmlMemory_v2_t) | 2u << 24)

typedef struct {
	unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t; /* version 3 uses it too, except in some drivers: entry_size_v3() */

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t; /* nvmlProcessInfo_t of nvml.h 12.2.81 */

typedef struct {
	unsigned version, mode, numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;

typedef struct {
	unsigned pid;
	unsigned long long timeStamp;
	unsigned smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	unsigned long long timeStamp;
	unsigned pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct {
	unsigned version, processSamplesCount;
	unsigned long long lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;

typedef struct {
	unsigned pid, isRunning, gpuUtilization, memoryUtilization;
	unsigned long long maxMemoryUsage;
	unsigned sampleCount;
	unsigned long long sumGpuUtil, sumFbUtil, time, startTime;
} nvmlAccountingStats_v2_t;

_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "NVML layout");
_Static_assert(sizeof(nvmlProcessInfo_v1_t) == 16, "NVML layout");
_Static_assert(sizeof(nvmlProcessInfo_v2_t) == 24, "NVML layout");
_Static_assert(sizeof(nvmlProcessDetail_v1_t) == 32, "NVML layout");
_Static_assert(sizeof(nvmlProcessDetailList_v1_t) == 24, "NVML layout");
_Static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32, "NVML layout");
_Static_assert(sizeof(nvmlProcessUtilizationInfo_v1_t) == 40, "NVML layout");
_Static_assert(sizeof(nvmlProcessesUtilizationInfo_v1_t) == 24, "NVML layout");

const char *nvmlErrorString(nvmlReturn_t);
nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t, unsigned *, unsigned *);
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t, unsigned, nvmlAccountingStats_t *);
nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t, nvmlAccountingStats_v2_t *);
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t, nvmlBAR1Memory_t *);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t, unsigned *, nvmlProcessInfo_v1_t *);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetCount(unsigned *);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t, unsigned *, nvmlProcessInfo_v1_t *);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t, unsigned *);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t, unsigned *, nvmlProcessInfo_v1_t *);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t *);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t *);
nvmlReturn_t nvmlDeviceGetProcessUtilization(
	nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned *, unsigned long long);
nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t, nvmlProcessesUtilizationInfo_v1_t *);
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t, nvmlProcessDetailList_v1_t *);
nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t, int, unsigned *, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char *, unsigned);
nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlInitWithFlags(unsigned);
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlSystemGetProcessName(unsigned, char *, unsigned);
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned, unsigned *, nvmlDevice_t *);
nvmlReturn_t nvmlUnitGetDevices(nvmlUnit_t, unsigned *, nvmlDevice_t *);
