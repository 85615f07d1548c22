/* nvml/ - the node's driver, through NVIDIA's management library, which is opened at run time: a machine
 * without it can run every program of ration. Works alike on the simulated library. Uses base/ only.
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
	unsigned index;	     /* NVML's: a label for people, changes with the set of GPUs */
	unsigned minor;	     /* /dev/nvidia<minor> */
	char uuid[96];	     /* what a GPU is known by */
	char name[96];	     /* "Tesla V100-SXM2-16GB" */
	char bus_id[32];     /* "00000000:00:09.0" */
	uint64_t memory_mib; /* physical, whole MiB; 0 where memory is shared with the host */
	int numa_node;	     /* -1: unknown */
	bool mig_enabled;
	enum nvml_compute_mode compute_mode;
};

struct nvml_inventory {
	char driver_version[80];
	unsigned cuda_major, cuda_minor;
	size_t count;
	struct nvml_gpu gpus[NVML_MAX_GPUS]; /* by index; only those that answer */
	size_t unreachable;		     /* GPUs that the driver counts but that do not answer (lost) */
};

struct nvml;

/* nvml_open() - load the library and start it. path NULL: libnvidia-ml.so.1 as the dynamic linker finds it.
 * -ENOENT: no such library; -ENODEV: no driver behind it; -ELIBBAD: not this library, or it does not fit the
 * driver (updated without a reboot); -EACCES. */
int nvml_open(struct nvml **ret_nvml, const char *path, struct error *err);
/* nvml_close() - accepts NULL. Watches of it must be closed before. */
struct nvml *nvml_close(struct nvml *nvml);

static inline void nvml_close_ptr(struct nvml **nvml)
{
	nvml_close(*nvml);
}
#define _cleanup_nvml_ _cleanup_(nvml_close_ptr)

/* nvml_restart() - shut the library down and start it again: the only way to meet GPUs anew (after a reset,
 * a driver reload, a hot plug). Invalidates device handles, not struct nvml. Errors as nvml_open(). */
int nvml_restart(struct nvml *nvml, struct error *err);

/* nvml_inventory() - what the driver has now. A GPU that is lost is counted, not an error. -EIO: the driver
 * itself does not answer; -E2BIG: more than NVML_MAX_GPUS. */
int nvml_inventory(struct nvml *nvml, struct nvml_inventory *ret_inventory, struct error *err);

struct nvml_process {
	pid_t pid; /* as the caller's pid namespace has it, where the driver knows about those */
	uint64_t bytes;
};

/* nvml_processes() - who holds memory of this GPU, each process once: at most NVML_MAX_PROCESSES, which
 * `ret_list` has room for. -ENODEV: no such GPU, or it is lost; -ENOTSUP: the driver cannot tell; -EIO. */
#define NVML_MAX_PROCESSES 1024
int nvml_processes(struct nvml *nvml, const char *uuid, struct nvml_process *ret_list, size_t *ret_count);

struct nvml_process_use {
	pid_t pid;
	unsigned percent; /* of the GPU's time, in the last second or less */
};

/* nvml_utilization() - how busy the GPU was, and with whom, each process once: at most NVML_MAX_PROCESSES,
 * which `ret_list` has room for. *since_us: 0, or what this function left there for this GPU: samples since
 * then count. Two processes whose time slices interleave may both be said to use more than their part.
 * Errors as nvml_processes(). */
int nvml_utilization(struct nvml *nvml, const char *uuid, uint64_t *since_us, unsigned *ret_gpu_percent,
	struct nvml_process_use *ret_list, size_t *ret_count);

/* nvml_table() - the functions, for nvml/ itself. */
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

/* By positions in nvml_inventory.gpus; symmetric. */
struct nvml_links {
	struct {
		uint8_t path;	 /* enum nvml_path */
		uint8_t nvlinks; /* active ones between the two; through NVSwitches, what both have of them */
	} between[NVML_MAX_GPUS][NVML_MAX_GPUS];
	unsigned nvlink_gbps; /* nominal, of one NVLink in one direction; 0: there is none */
};

/* nvml_links() - asks the driver; what it does not tell is unknown, or no link. */
void nvml_links(struct nvml *nvml, const struct nvml_inventory *inventory, struct nvml_links *ret_links);
