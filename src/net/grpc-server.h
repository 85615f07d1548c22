/* grpc-server.h - a gRPC server on a unix socket, for peers of the same user: unary and server-streaming
 * methods.
 *
 * Limits: 32 connections (the longest unused one makes room for a new one), 16 calls per connection,
 * messages of 4 MiB, 16 MiB of requests in arrival altogether, 8 KiB of headers. A connection without any
 * progress while somebody waits for it is closed after 20 s.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/grpc-frame.h"

struct error;
struct grpc_call;
struct grpc_server;
struct loop;

struct grpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
	/* The request is complete. `message` is valid during the call only. Leads to exactly one
	 * grpc_call_reply() or grpc_call_fail(), now or later, with any number of grpc_call_send() before in
	 * a streaming method; none after closed(). */
	void (*handle)(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len);
	/* The peer has gone or has cancelled before the end: `call` is invalid afterwards. May be NULL for
	 * methods that always answer within handle(). */
	void (*closed)(void *userdata, struct grpc_call *call);
};

/* grpc_server_new() - listens on path (mode 0600); a stale socket there is replaced. methods must outlive the
 * server. */
int grpc_server_new(struct loop *loop, const char *path, const struct grpc_method *methods, size_t n_methods,
	void *userdata, struct grpc_server **ret_server, struct error *err);

/* grpc_server_free() - GOAWAY to all peers, close, remove the socket if it is still ours. closed() is called
 * for open calls. Not from within handle(). Accepts NULL. */
void grpc_server_free(struct grpc_server *server);

/* grpc_server_listen_again() - where the socket is gone or not ours any more, a new one; connections stay. On
 * failure the server goes on without one. */
int grpc_server_listen_again(struct grpc_server *server, struct error *err);

/* grpc_call_send() - one message of a stream. At most one message waits behind the one that is being sent:
 * a newer one replaces it (for streams of states, where only the last one counts). Returns -ENOMEM. */
int grpc_call_send(struct grpc_call *call, const void *message, size_t len);

/* The end of a call, with and without a message; `call` is invalid afterwards. */
void grpc_call_reply(struct grpc_call *call, const void *message, size_t len);
void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *text);
