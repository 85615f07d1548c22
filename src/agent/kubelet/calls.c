#include "agent/kubelet/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"
#include "net/loop.h"

struct calls {
	struct loop *loop;
	struct relay *relay;
	const struct calls_ops *ops;
	void *userdata;
	struct list open;
};

struct kubelet_call {
	struct list item;
	struct calls *calls;
	const struct kubelet_method *method;
	uint32_t id;
	bool resumed;
};

static void call_free(struct kubelet_call *call)
{
	list_remove(&call->item);
	free(call);
}

static void call_closed(struct kubelet_call *call)
{
	if (call->method->closed)
		call->method->closed(call->calls->userdata, call);
	call_free(call);
}

static void calls_open(struct calls *calls, const struct relay_frame *frame, const uint8_t *data)
{
	uint32_t method = frame->arg & ~RELAY_RESUMED;
	struct kubelet_call *call = method < RELAY_METHOD_MAX ? calloc(1, sizeof(*call)) : NULL;
	static const char text[] = "out of memory";

	if (!call) {
		relay_send(calls->relay, RELAY_FAIL, frame->id, GRPC_RESOURCE_EXHAUSTED, text, strlen(text));
		return;
	}
	call->calls = calls;
	call->id = frame->id;
	call->method = &calls->ops->methods[method];
	call->resumed = frame->arg & RELAY_RESUMED;
	list_append(&calls->open, &call->item);
	relay_send(calls->relay, RELAY_TAKEN, call->id, 0, NULL, 0);
	call->method->handle(calls->userdata, call, data, frame->len);
}

static void calls_close(struct calls *calls, uint32_t id)
{
	list_for_each (item, &calls->open) {
		struct kubelet_call *call = list_entry(item, struct kubelet_call, item);

		if (call->id != id)
			continue;
		call_closed(call);
		return;
	}
}

static void on_frame(void *userdata, const struct relay_frame *frame, const uint8_t *data)
{
	struct calls *calls = userdata;
	_cleanup_free_ char *text = NULL;

	switch (frame->kind) {
	case RELAY_CALL:
		calls_open(calls, frame, data);
		break;
	case RELAY_CLOSED:
		calls_close(calls, frame->id);
		break;
	case RELAY_LISTENING:
		text = frame->len ? strndup((const char *)data, frame->len) : NULL;
		calls->ops->listening(calls->userdata, text);
		break;
	default:
		break;
	}
}

static void on_ended(void *userdata)
{
	struct calls *calls = userdata;

	log_error("the supervisor is gone");
	loop_quit(calls->loop, -ECONNRESET);
}

int calls_new(
	struct loop *loop, int fd, const struct calls_ops *ops, void *userdata, struct calls **ret_calls)
{
	static const struct relay_ops relay_ops = {on_frame, on_ended};
	struct calls *calls = calloc(1, sizeof(*calls));
	int r;

	if (!calls) {
		close(fd);
		return -ENOMEM;
	}
	*calls = (struct calls){.loop = loop, .ops = ops, .userdata = userdata};
	list_init(&calls->open);
	r = relay_new(loop, fd, &relay_ops, calls, &calls->relay);
	if (r < 0)
		free(calls);
	else
		*ret_calls = calls;
	return r;
}

void calls_free(struct calls *calls)
{
	if (!calls)
		return;
	while (!list_empty(&calls->open))
		call_closed(list_entry(calls->open.next, struct kubelet_call, item));
	relay_free(calls->relay);
	free(calls);
}

void calls_begin(struct calls *calls)
{
	relay_begin(calls->relay);
}

void calls_listen(struct calls *calls)
{
	relay_send(calls->relay, RELAY_LISTEN, 0, 0, NULL, 0);
}

void calls_ready(struct calls *calls)
{
	relay_send(calls->relay, RELAY_READY, 0, 0, NULL, 0);
}

bool kubelet_call_resumed(const struct kubelet_call *call)
{
	return call->resumed;
}

int kubelet_call_send(struct kubelet_call *call, const void *message, size_t len)
{
	return relay_send(call->calls->relay, RELAY_SEND, call->id, 0, message, len);
}

void kubelet_call_reply(struct kubelet_call *call, const void *message, size_t len)
{
	if (relay_send(call->calls->relay, RELAY_REPLY, call->id, 0, message, len) < 0)
		kubelet_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		call_free(call);
}

void kubelet_call_fail(struct kubelet_call *call, enum grpc_status status, const char *text)
{
	relay_send(call->calls->relay, RELAY_FAIL, call->id, (uint32_t)status, text, strlen(text));
	call_free(call);
}
