/* health-stream.h - the kubelet's stream NodeWatchResources: the health of each GPU, which the kubelet shows
 * in the status of the pods that use it (feature gate ResourceHealthStatus). */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct grpc_call;
struct health_stream;
struct node_registry;

/* health_stream_new() - node must outlive it. */
int health_stream_new(const struct node_registry *node, struct health_stream **ret_stream);
void health_stream_free(struct health_stream *stream); /* accepts NULL; call it after the calls have ended */

/* The calls of the kubelet. */
void health_stream_open(struct health_stream *stream, struct grpc_call *call);
void health_stream_closed(struct health_stream *stream, struct grpc_call *call);

/* health_stream_update() - sends what has changed; and from time to time all, since the kubelet believes
 * nothing for longer than 30 s. Call it at least once a second. */
void health_stream_update(struct health_stream *stream);
