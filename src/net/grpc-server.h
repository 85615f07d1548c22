/* grpc-server.h - a gRPC server on a unix socket, for peers of the same user, with unary and server-streaming
 * methods.
 *
 * Limits: 32 connections (a new one replaces the one that has been unused longest), 16 calls per connection,
 * messages of 4 MiB, 16 MiB of incomplete requests in total, 8 KiB of headers. A connection without progress
 * for 20 s is closed if one side waits for it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/grpc-frame.h"

struct error;
struct grpc_call;
struct grpc_server;
struct loop;

struct grpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
	/* Called when the request is complete. `message` is valid during the call only. It must lead to
	 * exactly one grpc_call_reply() or grpc_call_fail(), at once or later. A streaming method may call
	 * grpc_call_send() any number of times before. After closed() none of these may be called. */
	void (*handle)(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len);
	/* Called if the peer has closed or cancelled the call before its end; `call` is invalid afterwards.
	 * May be NULL for methods that always answer within handle(). */
	void (*closed)(void *userdata, struct grpc_call *call);
};

/* A socket that outlives the process that listens on it. A supervisor opens it, in memory that it shares with
 * the processes that it forks. The first server that is given it binds it, and a server of a later process
 * goes on with it: clients that connect in between wait, and its file does not change. */
struct kept_socket {
	int fd; /* -1: none, or of no use any more */
	dev_t dev;
	ino_t ino; /* of its file; 0: it is not bound yet */
};

/* kept_socket_is_at() - a server of an earlier process listened at this path, and clients still find it
 * there. */
bool kept_socket_is_at(const struct kept_socket *kept, const char *path);

/* grpc_server_new() - listens on path (mode 0600) and replaces a stale socket there. methods must outlive the
 * server. kept: a socket to use, NULL: none; it must outlive the server, and belongs to one path. */
int grpc_server_new(struct loop *loop, const char *path, const struct grpc_method *methods, size_t n_methods,
	void *userdata, struct kept_socket *kept, struct grpc_server **ret_server, struct error *err);

/* grpc_server_free() - sends GOAWAY to all peers, closes, and removes the socket if it is still ours.
 * closed() is called for open calls. Not from within handle(). Accepts NULL. */
void grpc_server_free(struct grpc_server *server);

/* grpc_server_listen_again() - creates a new socket if the old one is gone or was replaced; connections stay.
 * If that fails the server continues without a socket. */
int grpc_server_listen_again(struct grpc_server *server, struct error *err);

/* grpc_call_send() - sends one message of a stream. At most one message waits behind the one that is being
 * sent, and a newer one replaces it: in a stream of states only the last one counts. -ENOMEM. */
int grpc_call_send(struct grpc_call *call, const void *message, size_t len);

/* These end a call, with or without a message; `call` is invalid afterwards. */
void grpc_call_reply(struct grpc_call *call, const void *message, size_t len);
void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *text);
