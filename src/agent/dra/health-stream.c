#include "agent/dra/health-stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/health.pb-c.h"
#include "agent/wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "net/grpc-server.h"
#include "node/published.h"
#include "node/registry.h"

#define CALLS_MAX 8 /* the kubelet has one */
#define REPEAT_NS (10 * NS_PER_S)
#define HEALTHY 1
#define UNHEALTHY 2

struct health_stream {
	const struct node_registry *node;
	struct grpc_call *calls[CALLS_MAX];
	size_t n_calls;
	int64_t sent_ns;
	struct {
		char name[PUBLISHED_NAME_SIZE], reason[GPU_REASON_SIZE];
		bool healthy;
	} sent[NODE_GPUS_MAX];
	size_t n_sent;
};

static bool is_news(const struct health_stream *stream, const struct published_device *devices, size_t n)
{
	if (n != stream->n_sent)
		return true;
	for (size_t i = 0; i < n; i++)
		if (strcmp(stream->sent[i].name, devices[i].name) != 0 ||
			strcmp(stream->sent[i].reason, devices[i].gpu->details.reason) != 0 ||
			stream->sent[i].healthy != devices[i].gpu->facts.healthy)
			return true;
	return false;
}

static void remember(struct health_stream *stream, const struct published_device *devices, size_t n)
{
	stream->n_sent = n;
	stream->sent_ns = monotonic_ns();
	for (size_t i = 0; i < n; i++) {
		memcpy(stream->sent[i].name, devices[i].name, sizeof(stream->sent[i].name));
		memcpy(stream->sent[i].reason, devices[i].gpu->details.reason,
			sizeof(stream->sent[i].reason));
		stream->sent[i].healthy = devices[i].gpu->facts.healthy;
	}
}

static uint8_t *pack(
	const struct health_stream *stream, struct published_device *devices, size_t n, size_t *ret_len)
{
	Health__WatchResponse response = HEALTH__WATCH_RESPONSE__INIT;
	Health__DeviceIdentifier names[NODE_GPUS_MAX];
	Health__DeviceHealth healths[NODE_GPUS_MAX], *list[NODE_GPUS_MAX];

	for (size_t i = 0; i < n; i++) {
		health__device_identifier__init(&names[i]);
		health__device_health__init(&healths[i]);
		names[i].pool_name = (char *)stream->node->name;
		names[i].device_name = devices[i].name;
		healths[i].device = &names[i];
		healths[i].health = devices[i].gpu->facts.healthy ? HEALTHY : UNHEALTHY;
		healths[i].last_updated_time = realtime_ns() / NS_PER_S;
		healths[i].message = (char *)devices[i].gpu->details.reason;
		list[i] = &healths[i];
	}
	response.devices = list;
	response.n_devices = n;
	return wire_pack(&response.base, ret_len);
}

void health_stream_update(struct health_stream *stream)
{
	struct published_device devices[NODE_GPUS_MAX];
	size_t n = published_devices(&stream->node->inventory, devices), len = 0;
	_cleanup_free_ uint8_t *packed = NULL;

	if (!stream->n_calls ||
		(!is_news(stream, devices, n) && monotonic_ns() - stream->sent_ns < REPEAT_NS))
		return;
	packed = pack(stream, devices, n, &len);
	if (!packed)
		return; /* the next second tries again */
	for (size_t i = 0; i < stream->n_calls; i++)
		(void)grpc_call_send(stream->calls[i], packed, len);
	remember(stream, devices, n);
}

void health_stream_open(struct health_stream *stream, struct grpc_call *call)
{
	if (stream->n_calls == CALLS_MAX) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "too many streams are open");
		return;
	}
	stream->calls[stream->n_calls++] = call;
	stream->sent_ns = -REPEAT_NS;
	stream->n_sent = 0;
	health_stream_update(stream);
}

void health_stream_closed(struct health_stream *stream, struct grpc_call *call)
{
	for (size_t i = 0; i < stream->n_calls; i++)
		if (stream->calls[i] == call)
			stream->calls[i--] = stream->calls[--stream->n_calls];
}

int health_stream_new(const struct node_registry *node, struct health_stream **ret_stream)
{
	struct health_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->node = node;
	*ret_stream = stream;
	return 0;
}

void health_stream_free(struct health_stream *stream)
{
	free(stream);
}
