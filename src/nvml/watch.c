#include "nvml/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nvml/abi.h"

#define EVENTS_PER_POLL 256 /* a card that reports without end must not stop the caller's loop */

struct watched_card {
	nvml_device device; /* NULL: could not be looked up */
	bool lost;	    /* does not answer */
	bool fault;	    /* an event said so */
	bool fault_is_new;  /* in this very poll: the driver gets until the next to make up its mind */
	bool reported_unhealthy;
	char reason[120];
};

struct nvml_watch {
	struct nvml *nvml;
	const struct nvml_inventory *inventory;
	nvml_event_set events;		     /* NULL: none to be had */
	int64_t retry_at_ns, retry_after_ns; /* 0: no card is lost */
	struct watched_card cards[NVML_MAX_CARDS];
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

/* Handles and events of all cards that can be found by their UUID; call after each start of the library. */
static void attach(struct nvml_watch *watch)
{
	const struct nvml_functions *f = nvml_table(watch->nvml);

	/* A set that holds a lost card fails every wait, so each attempt starts with a new one. */
	if (f->event_set_create(&watch->events) != NVML_SUCCESS)
		watch->events = NULL;
	for (size_t i = 0; i < watch->inventory->count; i++) {
		struct watched_card *card = &watch->cards[i];
		unsigned long long types = 0;

		card->device = NULL;
		if (f->device_by_uuid(watch->inventory->cards[i].uuid, &card->device) != NVML_SUCCESS)
			card->device = NULL;
		if (!card->device || !watch->events || f->event_types(card->device, &types) != NVML_SUCCESS)
			continue;
		types &= NVML_EVENT_XID_CRITICAL | NVML_EVENT_DOUBLE_BIT_ECC;
		if (types)
			f->event_register(card->device, types, watch->events);
	}
}

int nvml_watch_open(struct nvml_watch **ret_watch, struct nvml *nvml, const struct nvml_inventory *inventory,
	struct error *err)
{
	struct nvml_watch *watch;

	if (inventory->count > NVML_MAX_CARDS)
		return error_set(err, EINVAL, "inventory of %zu cards", inventory->count);
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
		struct watched_card *card = &watch->cards[i];

		if (card->device != event->device)
			continue;
		if (event->type == NVML_EVENT_XID_CRITICAL && !nvml_xid_is_critical(event->data))
			return;
		/* The first reason is the one to look into: others follow from it. */
		if (!card->fault && event->type == NVML_EVENT_XID_CRITICAL)
			snprintf(card->reason, sizeof(card->reason), "Xid %llu", event->data);
		else if (!card->fault)
			snprintf(card->reason, sizeof(card->reason), "uncorrectable ECC error");
		card->fault = card->fault_is_new = true;
		return;
	}
}

static void drain_events(struct nvml_watch *watch)
{
	const struct nvml_functions *f = nvml_table(watch->nvml);
	struct nvml_event event = {};

	/* Anything but success ends it: a lost card shows when it is asked. */
	for (int i = 0; i < EVENTS_PER_POLL && watch->events; i++) {
		if (f->event_wait(watch->events, &event, 0) != NVML_SUCCESS)
			break;
		note_event(watch, &event);
	}
}

/* The memory info comes from the kernel driver each time, so it is an honest sign of life. */
static void probe(struct nvml_watch *watch, struct watched_card *card)
{
	const struct nvml_functions *f = nvml_table(watch->nvml);
	struct nvml_memory memory;
	int result = card->device ? f->device_memory(card->device, &memory) : NVML_ERROR_GPU_IS_LOST;

	if (result == NVML_SUCCESS || result == NVML_ERROR_NOT_SUPPORTED) {
		if (card->lost)
			card->fault = false;
		card->lost = false;
		return;
	}
	if (!card->lost && !card->fault)
		snprintf(card->reason, sizeof(card->reason), "does not answer: %s", f->error_string(result));
	card->lost = true;
}

static bool driver_wants_no_recovery(const struct nvml_watch *watch, const struct watched_card *card)
{
	struct nvml_field_value value = {.field = NVML_FIELD_GPU_RECOVERY_ACTION};

	return nvml_table(watch->nvml)->device_fields(card->device, 1, &value) == NVML_SUCCESS &&
	       value.result == NVML_SUCCESS && value.value.u == NVML_RECOVERY_ACTION_NONE;
}

/* Lost cards are met again only by a fresh start of the library. */
static void retry_lost(struct nvml_watch *watch, int64_t now_ns)
{
	bool any = false;

	for (size_t i = 0; i < watch->inventory->count; i++)
		any |= watch->cards[i].lost;
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
		watch->cards[i].device = NULL;
	if (nvml_restart(watch->nvml, NULL) == 0)
		attach(watch);
}

size_t nvml_watch_poll(struct nvml_watch *watch, int64_t now_ns, struct nvml_change *ret_changes, size_t max)
{
	size_t count = 0;

	retry_lost(watch, now_ns);
	drain_events(watch);
	for (size_t i = 0; i < watch->inventory->count; i++) {
		struct watched_card *card = &watch->cards[i];
		bool unhealthy;

		probe(watch, card);
		if (card->fault && !card->fault_is_new && !card->lost &&
			driver_wants_no_recovery(watch, card))
			card->fault = false;
		card->fault_is_new = false;
		unhealthy = card->lost || card->fault;
		if (unhealthy == card->reported_unhealthy || count == max)
			continue;
		card->reported_unhealthy = unhealthy;
		ret_changes[count] = (struct nvml_change){.card = i, .healthy = !unhealthy};
		if (unhealthy)
			memcpy(ret_changes[count].reason, card->reason, sizeof(card->reason));
		count++;
	}
	return count;
}
