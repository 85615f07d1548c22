/* session.h - nvmlInit to nvmlShutdown, and the frame of every call between them.
 *
 * libnvidia-ml/ is the simulated driver management library. Names it does not simulate are generated from
 * libnvidia-ml.syms and answer NVML_ERROR_NOT_SUPPORTED.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "sim/libnvidia-ml/nvml-abi.h"
#include "sim/state/processes.h"
#include "sim/state/tree.h"

/* What an nvmlDevice_t points to. The array is static: a handle of an earlier session is never dangling. */
struct sim_device {
	unsigned gpu; /* index in the state, the same for every process of the machine */
};

struct session {
	unsigned users; /* nvmlInit calls not yet matched by nvmlShutdown */
	struct sim_tree tree;
	struct sim_state *state;
	bool writable;	       /* the state, that is: not a read-only mount */
	unsigned gpu_count;    /* of the state, checked */
	unsigned device_count; /* GPUs whose device node is there */
	struct sim_device devices[SIM_MAX_GPUS];
};

/* One call: holds the session (which cannot be shut down meanwhile) until the end of the scope. */
struct call {
	struct session *session; /* NULL: not initialised */
	struct sim_gpu *gpu;	 /* of call_begin_device() */
	unsigned index;		 /* NVML index of that GPU */
};

/* call_begin() - NVML_ERROR_UNINITIALIZED outside init .. shutdown. */
nvmlReturn_t call_begin(struct call *call);
/* call_begin_device() - also NVML_ERROR_INVALID_ARGUMENT for what is not a handle, NVML_ERROR_GPU_IS_LOST. */
nvmlReturn_t call_begin_device(struct call *call, nvmlDevice_t device);
void call_end(struct call *call);
#define _cleanup_call_ _cleanup_(call_end)

/* device_state() - NVML_SUCCESS or NVML_ERROR_GPU_IS_LOST. */
nvmlReturn_t device_state(const struct session *session, const struct sim_device *device);
/* device_index() - the handle's NVML index, -1 if it is none of ours. */
int device_index(const struct session *session, nvmlDevice_t device);

/* session_processes() - the table of processes, NULL if this machine has none that we may use. */
const struct sim_processes *session_processes(const struct session *session);

/* copy_text() - into a caller's buffer; NVML_ERROR_INSUFFICIENT_SIZE writes nothing. source_max bounds the
 * read: containers can write the state. */
nvmlReturn_t copy_text(const char *source, size_t source_max, char *buffer, unsigned length);

/* gpu_pci_info() - where the GPU sits on the bus. */
void gpu_pci_info(const struct sim_gpu *gpu, nvmlPciInfo_t *ret_info);

/* What a name that is not simulated answers. */
nvmlReturn_t not_simulated(void);

/* event_sets_release() - free all sets (the session ends). */
void event_sets_release(void);
