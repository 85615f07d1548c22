/* device-list.h - the kubelet's ListAndWatch of one resource: every open stream gets the devices, and gets
 * them again when they change. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/ids.h"

struct kubelet;
struct inventory;
struct kubelet_call;

#define DEVICE_STREAMS_MAX 16

struct device_list_ops {
	enum ids_of of;
	/* The number of devices. While all GPUs are healthy, the list depends on nothing else. */
	uint32_t (*count)(const struct kubelet *kubelet);
	/* Their ids, for the GPUs of `inventory`, not for the agent's own. -ENOMEM. */
	int (*build)(struct kubelet *kubelet, const struct inventory *inventory, struct device_ids *ret_ids);
};

struct device_list {
	struct kubelet *kubelet;
	const struct device_list_ops *ops;
	struct kubelet_call *streams[DEVICE_STREAMS_MAX];
	size_t n_streams;
	uint8_t *message; /* what was last sent to the streams */
	size_t message_len;
	bool message_offered; /* what it was made of: */
	uint32_t message_count;
	bool message_healthy;
};

void device_list_init(struct device_list *list, struct kubelet *kubelet, const struct device_list_ops *ops);
void device_list_release(struct device_list *list);

/* device_list_open() - a stream begins: it gets the present devices, or stays as an earlier worker left it.
 * device_list_closed() - a stream ended; returns whether no stream is open. */
void device_list_open(struct device_list *list, struct kubelet_call *call);
bool device_list_closed(struct device_list *list, struct kubelet_call *call);

/* device_list_watched() - the kubelet has a stream open. */
bool device_list_watched(const struct device_list *list);

/* device_list_update() - sends the present devices to the open streams, if they have changed. */
void device_list_update(struct device_list *list);
