#include "agent/kubelet/device-list.h"

#include <stdlib.h>
#include <string.h>

#include "agent/deviceplugin.pb-c.h"
#include "agent/kubelet/calls.h"
#include "agent/kubelet/kubelet-internal.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/log.h"

void device_list_init(struct device_list *list, struct kubelet *kubelet, const struct device_list_ops *ops)
{
	*list = (struct device_list){.kubelet = kubelet, .ops = ops};
}

void device_list_release(struct device_list *list)
{
	free(list->message);
	list->message = NULL;
}

static uint8_t *pack_devices(const struct device_ids *ids, size_t *ret_len)
{
	_cleanup_free_ V1beta1__Device *devices = calloc(ids->n + 1, sizeof(*devices));
	_cleanup_free_ V1beta1__Device **pointers = calloc(ids->n + 1, sizeof(*pointers));
	V1beta1__ListAndWatchResponse response = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;

	if (!devices || !pointers)
		return NULL;
	for (size_t i = 0; i < ids->n; i++) {
		v1beta1__device__init(&devices[i]);
		devices[i].id = ids->ids[i];
		devices[i].health = ids->healthy[i] ? "Healthy" : "Unhealthy";
		pointers[i] = &devices[i];
	}
	response.n_devices = ids->n;
	response.devices = pointers;
	return wire_pack(&response.base, ret_len);
}

/* A node whose mode does not have the resource sends an empty list, and the resource goes to 0. A node that
 * cannot enforce limits at the moment keeps the devices that pods hold. */
static uint8_t *device_list_state(const struct device_list *list, size_t *ret_len)
{
	struct kubelet *kubelet = list->kubelet;
	struct inventory inventory = kubelet->deps.node->inventory;
	struct device_ids ids = {0};
	uint8_t *packed;

	for (size_t i = 0; *kubelet->deps.node->problems.isolation && i < inventory.n_gpus; i++)
		inventory.gpus[i].facts.healthy = false;
	if (node_registry_offers(kubelet->deps.node, list->ops->of) &&
		list->ops->build(kubelet, &inventory, &ids) < 0)
		return NULL;
	packed = pack_devices(&ids, ret_len);
	ids_release(&ids);
	return packed;
}

static bool all_healthy(const struct kubelet *kubelet)
{
	const struct inventory *inventory = &kubelet->deps.node->inventory;

	if (*kubelet->deps.node->problems.isolation)
		return false;
	for (size_t i = 0; i < inventory->n_gpus; i++)
		if (!inventory->gpus[i].facts.healthy)
			return false;
	return true;
}

/* While all GPUs are healthy, the list depends on nothing else. So thousands of ids need not be made only to
 * see that they are the same. */
static bool device_list_may_differ(const struct device_list *list)
{
	const struct kubelet *kubelet = list->kubelet;

	return !list->message || !list->message_healthy || !all_healthy(kubelet) ||
	       node_registry_offers(kubelet->deps.node, list->ops->of) != list->message_offered ||
	       list->ops->count(kubelet) != list->message_count;
}

/* All streams were told; takes state over. */
static void device_list_remember(struct device_list *list, uint8_t *state, size_t len)
{
	free(list->message);
	list->message = state;
	list->message_len = len;
	list->message_offered = node_registry_offers(list->kubelet->deps.node, list->ops->of);
	list->message_healthy = all_healthy(list->kubelet);
	list->message_count = list->ops->count(list->kubelet);
}

void device_list_open(struct device_list *list, struct kubelet_call *call)
{
	_cleanup_free_ uint8_t *state = NULL;
	size_t len = 0;

	if (list->n_streams == DEVICE_STREAMS_MAX) {
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "too many ListAndWatch streams");
		return;
	}
	/* The list of the earlier worker is still valid. This worker's own list may not be, before it knows
	 * the pods. */
	if (kubelet_call_resumed(call)) {
		list->streams[list->n_streams++] = call;
		return;
	}
	state = device_list_state(list, &len);
	if (!state || kubelet_call_send(call, state, len) < 0) {
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	list->streams[list->n_streams++] = call;
	device_list_remember(list, TAKE_PTR(state), len);
	log_debug("the kubelet watches our devices");
	list->kubelet->deps.changed(list->kubelet->deps.userdata);
}

bool device_list_closed(struct device_list *list, struct kubelet_call *call)
{
	for (size_t i = 0; i < list->n_streams; i++)
		if (list->streams[i] == call) {
			list->streams[i] = list->streams[--list->n_streams];
			break;
		}
	return !list->n_streams;
}

bool device_list_watched(const struct device_list *list)
{
	return list->n_streams;
}

void device_list_update(struct device_list *list)
{
	_cleanup_free_ uint8_t *state = NULL;
	size_t len = 0;
	bool same;

	if (!list->n_streams || (!list->message && !list->kubelet->deps.node->settled) ||
		!device_list_may_differ(list))
		return;
	state = device_list_state(list, &len);
	if (!state)
		return;
	same = list->message && len == list->message_len && memcmp(state, list->message, len) == 0;
	for (size_t i = 0; !same && i < list->n_streams; i++)
		if (kubelet_call_send(list->streams[i], state, len) < 0) {
			/* Some streams were told, some were not: the next update tells all of them. */
			free(list->message);
			list->message = NULL;
			list->message_len = 0;
			return;
		}
	device_list_remember(list, TAKE_PTR(state), len);
}
