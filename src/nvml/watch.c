#include "nvml/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nvml/abi.h"

#define EVENTS_PER_POLL 256 /* a GPU that reports endlessly must not block the caller's loop */

struct watched_part {
	nvml_device device; /* NULL: lookup failed */
	bool lost;	    /* does not answer */
	bool fault;	    /* reported by an event */
	bool fault_is_new;  /* found in this poll; the next one asks whether recovery is needed */
	bool reported_unhealthy;
	char reason[120];
};

struct nvml_watch {
	struct nvml *nvml;
	const struct nvml_inventory *inventory;
	nvml_event_set events;		     /* NULL: could not be created */
	int64_t retry_at_ns, retry_after_ns; /* 0: no GPU is lost */
	struct watched_part gpus[NVML_MAX_GPUS];
};

bool nvml_xid_is_critical(uint64_t xid)
{
	static const uint64_t applications[] = {13, 31, 43, 45, 68, 109};

	for (size_t i = 0; i < ARRAY_SIZE(applications); i++)
		if (applications[i] == xid)
			return false;
	return true;
}

static void release_events(struct nvml_watch *watch)
{
	if (watch->events)
		nvml_table(watch->nvml)->event_set_free(watch->events);
	watch->events = NULL;
}

/* Gets handles and events of all GPUs that can be found by their UUID. Call it after each start of the
 * library. */
static void attach(struct nvml_watch *watch)
{
	const struct nvml_functions *f = nvml_table(watch->nvml);

	/* Every wait on a set that contains a lost GPU fails, so each attempt starts with a new set. */
	if (f->event_set_create(&watch->events) != NVML_SUCCESS)
		watch->events = NULL;
	for (size_t i = 0; i < watch->inventory->count; i++) {
		struct watched_part *gpu = &watch->gpus[i];
		unsigned long long types = 0;

		gpu->device = NULL;
		if (f->device_by_uuid(watch->inventory->gpus[i].uuid, &gpu->device) != NVML_SUCCESS)
			gpu->device = NULL;
		if (!gpu->device || !watch->events || f->event_types(gpu->device, &types) != NVML_SUCCESS)
			continue;
		types &= NVML_EVENT_XID_CRITICAL | NVML_EVENT_DOUBLE_BIT_ECC;
		if (types)
			f->event_register(gpu->device, types, watch->events);
	}
}

int nvml_watch_open(struct nvml_watch **ret_watch, struct nvml *nvml, const struct nvml_inventory *inventory,
	struct error *err)
{
	struct nvml_watch *watch;

	if (inventory->count > NVML_MAX_GPUS)
		return error_set(err, EINVAL, "inventory of %zu GPUs", inventory->count);
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return error_set(err, ENOMEM, "out of memory");
	watch->nvml = nvml;
	watch->inventory = inventory;
	attach(watch);
	*ret_watch = watch;
	return 0;
}

struct nvml_watch *nvml_watch_close(struct nvml_watch *watch)
{
	if (!watch)
		return NULL;
	release_events(watch);
	free(watch);
	return NULL;
}

static void note_event(struct nvml_watch *watch, const struct nvml_event *event)
{
	for (size_t i = 0; i < watch->inventory->count; i++) {
		struct watched_part *gpu = &watch->gpus[i];

		if (gpu->device != event->device)
			continue;
		if (event->type == NVML_EVENT_XID_CRITICAL && !nvml_xid_is_critical(event->data))
			return;
		/* The first reason is the one to investigate, because others follow from it. */
		if (!gpu->fault && event->type == NVML_EVENT_XID_CRITICAL)
			snprintf(gpu->reason, sizeof(gpu->reason), "Xid %llu", event->data);
		else if (!gpu->fault)
			snprintf(gpu->reason, sizeof(gpu->reason), "uncorrectable ECC error");
		gpu->fault = gpu->fault_is_new = true;
		return;
	}
}

static void drain_events(struct nvml_watch *watch)
{
	const struct nvml_functions *f = nvml_table(watch->nvml);
	struct nvml_event event = {};

	/* Anything but success ends the loop. A lost GPU is found by the probe. */
	for (int i = 0; i < EVENTS_PER_POLL && watch->events; i++) {
		if (f->event_wait(watch->events, &event, 0) != NVML_SUCCESS)
			break;
		note_event(watch, &event);
	}
}

/* The kernel driver provides the memory info each time, so an answer proves that the GPU works. */
static void probe(struct nvml_watch *watch, struct watched_part *gpu)
{
	const struct nvml_functions *f = nvml_table(watch->nvml);
	struct nvml_memory memory;
	int result = gpu->device ? f->device_memory(gpu->device, &memory) : NVML_ERROR_GPU_IS_LOST;

	if (result == NVML_SUCCESS || result == NVML_ERROR_NOT_SUPPORTED) {
		if (gpu->lost)
			gpu->fault = false;
		gpu->lost = false;
		return;
	}
	if (!gpu->lost && !gpu->fault)
		snprintf(gpu->reason, sizeof(gpu->reason), "does not answer: %s", f->error_string(result));
	gpu->lost = true;
}

static bool driver_wants_no_recovery(const struct nvml_watch *watch, const struct watched_part *gpu)
{
	struct nvml_field_value value = {.field = NVML_FIELD_GPU_RECOVERY_ACTION};

	return nvml_table(watch->nvml)->device_fields(gpu->device, 1, &value) == NVML_SUCCESS &&
	       value.result == NVML_SUCCESS && value.value.u == NVML_RECOVERY_ACTION_NONE;
}

/* Only a new start of the library finds lost GPUs again. */
static void retry_lost(struct nvml_watch *watch, int64_t now_ns)
{
	bool any = false;

	for (size_t i = 0; i < watch->inventory->count; i++)
		any |= watch->gpus[i].lost;
	if (!any) {
		watch->retry_after_ns = 0;
		return;
	}
	if (watch->retry_after_ns == 0) {
		watch->retry_after_ns = NVML_WATCH_RETRY_NS;
		watch->retry_at_ns = now_ns + watch->retry_after_ns;
	}
	if (now_ns < watch->retry_at_ns)
		return;
	watch->retry_after_ns *= 2;
	if (watch->retry_after_ns > NVML_WATCH_RETRY_MAX_NS)
		watch->retry_after_ns = NVML_WATCH_RETRY_MAX_NS;
	watch->retry_at_ns = now_ns + watch->retry_after_ns;
	release_events(watch);
	for (size_t i = 0; i < watch->inventory->count; i++)
		watch->gpus[i].device = NULL;
	if (nvml_restart(watch->nvml, NULL) == 0)
		attach(watch);
}

size_t nvml_watch_poll(struct nvml_watch *watch, int64_t now_ns, struct nvml_change *ret_changes, size_t max)
{
	size_t count = 0;

	retry_lost(watch, now_ns);
	drain_events(watch);
	for (size_t i = 0; i < watch->inventory->count; i++) {
		struct watched_part *gpu = &watch->gpus[i];
		bool unhealthy;

		probe(watch, gpu);
		if (gpu->fault && !gpu->fault_is_new && !gpu->lost && driver_wants_no_recovery(watch, gpu))
			gpu->fault = false;
		gpu->fault_is_new = false;
		unhealthy = gpu->lost || gpu->fault;
		if (unhealthy == gpu->reported_unhealthy || count == max)
			continue;
		gpu->reported_unhealthy = unhealthy;
		ret_changes[count] = (struct nvml_change){.gpu = i, .healthy = !unhealthy};
		if (unhealthy)
			memcpy(ret_changes[count].reason, gpu->reason, sizeof(gpu->reason));
		count++;
	}
	return count;
}
