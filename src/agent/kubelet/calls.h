/* calls.h - the kubelet's calls as the worker sees them: they come through the supervisor (front.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/kubelet/relay.h"
#include "net/grpc-frame.h"

struct calls;
struct kubelet_call;
struct loop;

/* handle() leads to exactly one kubelet_call_reply() or kubelet_call_fail(), now or later. In a stream, any
 * number of kubelet_call_send() may come before. None may follow closed(), which may be NULL for methods that
 * always answer within handle(). `message` is valid only during the call. */
struct kubelet_method {
	void (*handle)(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len);
	void (*closed)(void *userdata, struct kubelet_call *call);
};

struct calls_ops {
	struct kubelet_method methods[RELAY_METHOD_MAX];
	/* The answer to calls_listen(). text is NULL, or says why there is no socket. */
	void (*listening)(void *userdata, const char *text);
};

/* calls_new() - takes fd over in any case. Calls wait until calls_begin(). */
int calls_new(
	struct loop *loop, int fd, const struct calls_ops *ops, void *userdata, struct calls **ret_calls);
/* calls_free() - closed() is called for open calls. Accepts NULL. */
void calls_free(struct calls *calls);
void calls_begin(struct calls *calls);

/* calls_listen() - asks the supervisor to make the plugin's socket. Calls that waited come before the answer.
 */
void calls_listen(struct calls *calls);
/* calls_ready() - tells the supervisor that this worker has started. */
void calls_ready(struct calls *calls);

/* kubelet_call_resumed() - true for a stream that an earlier worker has already answered. */
bool kubelet_call_resumed(const struct kubelet_call *call);

/* kubelet_call_send() - sends one message of a stream. -ENOMEM, -EMSGSIZE. */
int kubelet_call_send(struct kubelet_call *call, const void *message, size_t len);

/* The end of a call, with and without a message; `call` is invalid afterwards. */
void kubelet_call_reply(struct kubelet_call *call, const void *message, size_t len);
void kubelet_call_fail(struct kubelet_call *call, enum grpc_status status, const char *text);
