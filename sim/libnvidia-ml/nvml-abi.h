/* nvml-abi.h - the part of NVML's binary interface that is simulated: NVIDIA's names, numbers and layouts.
 *
 * The facts are from the NVML API reference (docs.nvidia.com/deploy/nvml-api) and the ctypes declarations of
 * nvidia-ml-py 13.615. src/nvml/ has its own, smaller declarations, so that a mistake here cannot hide one
 * there.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int nvmlReturn_t;
enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_INSUFFICIENT_POWER = 8,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_IRQ_ISSUE = 11,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_CORRUPTED_INFOROM = 14,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_OPERATING_SYSTEM = 17,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_IN_USE = 19,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_NO_DATA = 21,
	NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
	NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
	NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_DEPRECATED = 26,
	NVML_ERROR_NOT_READY = 27,
	NVML_ERROR_GPU_NOT_FOUND = 28,
	NVML_ERROR_INVALID_STATE = 29,
	NVML_ERROR_UNKNOWN = 999,
};

typedef struct sim_device *nvmlDevice_t;
typedef struct sim_event_set *nvmlEventSet_t;

enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 };
enum { NVML_INIT_FLAG_NO_GPUS = 1, NVML_INIT_FLAG_NO_ATTACH = 2 };
enum { NVML_BRAND_TESLA = 2, NVML_BRAND_NVIDIA = 14 };
enum {
	NVML_DEVICE_ARCH_VOLTA = 5,
	NVML_DEVICE_ARCH_TURING,
	NVML_DEVICE_ARCH_AMPERE,
	NVML_DEVICE_ARCH_ADA,
	NVML_DEVICE_ARCH_HOPPER,
	NVML_DEVICE_ARCH_BLACKWELL
};
enum {
	NVML_COMPUTEMODE_DEFAULT,
	NVML_COMPUTEMODE_EXCLUSIVE_THREAD,
	NVML_COMPUTEMODE_PROHIBITED,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
	NVML_COMPUTEMODE_COUNT
};
enum { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO, NVML_CLOCK_COUNT };
enum { NVML_CLOCK_ID_COUNT = 4 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN };
enum { NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_MEMORY_ERROR_TYPE_COUNT };
enum { NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC, NVML_ECC_COUNTER_TYPE_COUNT };
enum {
	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50
};
enum {
	NVML_P2P_CAPS_INDEX_READ,
	NVML_P2P_CAPS_INDEX_WRITE,
	NVML_P2P_CAPS_INDEX_NVLINK,
	NVML_P2P_CAPS_INDEX_ATOMICS,
	NVML_P2P_CAPS_INDEX_PCI,
	NVML_P2P_CAPS_INDEX_UNKNOWN
};
enum { NVML_P2P_STATUS_OK = 0, NVML_P2P_STATUS_NOT_SUPPORTED = 5 };
enum { NVML_NVLINK_DEVICE_TYPE_GPU = 0, NVML_NVLINK_DEVICE_TYPE_SWITCH = 2 };
enum { NVML_NVLINK_CAP_P2P_SUPPORTED, NVML_NVLINK_CAP_COUNT = 6 };
enum { NVML_GPU_RECOVERY_ACTION_NONE = 0, NVML_GPU_RECOVERY_ACTION_GPU_RESET = 1 };
enum {
	NVML_FI_DEV_ECC_DBE_VOL_TOTAL = 4,
	NVML_FI_DEV_ECC_DBE_AGG_TOTAL = 6,
	NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
};
enum { NVML_VALUE_TYPE_UNSIGNED_INT = 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3 };
enum { NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES, NVML_PCIE_UTIL_COUNT };
enum { NVML_PROCESS_MODE_COMPUTE, NVML_PROCESS_MODE_GRAPHICS, NVML_PROCESS_MODE_MPS };
enum { NVML_BUS_TYPE_PCIE = 2 };

#define NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR UINT64_C(0x2)
#define NVML_EVENT_TYPE_XID_CRITICAL_ERROR UINT64_C(0x8)
#define NVML_EVENT_TYPES_SUPPORTED (NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR | NVML_EVENT_TYPE_XID_CRITICAL_ERROR)
#define NVML_NO_INSTANCE UINT32_C(0xffffffff)

/* Struct versions: size in the low 24 bits, number in the high 8. */
#define NVML_MEMORY_V2 UINT32_C(0x02000028)
#define NVML_PCI_INFO_EXT_V1 UINT32_C(0x01000040)
#define NVML_TEMPERATURE_V1 UINT32_C(0x0100000c)
#define NVML_UUID_V1 UINT32_C(0x01000034)
#define NVML_PROCESS_DETAIL_LIST_V1 UINT32_C(0x01000018)
#define NVML_PROCESSES_UTILIZATION_V1 UINT32_C(0x01000018)

typedef struct {
	char busIdLegacy[16];
	unsigned domain, bus, device, pciDeviceId;
	unsigned pciSubSystemId; /* v1: NVML before 2.285 ended before this field */
	char busId[32];		 /* v1 and v2: four reserved words were here */
} nvmlPciInfo_t;

typedef struct {
	unsigned version;
	unsigned domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
	char busId[32];
} nvmlPciInfoExt_v1_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
	unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
	unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t; /* v3 has the same layout */

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

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
	nvmlDevice_t device;
	unsigned long long eventType, eventData;
} nvmlEventData_v1_t;

typedef struct {
	nvmlDevice_t device;
	unsigned long long eventType, eventData;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_v2_t;

typedef union {
	double dVal;
	unsigned uiVal;
	unsigned long long ullVal;
} nvmlValue_t;

typedef struct {
	unsigned fieldId, scopeId;
	long long timestamp, latencyUsec;
	unsigned valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
	unsigned version, sensorType;
	int temperature;
} nvmlTemperature_v1_t;

typedef struct {
	unsigned version, type; /* type: 1 text, 2 binary */
	union {
		char str[41];
		unsigned char bytes[16];
	} value;
} nvmlUUID_v1_t;

_Static_assert(sizeof(nvmlPciInfo_t) == 68, "NVML layout");
_Static_assert(sizeof(nvmlPciInfoExt_v1_t) == (NVML_PCI_INFO_EXT_V1 & 0xffffff), "NVML layout");
_Static_assert(sizeof(nvmlMemory_v2_t) == (NVML_MEMORY_V2 & 0xffffff), "NVML layout");
_Static_assert(sizeof(nvmlProcessInfo_v1_t) == 16, "NVML layout");
_Static_assert(sizeof(nvmlProcessInfo_v2_t) == 24, "NVML layout");
_Static_assert(sizeof(nvmlProcessDetailList_v1_t) == (NVML_PROCESS_DETAIL_LIST_V1 & 0xffffff), "NVML layout");
_Static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32, "NVML layout");
_Static_assert(sizeof(nvmlProcessUtilizationInfo_v1_t) == 40, "NVML layout");
_Static_assert(sizeof(nvmlProcessesUtilizationInfo_v1_t) == (NVML_PROCESSES_UTILIZATION_V1 & 0xffffff),
	"NVML layout");
_Static_assert(sizeof(nvmlEventData_v1_t) == 24, "NVML layout");
_Static_assert(sizeof(nvmlEventData_v2_t) == 32, "NVML layout");
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "NVML layout");
_Static_assert(sizeof(nvmlTemperature_v1_t) == (NVML_TEMPERATURE_V1 & 0xffffff), "NVML layout");
_Static_assert(sizeof(nvmlUUID_v1_t) == (NVML_UUID_V1 & 0xffffff), "NVML layout");
