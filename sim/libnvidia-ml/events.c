/* events.c - event sets: which events each set waits for, and how far it has read the machine's ring of
 * events. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "sim/libnvidia-ml/session.h"

#define MAX_EVENT_SETS 256
#define WAIT_SLICE_NS (100 * NS_PER_MS) /* a waiting call holds the session at most this long */

struct sim_event_set {
	struct list in_sets;
	uint64_t seen;		      /* sequence number of the last event that was examined */
	uint64_t mask[SIM_MAX_GPUS];  /* requested types, by GPU of the state */
	uint64_t since[SIM_MAX_GPUS]; /* only events after the registration count */
};

static pthread_mutex_t sets_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list sets = {&sets, &sets};
static unsigned set_count;

/* A handle is valid from nvmlEventSetCreate until nvmlEventSetFree. */
static bool is_set(nvmlEventSet_t set)
{
	list_for_each (item, &sets)
		if (list_entry(item, struct sim_event_set, in_sets) == set)
			return true;
	return false;
}

static void free_set(struct sim_event_set *set)
{
	list_remove(&set->in_sets);
	set_count--;
	free(set);
}

void event_sets_release(void)
{
	pthread_mutex_lock(&sets_lock);
	while (!list_empty(&sets))
		free_set(list_entry(sets.next, struct sim_event_set, in_sets));
	pthread_mutex_unlock(&sets_lock);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *ret_set)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);
	struct sim_event_set *set;

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_set)
		return NVML_ERROR_INVALID_ARGUMENT;
	set = calloc(1, sizeof(*set));
	if (!set)
		return NVML_ERROR_MEMORY;
	set->seen = atomic_load(&call.session->state->last_event);
	pthread_mutex_lock(&sets_lock);
	if (set_count < MAX_EVENT_SETS) {
		set_count++;
		list_append(&sets, &set->in_sets);
		*ret_set = set;
	} else {
		free(set);
		r = NVML_ERROR_INSUFFICIENT_RESOURCES;
	}
	pthread_mutex_unlock(&sets_lock);
	return r;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);

	if (r != NVML_SUCCESS)
		return r;
	pthread_mutex_lock(&sets_lock);
	if (is_set(set))
		free_set(set);
	else
		r = NVML_ERROR_INVALID_ARGUMENT;
	pthread_mutex_unlock(&sets_lock);
	return r;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *ret_types)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_types)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_types = NVML_EVENT_TYPES_SUPPORTED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin_device(&call, device);
	size_t gpu;

	if (r != NVML_SUCCESS)
		return r;
	if (types & ~NVML_EVENT_TYPES_SUPPORTED)
		return NVML_ERROR_NOT_SUPPORTED;
	gpu = (size_t)(call.gpu - call.session->state->gpus);
	pthread_mutex_lock(&sets_lock);
	if (is_set(set)) {
		if (set->mask[gpu] == 0)
			set->since[gpu] = atomic_load(&call.session->state->last_event);
		set->mask[gpu] |= types;
	} else {
		r = NVML_ERROR_INVALID_ARGUMENT;
	}
	pthread_mutex_unlock(&sets_lock);
	return r;
}

/* Returns the handle of a GPU of the state; NULL if the caller does not have its device node. */
static nvmlDevice_t handle_of(struct session *session, uint32_t gpu)
{
	for (unsigned i = 0; i < session->device_count; i++)
		if (session->devices[i].gpu == gpu)
			return &session->devices[i];
	return NULL;
}

static bool a_gpu_is_lost(const struct session *session, const struct sim_event_set *set)
{
	for (unsigned i = 0; i < session->device_count; i++)
		if (set->mask[session->devices[i].gpu] != 0 &&
			device_state(session, &session->devices[i]) != NVML_SUCCESS)
			return true;
	return false;
}

/* Checks once without waiting. NVML_ERROR_TIMEOUT: no event yet. */
static nvmlReturn_t next_event(
	struct session *session, struct sim_event_set *set, nvmlEventData_v2_t *ret_data)
{
	uint64_t last = atomic_load(&session->state->last_event);
	struct sim_event event;

	if (last - set->seen > SIM_EVENT_RING)
		set->seen = last - SIM_EVENT_RING;
	while (set->seen < last) {
		nvmlDevice_t device;

		if (sim_state_read_event(session->state, ++set->seen, &event) < 0)
			continue;
		if (event.gpu >= session->gpu_count || !(set->mask[event.gpu] & event.type) ||
			set->seen <= set->since[event.gpu])
			continue;
		device = handle_of(session, event.gpu);
		if (!device)
			continue;
		*ret_data = (nvmlEventData_v2_t){
			device, event.type, event.data, NVML_NO_INSTANCE, NVML_NO_INSTANCE};
		return NVML_SUCCESS;
	}
	/* As with the real library, a set with a GPU that fell off the bus can no longer be waited on. */
	return a_gpu_is_lost(session, set) ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT;
}

static nvmlReturn_t wait_slice(nvmlEventSet_t set, nvmlEventData_v2_t *ret_data, int64_t deadline_ns)
{
	_cleanup_call_ struct call call = {};
	nvmlReturn_t r = call_begin(&call);
	uint64_t seen;
	int64_t left_ns;

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_data)
		return NVML_ERROR_INVALID_ARGUMENT;
	seen = atomic_load(&call.session->state->last_event);
	pthread_mutex_lock(&sets_lock);
	r = is_set(set) ? next_event(call.session, set, ret_data) : NVML_ERROR_INVALID_ARGUMENT;
	pthread_mutex_unlock(&sets_lock);
	left_ns = deadline_ns - monotonic_ns();
	if (r == NVML_ERROR_TIMEOUT && left_ns > 0)
		sim_state_wait_event(
			call.session->state, seen, left_ns < WAIT_SLICE_NS ? left_ns : WAIT_SLICE_NS);
	return r;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_v2_t *ret_data, unsigned timeout_ms)
{
	int64_t deadline_ns = monotonic_ns() + timeout_ms * NS_PER_MS;
	nvmlReturn_t r;

	do
		r = wait_slice(set, ret_data, deadline_ns);
	while (r == NVML_ERROR_TIMEOUT && monotonic_ns() < deadline_ns);
	return r;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *ret_data, unsigned timeout_ms)
{
	nvmlEventData_v2_t data;
	nvmlReturn_t r = nvmlEventSetWait_v2(set, ret_data ? &data : NULL, timeout_ms);

	if (r == NVML_SUCCESS)
		*ret_data = (nvmlEventData_v1_t){data.device, data.eventType, data.eventData};
	return r;
}
