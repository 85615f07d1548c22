/* grpc-transport.h - one unix socket with one HTTP/2 session on the loop. Internal to grpc-server and
 * grpc-client. */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

struct grpc_transport {
	struct loop_io *io;
	int fd; /* owned; -1 when closed */
	nghttp2_session *session;
	const uint8_t *out; /* what nghttp2 gave us and the socket did not take yet */
	size_t out_len;
	uint32_t events;
	int64_t progress_ns; /* monotonic: last byte in or out */
	/* The connection is over: 0 for an orderly end. Must call grpc_transport_close(); may free the
	 * transport. */
	void (*dead)(void *userdata, int error);
	void *userdata;
};

/* grpc_transport_open() - takes fd and session in any case. Both ends call it with callbacks whose userdata
 * they gave to the session themselves. */
int grpc_transport_open(struct grpc_transport *transport, struct loop *loop, int fd, nghttp2_session *session,
	void (*dead)(void *userdata, int error), void *userdata);

/* grpc_transport_close() - streams that are still open get no on_stream_close from nghttp2: the owner frees
 * its own list of them. Harmless when closed. Not from within an nghttp2 callback. */
void grpc_transport_close(struct grpc_transport *transport);

/* grpc_transport_wake() - there is something to send; it goes out from the loop, so this may be called from
 * nghttp2's callbacks. */
void grpc_transport_wake(struct grpc_transport *transport);

/* grpc_transport_flush() - send what the socket takes now. Negative errno when the connection is broken; the
 * caller closes. */
int grpc_transport_flush(struct grpc_transport *transport);
