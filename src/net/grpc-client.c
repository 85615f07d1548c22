#include "net/grpc-client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/parse.h"
#include "net/grpc-transport.h"
#include "net/loop.h"

#define WINDOW (1 << 20)
#define HEADERS_MAX 64

struct grpc_client {
	struct loop *loop;
	char *path;
	size_t max_message;
	struct grpc_transport transport;
	struct list calls;
};

struct grpc_client_call {
	struct list item;
	struct grpc_client *client;
	int32_t stream_id;
	grpc_reply_fn fn;
	void *userdata;
	struct loop_timer *timer;
	uint8_t *request;
	size_t request_len, sent;
	struct grpc_frame reply;
	int result; /* an error found before the stream closed */
	bool has_status;
	enum grpc_status status;
	char *text;
	size_t n_headers;
};

static void call_free(struct grpc_client_call *call)
{
	list_remove(&call->item);
	loop_timer_remove(call->timer);
	free(call->request);
	grpc_frame_release(&call->reply);
	free(call->text);
	free(call);
}

static void call_finish(struct grpc_client_call *call, int result)
{
	struct grpc_reply reply = {
		.result = result, .status = call->status, .text = call->text ? call->text : ""};

	/* Removed from the list first, because fn may start another call or close this call's connection. */
	list_remove(&call->item);
	loop_timer_stop(call->timer);
	if (result == 0 && call->status == GRPC_OK) {
		if (grpc_frame_complete(&call->reply)) {
			reply.message = call->reply.body;
			reply.len = call->reply.received;
		} else {
			reply.result = -EPROTO;
		}
	}
	call->fn(call->userdata, &reply);
	call_free(call);
}

static void client_fail_all(struct grpc_client *client, int result)
{
	struct list calls;

	grpc_transport_close(&client->transport);
	list_init(&calls);
	while (!list_empty(&client->calls)) {
		struct list *item = client->calls.next;

		list_remove(item);
		list_append(&calls, item);
	}
	while (!list_empty(&calls))
		call_finish(list_entry(calls.next, struct grpc_client_call, item), result);
}

static void client_dead(void *userdata, int error)
{
	client_fail_all(userdata, error ? error : -ECONNRESET);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *userdata)
{
	struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	uint32_t status;

	if (!call)
		return 0;
	if (++call->n_headers > HEADERS_MAX)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	/* nghttp2 terminates names and values with NUL. */
	if (strcmp((const char *)name, ":status") == 0 && strcmp((const char *)value, "200") != 0) {
		call->result = -EPROTO;
	} else if (strcmp((const char *)name, "grpc-status") == 0) {
		call->has_status = parse_u32((const char *)value, INT32_MAX, &status) == 0;
		call->status = call->has_status ? (enum grpc_status)status : GRPC_UNKNOWN;
	} else if (strcmp((const char *)name, "grpc-message") == 0 && !call->text) {
		call->text = strndup((const char *)value, 3 * GRPC_TEXT_MAX);
		if (call->text)
			grpc_text_decode(call->text);
	}
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
	size_t len, void *userdata)
{
	struct grpc_client *client = userdata;
	struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
	enum grpc_status status;

	if (!call || call->result < 0)
		return 0;
	status = grpc_frame_feed(&call->reply, data, len, client->max_message);
	if (status == GRPC_OK)
		return 0;
	call->result = status == GRPC_RESOURCE_EXHAUSTED ? -EMSGSIZE : -EPROTO;
	nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_CANCEL);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error, void *userdata)
{
	struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
	int result;

	if (!call)
		return 0;
	result = call->result;
	/* A server that answers before it has read the whole request ends with NO_ERROR or CANCEL. That is
	 * still an answer. */
	if (result == 0 && !call->has_status)
		result = error == NGHTTP2_NO_ERROR ? -EPROTO : -ECONNRESET;
	call_finish(call, result);
	return 0;
}

static ssize_t call_read(nghttp2_session *session, int32_t stream_id, uint8_t *buf, size_t size,
	uint32_t *flags, nghttp2_data_source *source, void *userdata)
{
	struct grpc_client_call *call = source->ptr;
	size_t n = call->request_len - call->sent;

	if (n > size)
		n = size;
	memcpy(buf, call->request + call->sent, n);
	call->sent += n;
	if (call->sent == call->request_len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static int client_session(struct grpc_client *client, nghttp2_session **ret_session)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 16384},
	};
	nghttp2_session_callbacks *callbacks;

	if (nghttp2_session_callbacks_new(&callbacks) < 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	if (nghttp2_session_client_new(ret_session, callbacks, client) < 0) {
		nghttp2_session_callbacks_del(callbacks);
		return -ENOMEM;
	}
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(*ret_session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
	nghttp2_session_set_local_window_size(*ret_session, NGHTTP2_FLAG_NONE, 0, WINDOW);
	return 0;
}

static int client_connect(struct grpc_client *client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	nghttp2_session *session;
	int r;

	if (client->transport.session)
		return 0;
	strcpy(address.sun_path, client->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* connect() does not block on unix sockets: it succeeds, is refused, or gives EAGAIN if the backlog
	 * is full. */
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	r = client_session(client, &session);
	if (r < 0)
		return r;
	return grpc_transport_open(
		&client->transport, client->loop, TAKE_FD(&fd), session, client_dead, client);
}

int grpc_client_new(struct loop *loop, const char *path, size_t max_message, struct grpc_client **ret_client)
{
	struct grpc_client *client;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return -ENAMETOOLONG;
	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	*client = (struct grpc_client){.loop = loop, .max_message = max_message, .path = strdup(path)};
	client->transport.fd = -1;
	list_init(&client->calls);
	if (!client->path) {
		free(client);
		return -ENOMEM;
	}
	*ret_client = client;
	return 0;
}

void grpc_client_free(struct grpc_client *client)
{
	if (!client)
		return;
	grpc_transport_close(&client->transport);
	while (!list_empty(&client->calls))
		call_free(list_entry(client->calls.next, struct grpc_client_call, item));
	free(client->path);
	free(client);
}

void grpc_client_disconnect(struct grpc_client *client)
{
	client_fail_all(client, -ECONNABORTED);
}

static void call_drop(struct grpc_client_call *call)
{
	struct grpc_client *client = call->client;

	if (!client->transport.session)
		return;
	nghttp2_session_set_stream_user_data(client->transport.session, call->stream_id, NULL);
	nghttp2_submit_rst_stream(
		client->transport.session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
	/* nghttp2 may still hold a pointer to the request, so the reader must not find freed memory. The
	 * reader runs only when DATA is sent, which the RST_STREAM before it prevents. */
	grpc_transport_wake(&client->transport);
}

static void call_timeout(void *userdata)
{
	struct grpc_client_call *call = userdata;

	call_drop(call);
	call_finish(call, -ETIMEDOUT);
}

void grpc_client_cancel(struct grpc_client_call *call)
{
	if (!call)
		return;
	call_drop(call);
	call_free(call);
}

#define HEADER(header, text)                                                                                 \
	(nghttp2_nv)                                                                                         \
	{                                                                                                    \
		.name = (uint8_t *)(header), .value = (uint8_t *)(text), .namelen = strlen(header),          \
		.valuelen = strlen(text)                                                                     \
	}

static int call_submit(struct grpc_client_call *call, const char *method)
{
	nghttp2_data_provider provider = {.source.ptr = call, .read_callback = call_read};
	/* grpc-go refuses an authority that is empty or a path. */
	nghttp2_nv nv[] = {
		HEADER(":method", "POST"),
		HEADER(":scheme", "http"),
		HEADER(":path", method),
		HEADER(":authority", "localhost"),
		HEADER("te", "trailers"),
		HEADER("content-type", "application/grpc"),
		HEADER("user-agent", "ration/" RATION_VERSION),
	};

	call->stream_id = nghttp2_submit_request(
		call->client->transport.session, NULL, nv, ARRAY_SIZE(nv), &provider, call);
	return call->stream_id < 0 ? -EPROTO : 0;
}

int grpc_client_call(struct grpc_client *client, const char *method, const void *message, size_t len,
	int timeout_ms, grpc_reply_fn fn, void *userdata, struct grpc_client_call **ret_call)
{
	struct grpc_client_call *call;
	int r = client_connect(client);

	if (r < 0)
		return r;
	call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	*call = (struct grpc_client_call){.client = client, .fn = fn, .userdata = userdata};
	call->request = grpc_frame_wrap(message, len, &call->request_len);
	r = call->request ? loop_add_timer(client->loop, call_timeout, call, &call->timer) : -ENOMEM;
	if (r == 0)
		r = call_submit(call, method);
	if (r < 0) {
		call_free(call);
		return r;
	}
	list_append(&client->calls, &call->item);
	loop_timer_set(call->timer, timeout_ms * NS_PER_MS);
	grpc_transport_wake(&client->transport);
	if (ret_call)
		*ret_call = call;
	return 0;
}

const char *grpc_reply_text(const struct grpc_reply *reply, char *buf, size_t size)
{
	if (reply->result < 0)
		snprintf(buf, size, "%s", strerror(-reply->result));
	else
		snprintf(buf, size, "%s (gRPC status %d)", reply->text[0] ? reply->text : "no text",
			(int)reply->status);
	return buf;
}
