/* nvml.h - the node's driver, through NVIDIA's management library. The library is opened at run time, so
 * every program of ration runs on a machine without it. It works alike on the simulated library. Uses base/
 * only.
 *
 * Not thread-safe: one thread per struct nvml.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/error.h"

#define NVML_MAX_GPUS 64

enum nvml_compute_mode {
	NVML_COMPUTE_DEFAULT = 0,
	NVML_COMPUTE_EXCLUSIVE_THREAD = 1,
	NVML_COMPUTE_PROHIBITED = 2,
	NVML_COMPUTE_EXCLUSIVE_PROCESS = 3,
};

struct nvml_gpu {
	unsigned index;	     /* NVML's number: a label for people, which changes with the set of GPUs */
	unsigned minor;	     /* /dev/nvidia<minor> */
	char uuid[96];	     /* identifies the GPU */
	char name[96];	     /* "Tesla V100-SXM2-16GB" */
	char bus_id[32];     /* "00000000:00:09.0" */
	uint64_t memory_mib; /* physical, whole MiB; 0 if the memory is shared with the host */
	int numa_node;	     /* -1: unknown */
	unsigned compute_major, compute_minor; /* CUDA compute capability; 0: unknown */
	bool mig_enabled;
	enum nvml_compute_mode compute_mode;
};

struct nvml_inventory {
	char driver_version[80];
	unsigned cuda_major, cuda_minor;
	size_t count;
	struct nvml_gpu gpus[NVML_MAX_GPUS]; /* by index; only GPUs that answer */
	size_t unreachable;		     /* GPUs that the driver counts but that do not answer (lost) */
};

struct nvml;

/* nvml_open() - loads the library and starts it. path NULL: libnvidia-ml.so.1 as the dynamic linker finds it.
 * -ENOENT: no such library; -ENODEV: no driver behind it; -ELIBBAD: not this library, or it does not fit the
 * driver (updated without a reboot); -EACCES. */
int nvml_open(struct nvml **ret_nvml, const char *path, struct error *err);
/* nvml_close() - accepts NULL. Close its watches first. */
struct nvml *nvml_close(struct nvml *nvml);

static inline void nvml_close_ptr(struct nvml **nvml)
{
	nvml_close(*nvml);
}
#define _cleanup_nvml_ _cleanup_(nvml_close_ptr)

/* nvml_restart() - shuts the library down and starts it again. That is the only way to find GPUs again after
 * a reset, a driver reload or a hot plug. Invalidates device handles, but not struct nvml. Errors as
 * nvml_open(). */
int nvml_restart(struct nvml *nvml, struct error *err);

/* nvml_inventory() - the GPUs that the driver has now. A lost GPU is counted and is not an error. -EIO: the
 * driver itself does not answer; -E2BIG: more than NVML_MAX_GPUS. */
int nvml_inventory(struct nvml *nvml, struct nvml_inventory *ret_inventory, struct error *err);

struct nvml_process {
	pid_t pid; /* in the caller's pid namespace, if the driver knows about pid namespaces */
	uint64_t bytes;
};

/* nvml_processes() - the processes that hold memory of this GPU, each once, at most NVML_MAX_PROCESSES.
 * `ret_list` must have room for that many. -ENODEV: no such GPU, or it is lost; -ENOTSUP: the driver does not
 * know; -EIO. */
#define NVML_MAX_PROCESSES 1024
int nvml_processes(struct nvml *nvml, const char *uuid, struct nvml_process *ret_list, size_t *ret_count);

struct nvml_process_use {
	pid_t pid;
	unsigned percent; /* of the GPU's time, in the last second or less */
};

/* nvml_utilization() - how busy the GPU was, and which processes used it, each once, at most
 * NVML_MAX_PROCESSES. `ret_list` must have room for that many. *since_us: 0, or what this function left there
 * for this GPU; only samples after it count. If the time slices of two processes interleave, both may be
 * reported with more than their part. Errors as nvml_processes(). */
int nvml_utilization(struct nvml *nvml, const char *uuid, uint64_t *since_us, unsigned *ret_gpu_percent,
	struct nvml_process_use *ret_list, size_t *ret_count);

/* nvml_table() - the library's functions, for use inside src/nvml only. */
struct nvml_functions;
const struct nvml_functions *nvml_table(const struct nvml *nvml);

/* The best path between two GPUs without NVLink, as nvidia-smi topo -m names them; the worst first. */
enum nvml_path {
	NVML_PATH_UNKNOWN,
	NVML_PATH_SYS,
	NVML_PATH_NODE,
	NVML_PATH_PHB,
	NVML_PATH_PXB,
	NVML_PATH_PIX,
};

/* Indexed by positions in nvml_inventory.gpus; symmetric. */
struct nvml_links {
	struct {
		uint8_t path;	 /* enum nvml_path */
		uint8_t nvlinks; /* active links between the two; through NVSwitches, as many as both have */
	} between[NVML_MAX_GPUS][NVML_MAX_GPUS];
	unsigned nvlink_gbps; /* nominal, of one NVLink in one direction; 0: the GPUs have no NVLink */
};

/* nvml_links() - asks the driver. What the driver does not report is "unknown", or no link. */
void nvml_links(struct nvml *nvml, const struct nvml_inventory *inventory, struct nvml_links *ret_links);
