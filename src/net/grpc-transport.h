/* grpc-transport.h - one unix socket with one HTTP/2 session on the loop. Only for grpc-server and
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
	const uint8_t *out; /* bytes from nghttp2 that the socket has not taken yet */
	size_t out_len;
	uint32_t events;
	int64_t progress_ns; /* monotonic: last byte in or out */
	/* Called when the connection has ended; 0: in order. Must call grpc_transport_close(); may free the
	 * transport. */
	void (*dead)(void *userdata, int error);
	void *userdata;
};

/* grpc_transport_open() - takes ownership of fd and session in any case. The caller has set the session's
 * callbacks and their userdata. */
int grpc_transport_open(struct grpc_transport *transport, struct loop *loop, int fd, nghttp2_session *session,
	void (*dead)(void *userdata, int error), void *userdata);

/* grpc_transport_close() - nghttp2 does not call on_stream_close for streams that are still open, so the
 * owner must free its own list of them. Harmless if closed. Not from within an nghttp2 callback. */
void grpc_transport_close(struct grpc_transport *transport);

/* grpc_transport_wake() - there is something to send. The loop sends it, so nghttp2's callbacks may call
 * this. */
void grpc_transport_wake(struct grpc_transport *transport);

/* grpc_transport_flush() - sends what the socket takes now. Negative errno if the connection is broken; the
 * caller then closes it. */
int grpc_transport_flush(struct grpc_transport *transport);
