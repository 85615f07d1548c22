/* abi.h - the functions of NVIDIA's management library that ration calls, as their binary interface defines
 * them.
 *
 * Facts are from the NVML API reference (docs.nvidia.com/deploy/nvml-api). The symbols are those that
 * libraries since driver 450 export under these names; _v2 and _v3 are NVML's versions of a layout or
 * meaning, not ours.
 */
#pragma once

#include <stddef.h>

typedef void *nvml_device;
typedef void *nvml_event_set;

enum nvml_return {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
};

#define NVML_EVENT_DOUBLE_BIT_ECC 0x2ull
#define NVML_EVENT_XID_CRITICAL 0x8ull
#define NVML_AFFINITY_SCOPE_NODE 0u
#define NVML_FIELD_GPU_RECOVERY_ACTION 230u /* since driver 550; older ones answer NOT_SUPPORTED */
#define NVML_RECOVERY_ACTION_NONE 0u
#define NVML_LINKS_MAX 18u /* NVML_NVLINK_MAX_LINKS of nvml.h since Hopper */
#define NVML_NVLINK_DEVICE_SWITCH 2u

enum nvml_topology {
	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50,
};

struct nvml_pci_info {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

struct nvml_memory {
	unsigned long long total, free, used;
};

/* nvmlEventSetWait_v2 fills all fields, nvmlEventSetWait all except the instances. */
struct nvml_event {
	nvml_device device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};

struct nvml_field_value {
	unsigned field, scope;
	long long timestamp, latency_us;
	unsigned value_type;
	int result;
	union {
		double d;
		unsigned u;
		unsigned long long ull;
	} value;
};

/* For the _v2 and _v3 functions; nvml_functions.process_info_size is the distance between two entries. */
struct nvml_process_info {
	unsigned pid;
	unsigned long long bytes; /* NVML_VALUE_NOT_AVAILABLE: the driver does not know */
	unsigned gpu_instance, compute_instance;
};
#define NVML_VALUE_NOT_AVAILABLE (~0ull)

/* Percent of the sample period during which kernels ran, or memory was read or written. */
struct nvml_utilization_rates {
	unsigned gpu, memory;
};

struct nvml_process_sample {
	unsigned pid;
	unsigned long long time_us; /* since 1970, by the host's clock */
	unsigned sm_percent, memory_percent, encoder_percent, decoder_percent;
};

_Static_assert(sizeof(struct nvml_process_sample) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct nvml_process_info) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_pci_info) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");
_Static_assert(sizeof(struct nvml_field_value) == 40, "nvmlFieldValue_t");

/* After nvml_open() no pointer is NULL except those marked "or NULL", which old drivers lack. */
struct nvml_functions {
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int result);
	int (*driver_version)(char *text, unsigned size);
	int (*cuda_version)(int *ret_version);
	int (*device_count)(unsigned *ret_count);
	int (*device_by_index)(unsigned index, nvml_device *ret_device);
	int (*device_by_uuid)(const char *uuid, nvml_device *ret_device);
	int (*device_index)(nvml_device device, unsigned *ret_index);
	int (*device_minor)(nvml_device device, unsigned *ret_minor);
	int (*device_uuid)(nvml_device device, char *text, unsigned size);
	int (*device_name)(nvml_device device, char *text, unsigned size);
	int (*device_pci)(nvml_device device, struct nvml_pci_info *ret_info);
	int (*device_memory)(nvml_device device, struct nvml_memory *ret_memory);
	int (*device_compute_mode)(nvml_device device, unsigned *ret_mode);
	int (*device_mig_mode)(
		nvml_device device, unsigned *ret_current, unsigned *ret_pending); /* or NULL */
	int (*device_memory_affinity)(
		nvml_device device, unsigned words, unsigned long *ret_nodes, unsigned scope); /* or NULL */
	int (*device_compute_capability)(nvml_device device, int *ret_major, int *ret_minor);  /* or NULL */
	int (*device_fields)(nvml_device device, int count, struct nvml_field_value *values);
	int (*device_compute_processes)(nvml_device device, unsigned *count, void *infos);  /* or NULL */
	int (*device_graphics_processes)(nvml_device device, unsigned *count, void *infos); /* or NULL */
	size_t process_info_size; /* an entry begins with a struct nvml_process_info */
	int (*device_utilization)(nvml_device device, struct nvml_utilization_rates *ret_rates); /* or NULL */
	int (*device_process_utilization)(nvml_device device, struct nvml_process_sample *samples,
		unsigned *count, unsigned long long since_us);				/* or NULL */
	int (*common_ancestor)(nvml_device a, nvml_device b, unsigned *ret_level);	/* or NULL */
	int (*link_state)(nvml_device device, unsigned link, unsigned *ret_active);	/* or NULL */
	int (*link_version)(nvml_device device, unsigned link, unsigned *ret_version);	/* or NULL */
	int (*link_remote_type)(nvml_device device, unsigned link, unsigned *ret_type); /* or NULL */
	int (*link_remote_pci)(
		nvml_device device, unsigned link, struct nvml_pci_info *ret_info); /* or NULL */
	int (*event_types)(nvml_device device, unsigned long long *ret_types);
	int (*event_register)(nvml_device device, unsigned long long types, nvml_event_set set);
	int (*event_set_create)(nvml_event_set *ret_set);
	int (*event_set_free)(nvml_event_set set);
	int (*event_wait)(nvml_event_set set, struct nvml_event *ret_event, unsigned timeout_ms);
};
