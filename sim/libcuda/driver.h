/* driver.h - the process's side of the simulated driver: start, the lock, and the frame of every call.
 *
 * libcuda/ is the simulated CUDA driver. Names it does not simulate are generated from src/cuda/libcuda.syms
 * and answer CUDA_ERROR_NOT_SUPPORTED. One lock guards everything of the process; it is not held while
 * anybody waits. What processes share is in sim/state.
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
	bool forked;			  /* the parent had initialised it: nothing works in the child */
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

/* Calls that a benchmark repeats return at once (RATION_SIM_DO_NOTHING=1 when cuInit is called). */
extern bool driver_does_nothing;

/* One call: holds the lock until the end of the scope. */
struct call {
	bool locked;
	struct context *context; /* of call_begin_context() */
};

/* call_begin() - CUDA_ERROR_NOT_INITIALIZED before cuInit; injected faults. */
CUresult call_begin(struct call *call, const char *function);
/* call_begin_context() - also the calling thread's current context, alive and on a GPU that works. */
CUresult call_begin_context(struct call *call, const char *function);
void call_end(struct call *call);
#define _cleanup_call_ _cleanup_(call_end)

/* driver_pause(), driver_resume() - let others in while this call waits. */
void driver_pause(void);
void driver_resume(void);

/* driver_wait() - the same until the condition is signalled. */
void driver_wait(pthread_cond_t *condition);

/* driver_device() - NULL if there is no such ordinal. */
struct device *driver_device(CUdevice ordinal);
/* driver_location() - the device in whose memory a location is; each has one locality domain. NULL: none, or
 * the tree's driver is older than the location's type. */
struct device *driver_location(CUmemLocation location);
struct sim_gpu *device_gpu(const struct device *device);
/* device_trouble() - what calls answer now on a GPU that is lost. */
CUresult device_trouble(const struct device *device);

/* fault_point() - a named place at which `ration-sim fault` can kill; GPU SIM_MAX_GPUS: of none in
 * particular. */
void fault_point(const char *point, unsigned gpu);

/* misuse() - count what the caller did wrong; returns the answer for it. */
CUresult misuse(enum sim_misuse kind, CUresult answer);
