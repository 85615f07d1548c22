/* driver.h - the process's side of the simulated driver: start, the lock, and the frame of every call.
 *
 * sim/libcuda/ is the simulated CUDA driver. Functions that it does not simulate are generated from
 * src/cuda/libcuda.syms and answer CUDA_ERROR_NOT_SUPPORTED. One lock protects all state of the process; it
 * is not held while a thread waits. State that processes share is in sim/state.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "cuda/functions.h"
#include "sim/libcuda-labels.h"
#include "sim/state/memory.h"
#include "sim/state/tree.h"
#include "sim/state/trouble.h"
#include "sim/state/work.h"

struct context;
struct pool;

struct device {
	unsigned gpu; /* index in the state, the same for every process of the machine */
	struct context *primary;
	unsigned primary_users;
	unsigned primary_flags;
	struct pool *default_pool, *current_pool, *graph_pool, *managed_pool;
};

struct driver {
	_Atomic bool initialised, failed; /* by cuInit */
	bool forked; /* the parent had initialised the driver, so nothing works in the child */
	struct sim_tree tree;
	struct sim_state *state;
	struct sim_processes processes;
	struct sim_process *slot;
	struct sim_trouble *trouble;
	struct sim_work *work;
	int device_count;
	struct device devices[SIM_MAX_GPUS];
};

extern struct driver driver;

/* Calls that a benchmark repeats return at once (RATION_SIM_DO_NOTHING=1 at cuInit). */
extern bool driver_does_nothing;

/* One call; it holds the lock until the end of the scope. */
struct call {
	bool locked;
	struct context *context; /* set by call_begin_context() */
};

/* call_begin() - CUDA_ERROR_NOT_INITIALIZED before cuInit, or an injected fault. */
CUresult call_begin(struct call *call, const char *function);
/* call_begin_context() - also requires the calling thread's current context to be alive, on a working GPU. */
CUresult call_begin_context(struct call *call, const char *function);
void call_end(struct call *call);
#define _cleanup_call_ _cleanup_(call_end)

/* driver_pause(), driver_resume() - let other threads in while this call waits. */
void driver_pause(void);
void driver_resume(void);

/* driver_wait() - the same, until the condition is signalled. */
void driver_wait(pthread_cond_t *condition);

/* driver_device() - NULL: no such ordinal. */
struct device *driver_device(CUdevice ordinal);
/* driver_location() - the device of a memory location. Each device has one locality domain. NULL: there is no
 * such device, or the tree's driver is older than the location's type. */
struct device *driver_location(CUmemLocation location);
struct sim_gpu *device_gpu(const struct device *device);
/* device_trouble() - the error of calls on a GPU that is lost. */
CUresult device_trouble(const struct device *device);

/* fault_point() - a named place at which `ration-sim fault` can kill the process. SIM_MAX_GPUS: of no
 * particular GPU. */
void fault_point(const char *point, unsigned gpu);

/* misuse() - counts a mistake of the caller, and returns the answer for it. */
CUresult misuse(enum sim_misuse kind, CUresult answer);
