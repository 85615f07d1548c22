/* grpc-client.h - unary gRPC calls to a server on a unix socket, over one connection that is opened when
 * needed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "net/grpc-frame.h"

struct grpc_client;
struct grpc_client_call;
struct loop;

/* result 0: the server answered, with a status, a text and, if the status is GRPC_OK, one message. Negative
 * errno: it did not (-ETIMEDOUT, -ECONNRESET, -EPROTO, -EMSGSIZE ...). Pointers are valid during the call
 * only. */
struct grpc_reply {
	int result;
	enum grpc_status status;
	const char *text;
	const uint8_t *message;
	size_t len;
};
typedef void (*grpc_reply_fn)(void *userdata, const struct grpc_reply *reply);

/* grpc_client_new() - copies path and opens nothing yet. Answers of more than max_message bytes are
 * refused. */
int grpc_client_new(struct loop *loop, const char *path, size_t max_message, struct grpc_client **ret_client);
/* grpc_client_free() - cancels all calls without calling back. Accepts NULL. Not from within a reply
 * function. */
void grpc_client_free(struct grpc_client *client);

/* grpc_client_disconnect() - the next call opens a new connection. Calls in flight end with -ECONNABORTED.
 * Not from within a reply function. */
void grpc_client_disconnect(struct grpc_client *client);

/* grpc_client_call() - returns 0 and later calls fn exactly once, never from within. On error it returns a
 * negative errno and never calls fn (-ENOENT, -ECONNREFUSED: no server listens; -EAGAIN: its backlog is
 * full). method is a path like "/v1beta1.Registration/Register" and must stay valid until the call ends.
 * ret_call may be NULL. */
int grpc_client_call(struct grpc_client *client, const char *method, const void *message, size_t len,
	int timeout_ms, grpc_reply_fn fn, void *userdata, struct grpc_client_call **ret_call);

/* grpc_client_cancel() - fn will not be called. Only valid before fn was called. Accepts NULL. */
void grpc_client_cancel(struct grpc_client_call *call);

/* grpc_reply_text() - writes one sentence about an unsuccessful reply into buf. */
const char *grpc_reply_text(const struct grpc_reply *reply, char *buf, size_t size);
