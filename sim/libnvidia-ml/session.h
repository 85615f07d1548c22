/* session.h - nvmlInit to nvmlShutdown, and the frame of every call between them.
 *
 * sim/libnvidia-ml/ is the simulated management library of the driver. Functions that it does not simulate
 * are generated from libnvidia-ml.syms and answer NVML_ERROR_NOT_SUPPORTED.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "sim/libnvidia-ml/nvml-abi.h"
#include "sim/state/processes.h"
#include "sim/state/tree.h"

/* The target of an nvmlDevice_t. The array is static, so a handle of an earlier session never dangles. */
struct sim_device {
	unsigned gpu; /* index in the state, the same for every process of the machine */
};

struct session {
	unsigned users; /* nvmlInit calls without a matching nvmlShutdown */
	struct sim_tree tree;
	struct sim_state *state;
	bool writable;	       /* the state's file is writable, not on a read-only mount */
	unsigned gpu_count;    /* of the state, after a check */
	unsigned device_count; /* GPUs whose device node exists */
	struct sim_device devices[SIM_MAX_GPUS];
};

/* One call. It holds the session, which cannot be shut down meanwhile, until the end of the scope. */
struct call {
	struct session *session; /* NULL: not initialised */
	struct sim_gpu *gpu;	 /* set by call_begin_device() */
	unsigned index;		 /* NVML index of that GPU */
};

/* call_begin() - NVML_ERROR_UNINITIALIZED before nvmlInit and after nvmlShutdown. */
nvmlReturn_t call_begin(struct call *call);
/* call_begin_device() - also NVML_ERROR_INVALID_ARGUMENT for an invalid handle, and
 * NVML_ERROR_GPU_IS_LOST. */
nvmlReturn_t call_begin_device(struct call *call, nvmlDevice_t device);
void call_end(struct call *call);
#define _cleanup_call_ _cleanup_(call_end)

/* device_state() - NVML_SUCCESS or NVML_ERROR_GPU_IS_LOST. */
nvmlReturn_t device_state(const struct session *session, const struct sim_device *device);
/* device_index() - the NVML index of the handle, or -1 if it is invalid. */
int device_index(const struct session *session, nvmlDevice_t device);

/* session_processes() - the table of processes, or NULL if this machine has none that we may use. */
const struct sim_processes *session_processes(const struct session *session);

/* copy_text() - copies into a caller's buffer; on NVML_ERROR_INSUFFICIENT_SIZE nothing is written. source_max
 * bounds the read, because containers can write the state. */
nvmlReturn_t copy_text(const char *source, size_t source_max, char *buffer, unsigned length);

/* gpu_pci_info() - the GPU's address on the bus. */
void gpu_pci_info(const struct sim_gpu *gpu, nvmlPciInfo_t *ret_info);

/* The answer of functions that are not simulated. */
nvmlReturn_t not_simulated(void);

/* event_sets_release() - frees all sets when the session ends. */
void event_sets_release(void);
