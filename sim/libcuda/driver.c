/* driver.c - cuInit, fork, and what happens at the start of every call. */
#include "sim/libcuda/driver.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "sim/libcuda/context.h"
#include "sim/libcuda/ipc.h"
#include "sim/libcuda/proc-table.h"
#include "sim/libcuda/started.h"

struct driver driver;
bool driver_does_nothing;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/* The GPU's memory and work stay the parent's. The real driver also refuses calls in a child of an
 * initialised process. */
static void in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	if (driver.initialised) {
		driver.forked = true;
		driver_does_nothing = false;
	}
}

/* Finds the GPUs of the tree that this process can see. -ENODEV: none. */
static int find_devices(void)
{
	driver.device_count = 0;
	for (unsigned i = 0; i < driver.state->gpu_count && i < SIM_MAX_GPUS; i++)
		if (sim_tree_has_gpu(&driver.tree, driver.state->gpus[i].minor) &&
			atomic_load(&driver.state->gpus[i].health) != SIM_LOST)
			driver.devices[driver.device_count++] = (struct device){.gpu = i};
	return driver.device_count > 0 ? 0 : -ENODEV;
}

static int open_tree(void)
{
	bool writable;
	int r;

	sim_tree_find(&driver.tree);
	r = sim_state_map(driver.tree.root, &driver.state, &writable);
	if (r == 0 && atomic_load(&driver.state->retired))
		r = -ENODEV;
	if (r == 0)
		r = find_devices();
	if (r == 0 && !driver.slot) {
		r = sim_processes_open(driver.tree.root, &driver.processes);
		if (r == 0)
			r = sim_processes_claim(&driver.processes, &driver.slot);
	}
	if (r == 0)
		r = sim_trouble_map(driver.tree.root, &driver.trouble);
	if (r == 0)
		r = sim_work_map(driver.tree.root, &driver.work, &writable);
	if (r == 0 && !writable)
		r = -EACCES;
	if (r < 0 && driver.state) {
		sim_state_unmap(driver.state);
		driver.state = NULL;
	}
	return r;
}

static bool is_uuid(const char *entry)
{
	return strncmp(entry, "GPU-", 4) == 0;
}

/* Returns the index of the GPU with this UUID, or of the only GPU whose UUID begins with this text. Returns
 * -1 if no GPU or several GPUs match. */
static int device_by_uuid(const char *entry, size_t length)
{
	int found = -1;

	for (int i = 0; i < driver.device_count; i++) {
		if (strncmp(driver.state->gpus[driver.devices[i].gpu].uuid, entry, length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

static int device_by_index(const char *entry)
{
	char *end;
	long index = strtol(entry, &end, 10);

	return end > entry && index >= 0 && index < driver.device_count ? (int)index : -1;
}

/* Entries are indices or UUIDs; the first one decides which. They give the order of the GPUs. The first
 * invalid entry ends the list, and a repeated entry makes it empty. Source: CUDA C++ Programming Guide 13.0,
 * "CUDA Environment Variables"; where that says nothing, as PyTorch 2.4 imitates the driver
 * (torch/cuda/__init__.py). */
static void apply_visible_devices(const char *list)
{
	struct device chosen[SIM_MAX_GPUS];
	bool uuids = is_uuid(list), seen[SIM_MAX_GPUS] = {false};
	int count = 0;

	while (*list) {
		size_t n = strcspn(list, ",");
		int found = -1;

		if (is_uuid(list) == uuids)
			found = uuids ? device_by_uuid(list, n) : device_by_index(list);
		if (found < 0)
			break;
		if (seen[found]) {
			count = 0;
			break;
		}
		seen[found] = true;
		chosen[count++] = driver.devices[found];
		list += n + (list[n] == ',');
	}
	memcpy(driver.devices, chosen, (size_t)count * sizeof(chosen[0]));
	driver.device_count = count;
}

static CUresult init(void)
{
	static bool registered;
	const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *nothing = getenv("RATION_SIM_DO_NOTHING");
	int r = open_tree();

	if (r == -EBUSY || r == -EACCES)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (r < 0)
		return CUDA_ERROR_NO_DEVICE;
	if (visible)
		apply_visible_devices(visible);
	if (driver.device_count == 0)
		return CUDA_ERROR_NO_DEVICE;
	if (!registered) {
		pthread_atfork(before_fork, in_parent, in_child);
		registered = true;
	}
	ipc_sweep();
	driver_does_nothing = nothing && strcmp(nothing, "1") == 0;
	driver.initialised = true;
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
	CUresult r = CUDA_SUCCESS;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (driver.forked)
		r = CUDA_ERROR_NOT_INITIALIZED;
	else if (!driver.initialised)
		r = init();
	driver.failed = r != CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return r;
}

/* Works without cuInit and without any GPU. */
CUresult cuDriverGetVersion(int *ret_version)
{
	struct sim_state *state;
	struct sim_tree tree;
	bool writable;

	if (!ret_version)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_version = 0;
	sim_tree_find(&tree);
	if (sim_state_map(tree.root, &state, &writable) == 0) {
		*ret_version = (int)state->cuda_version;
		sim_state_unmap(state);
	}
	return CUDA_SUCCESS;
}

bool driver_has_started(void)
{
	return driver.initialised;
}

bool driver_init_failed(void)
{
	return driver.failed;
}

int driver_version(void)
{
	int version = 0;

	cuDriverGetVersion(&version);
	return version ? version : INT_MAX;
}

static void sleep_ms(uint32_t ms)
{
	struct timespec wait = {ms / 1000, ms % 1000 * NS_PER_MS};

	driver_pause();
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, &wait) == EINTR)
		;
	driver_resume();
}

void fault_point(const char *point, unsigned gpu)
{
	uint32_t argument;

	if (sim_trouble_hit(driver.trouble, SIM_FAULT_KILL, point, gpu, &argument))
		raise(SIGKILL);
}

static CUresult faults_of_call(const char *function)
{
	uint32_t argument;

	fault_point(function, SIM_MAX_GPUS);
	if (sim_trouble_hit(driver.trouble, SIM_FAULT_SLOW, function, SIM_MAX_GPUS, &argument))
		sleep_ms(argument);
	if (sim_trouble_hit(driver.trouble, SIM_FAULT_FAIL, function, SIM_MAX_GPUS, &argument))
		return (CUresult)argument;
	return CUDA_SUCCESS;
}

CUresult call_begin(struct call *call, const char *function)
{
	pthread_mutex_lock(&lock);
	call->locked = true;
	if (!driver.initialised || driver.forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	return faults_of_call(function);
}

CUresult call_begin_context(struct call *call, const char *function)
{
	CUresult r = call_begin(call, function);

	return r == CUDA_SUCCESS ? context_current(&call->context) : r;
}

void call_end(struct call *call)
{
	if (call->locked)
		pthread_mutex_unlock(&lock);
}

void driver_pause(void)
{
	pthread_mutex_unlock(&lock);
}

void driver_resume(void)
{
	pthread_mutex_lock(&lock);
}

void driver_wait(pthread_cond_t *condition)
{
	pthread_cond_wait(condition, &lock);
}

CUresult misuse(enum sim_misuse kind, CUresult answer)
{
	atomic_fetch_add(&driver.trouble->misuse[kind], 1);
	return answer;
}

int not_simulated(void)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, "not simulated");

	return r == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : r;
}
