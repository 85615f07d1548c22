#include "agent/kubelet/front.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kubelet/relay.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "net/grpc-server.h"

#define KEPT_MAX ((size_t)16 << 20)
#define DEATHS_MAX 3
#define HANGS_NS (30 * NS_PER_S)

struct front {
	struct loop *loop;
	char *path;
	struct grpc_server *server;
	struct relay *relay; /* NULL: no worker */
	struct list calls;   /* oldest first */
	size_t kept;	     /* bytes of their requests */
	uint32_t last_id;
	bool ready;
};

struct front_call {
	struct list item;
	struct grpc_call *call;
	uint32_t id;
	enum relay_method method;
	bool told;  /* for a stream: it has had a message */
	bool taken; /* the present worker has read it */
	unsigned int deaths;
	int64_t given_ns; /* when it was given to the present worker */
	size_t len;
	uint8_t message[];
};

static void call_free(struct front *front, struct front_call *c)
{
	front->kept -= c->len;
	list_remove(&c->item);
	free(c);
}

static void call_fail(struct front *front, struct front_call *c, enum grpc_status status, const char *text)
{
	grpc_call_fail(c->call, status, text);
	call_free(front, c);
}

/* Returns whether the call still exists. */
static bool call_give(struct front *front, struct front_call *c)
{
	uint32_t arg = (uint32_t)c->method | (c->told ? RELAY_RESUMED : 0);

	c->given_ns = monotonic_ns();
	c->taken = false;
	if (!front->relay || relay_send(front->relay, RELAY_CALL, c->id, arg, c->message, c->len) == 0)
		return true;
	call_fail(front, c, GRPC_RESOURCE_EXHAUSTED, "ration-agent has too much to do");
	return false;
}

static void front_handle(struct front *front, enum relay_method method, struct grpc_call *call,
	const uint8_t *message, size_t len)
{
	struct front_call *c = front->kept + len > KEPT_MAX ? NULL : calloc(1, sizeof(*c) + len);

	if (!c) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "too many calls wait for an answer");
		return;
	}
	c->call = call;
	c->id = ++front->last_id;
	c->method = method;
	c->len = len;
	if (len)
		memcpy(c->message, message, len);
	front->kept += len;
	list_append(&front->calls, &c->item);
	call_give(front, c);
}

static void handle_options(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	front_handle(userdata, RELAY_OPTIONS, call, message, len);
}

static void handle_list_and_watch(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	front_handle(userdata, RELAY_LIST_AND_WATCH, call, message, len);
}

static void handle_preferred(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	front_handle(userdata, RELAY_PREFERRED, call, message, len);
}

static void handle_allocate(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	front_handle(userdata, RELAY_ALLOCATE, call, message, len);
}

static void handle_prestart(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	front_handle(userdata, RELAY_PRESTART, call, message, len);
}

static void on_closed(void *userdata, struct grpc_call *call)
{
	struct front *front = userdata;

	list_for_each (item, &front->calls) {
		struct front_call *c = list_entry(item, struct front_call, item);

		if (c->call != call)
			continue;
		if (front->relay)
			relay_send(front->relay, RELAY_CLOSED, c->id, 0, NULL, 0);
		call_free(front, c);
		return;
	}
}

static const struct grpc_method METHODS[] = {
	{"/v1beta1.DevicePlugin/GetDevicePluginOptions", handle_options, on_closed},
	{"/v1beta1.DevicePlugin/ListAndWatch", handle_list_and_watch, on_closed},
	{"/v1beta1.DevicePlugin/GetPreferredAllocation", handle_preferred, on_closed},
	{"/v1beta1.DevicePlugin/Allocate", handle_allocate, on_closed},
	{"/v1beta1.DevicePlugin/PreStartContainer", handle_prestart, on_closed},
};

static struct front_call *front_find(struct front *front, uint32_t id)
{
	list_for_each (item, &front->calls)
		if (list_entry(item, struct front_call, item)->id == id)
			return list_entry(item, struct front_call, item);
	return NULL;
}

static void on_frame(void *userdata, const struct relay_frame *frame, const uint8_t *data)
{
	struct front *front = userdata;
	struct front_call *c = frame->id ? front_find(front, frame->id) : NULL;
	_cleanup_free_ char *text = NULL;

	if (frame->kind == RELAY_READY)
		front->ready = true;
	else if (frame->kind == RELAY_LISTEN) {
		struct error err = {""};
		int r;

		if (front->server)
			r = grpc_server_listen_again(front->server, &err);
		else
			r = grpc_server_new(front->loop, front->path, METHODS, ARRAY_SIZE(METHODS), front,
				NULL, &front->server, &err);
		relay_send(front->relay, RELAY_LISTENING, 0, 0, err.text, r < 0 ? strlen(err.text) : 0);
	}
	if (!c)
		return; /* it was closed meanwhile */
	switch (frame->kind) {
	case RELAY_TAKEN:
		c->taken = true;
		break;
	case RELAY_SEND:
		if (grpc_call_send(c->call, data, frame->len) == 0)
			c->told = true;
		break;
	case RELAY_REPLY:
		grpc_call_reply(c->call, data, frame->len);
		call_free(front, c);
		break;
	case RELAY_FAIL:
		text = strndup((const char *)data, frame->len);
		call_fail(front, c, (enum grpc_status)frame->arg, text ? text : "out of memory");
		break;
	default:
		break;
	}
}

static void on_ended(void *userdata)
{
	log_debug("the worker has closed its socket");
}

int front_new(struct loop *loop, const char *path, struct front **ret_front)
{
	struct front *front = calloc(1, sizeof(*front));

	if (!front)
		return -ENOMEM;
	front->loop = loop;
	list_init(&front->calls);
	front->path = strdup(path);
	if (!front->path) {
		free(front);
		return -ENOMEM;
	}
	*ret_front = front;
	return 0;
}

void front_free(struct front *front)
{
	if (!front)
		return;
	relay_free(front->relay);
	front->relay = NULL;
	grpc_server_free(front->server);
	while (!list_empty(&front->calls))
		call_free(front, list_entry(front->calls.next, struct front_call, item));
	free(front->path);
	free(front);
}

int front_attach(struct front *front, int fd)
{
	static const struct relay_ops ops = {on_frame, on_ended};
	int r = relay_new(front->loop, fd, &ops, front, &front->relay);

	if (r < 0)
		return r;
	relay_begin(front->relay);
	list_for_each_safe (item, after, &front->calls)
		call_give(front, list_entry(item, struct front_call, item));
	return 0;
}

void front_detach(struct front *front)
{
	if (front->relay)
		relay_drain(front->relay);
	relay_free(front->relay);
	front->relay = NULL;
	list_for_each_safe (item, after, &front->calls) {
		struct front_call *c = list_entry(item, struct front_call, item);

		/* An open ListAndWatch is not work, and neither is a call that no worker has read. */
		if (c->method != RELAY_LIST_AND_WATCH && c->taken && ++c->deaths == DEATHS_MAX)
			call_fail(front, c, GRPC_UNAVAILABLE,
				"ration-agent died three times while it worked on this: see its log");
	}
}

bool front_worker_ready(const struct front *front)
{
	return front->ready;
}

bool front_worker_hangs(const struct front *front)
{
	int64_t now = monotonic_ns();

	list_for_each (item, &front->calls) {
		const struct front_call *c = list_entry(item, struct front_call, item);

		if (c->method != RELAY_LIST_AND_WATCH && now - c->given_ns > HANGS_NS)
			return true;
	}
	return false;
}
