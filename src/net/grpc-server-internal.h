/* grpc-server-internal.h - declarations that grpc-server.c (sockets, connections) and grpc-call.c (calls,
 * HTTP/2 events) share. */
#pragma once

#include <sys/types.h>

#include "base/list.h"
#include "net/grpc-server.h"
#include "net/grpc-transport.h"

struct grpc_server {
	struct loop *loop;
	char *path;
	dev_t dev; /* identifies the socket file: another process may have replaced it */
	ino_t ino;
	int fd;
	struct kept_socket *kept;
	struct loop_io *io;
	struct loop_timer *sweep;
	const struct grpc_method *methods;
	size_t n_methods;
	void *userdata;
	struct list connections;
	size_t n_connections;
	size_t arriving; /* bytes of incomplete requests */
};

struct grpc_connection {
	struct list item;
	struct grpc_server *server;
	struct grpc_transport transport;
	struct list calls;
	bool began; /* at least one call has begun */
};

struct grpc_call {
	struct list item;
	struct grpc_connection *connection;
	int32_t stream_id;
	const struct grpc_method *method;
	bool is_post, is_grpc;
	size_t n_headers;
	struct grpc_frame request;
	bool handled;	/* passed to the method */
	bool responded; /* response headers are submitted */
	bool finished;	/* the method sends no more */
	enum grpc_status status;
	char *text;
	struct {
		uint8_t *sending, *waiting;
		size_t sending_len, sent, waiting_len;
	} out; /* the message that is being sent, and the one behind it */
};

/* grpc_call_gone() - called when the call's stream or connection has ended. Tells the method if it has not
 * finished, and frees the call. */
void grpc_call_gone(struct grpc_call *call);

/* grpc_call_is_arriving() - whether the request is incomplete. */
bool grpc_call_is_arriving(const struct grpc_call *call);

/* grpc_call_session_new() - the server's side of HTTP/2 for a connection, with SETTINGS submitted.
 * -ENOMEM. */
int grpc_call_session_new(struct grpc_connection *connection, nghttp2_session **ret_session);
