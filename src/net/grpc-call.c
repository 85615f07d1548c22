/* grpc-call.c - the calls of a gRPC server: their messages and their end. */
#include "net/grpc-server-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define CALLS_PER_CONNECTION_MAX                                                                             \
	256 /* calls that wait keep no others out; a kubelet has 110 pods by default */
#define ARRIVING_MAX ((size_t)16 << 20)
#define HEADER_LIST_MAX 8192
#define HEADERS_MAX 64
#define WINDOW (1 << 20)

void grpc_call_gone(struct grpc_call *call)
{
	struct grpc_server *server = call->connection->server;

	if (call->handled && !call->finished && call->method->closed)
		call->method->closed(server->userdata, call);
	call->connection->server->arriving -= call->request.size;
	list_remove(&call->item);
	grpc_frame_release(&call->request);
	free(call->text);
	free(call->out.sending);
	free(call->out.waiting);
	free(call);
}

bool grpc_call_is_arriving(const struct grpc_call *call)
{
	return !call->handled && !call->finished;
}

#define HEADER(header, text)                                                                                 \
	(nghttp2_nv)                                                                                         \
	{                                                                                                    \
		.name = (uint8_t *)(header), .value = (uint8_t *)(text), .namelen = strlen(header),          \
		.valuelen = strlen(text)                                                                     \
	}

/* Fills nv[2] with the trailers; code and text are the caller's memory, nghttp2 copies them. */
static size_t call_trailers(const struct grpc_call *call, nghttp2_nv *nv, char *code, char *text)
{
	sprintf(code, "%d", (int)call->status);
	nv[0] = HEADER("grpc-status", code);
	if (!call->text)
		return 1;
	grpc_text_encode(call->text, text);
	nv[1] = HEADER("grpc-message", text);
	return 2;
}

static void call_submit_trailers(struct grpc_call *call)
{
	char code[16], text[3 * GRPC_TEXT_MAX + 1];
	nghttp2_nv nv[2];
	size_t n = call_trailers(call, nv, code, text);

	nghttp2_submit_trailer(call->connection->transport.session, call->stream_id, nv, n);
}

static ssize_t call_read(nghttp2_session *session, int32_t stream_id, uint8_t *buf, size_t size,
	uint32_t *flags, nghttp2_data_source *source, void *userdata)
{
	struct grpc_call *call = source->ptr;
	size_t n;

	if (!call->out.sending && call->out.waiting) {
		call->out.sending = TAKE_PTR(call->out.waiting);
		call->out.sending_len = call->out.waiting_len;
		call->out.sent = 0;
	}
	n = call->out.sending ? call->out.sending_len - call->out.sent : 0;
	if (n > size)
		n = size;
	if (n)
		memcpy(buf, call->out.sending + call->out.sent, n);
	call->out.sent += n;
	if (call->out.sending && call->out.sent == call->out.sending_len) {
		free(call->out.sending);
		call->out.sending = NULL;
	}
	if (!call->out.sending && !call->out.waiting && call->finished) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		call_submit_trailers(call);
		return (ssize_t)n;
	}
	return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

/* Submits the headers with the first message; for later messages it only wakes the reader. */
static void call_push(struct grpc_call *call)
{
	struct grpc_connection *c = call->connection;
	nghttp2_data_provider provider = {.source.ptr = call, .read_callback = call_read};
	nghttp2_nv nv[] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc")};

	if (!c->transport.session)
		return;
	if (!call->responded) {
		call->responded = true;
		nghttp2_submit_response(c->transport.session, call->stream_id, nv, ARRAY_SIZE(nv), &provider);
	} else {
		nghttp2_session_resume_data(c->transport.session, call->stream_id);
	}
	grpc_transport_wake(&c->transport);
}

int grpc_call_send(struct grpc_call *call, const void *message, size_t len)
{
	size_t wrapped_len;
	uint8_t *wrapped = grpc_frame_wrap(message, len, &wrapped_len);

	if (!wrapped)
		return -ENOMEM;
	free(call->out.waiting);
	call->out.waiting = wrapped;
	call->out.waiting_len = wrapped_len;
	call_push(call);
	return 0;
}

void grpc_call_reply(struct grpc_call *call, const void *message, size_t len)
{
	if (grpc_call_send(call, message, len) < 0) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	call->finished = true;
}

void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *text)
{
	char code[16], encoded[3 * GRPC_TEXT_MAX + 1];
	nghttp2_nv nv[4] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc")};
	struct grpc_connection *c = call->connection;

	call->finished = true;
	call->status = status;
	call->text = strdup(text);
	if (call->responded) {
		call_push(call);
		return;
	}
	if (!c->transport.session)
		return;
	/* Nothing was sent yet, so headers and trailers are one frame ("Trailers-Only"). */
	call->responded = true;
	nghttp2_submit_response(c->transport.session, call->stream_id, nv,
		2 + call_trailers(call, nv + 2, code, encoded), NULL);
	grpc_transport_wake(&c->transport);
}

static const struct grpc_method *server_method(
	const struct grpc_server *server, const uint8_t *path, size_t len)
{
	for (size_t i = 0; i < server->n_methods; i++) {
		const char *known = server->methods[i].path;

		if (strlen(known) == len && memcmp(known, path, len) == 0)
			return &server->methods[i];
	}
	return NULL;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct grpc_connection *c = userdata;
	struct grpc_call *call;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = calloc(1, sizeof(*call));
	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	call->connection = c;
	call->stream_id = frame->hd.stream_id;
	list_append(&c->calls, &call->item);
	c->began = true;
	nghttp2_session_set_stream_user_data(session, call->stream_id, call);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *userdata)
{
	static const char grpc_type[] = "application/grpc";
	struct grpc_connection *c = userdata;
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (!call || call->handled)
		return 0;
	if (++call->n_headers > HEADERS_MAX)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (name_len == 5 && memcmp(name, ":path", 5) == 0)
		call->method = server_method(c->server, value, value_len);
	else if (name_len == 7 && memcmp(name, ":method", 7) == 0)
		call->is_post = value_len == 4 && memcmp(value, "POST", 4) == 0;
	else if (name_len == 12 && memcmp(name, "content-type", 12) == 0)
		call->is_grpc = value_len >= sizeof(grpc_type) - 1 &&
				memcmp(value, grpc_type, sizeof(grpc_type) - 1) == 0;
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
	size_t len, void *userdata)
{
	struct grpc_connection *c = userdata;
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
	enum grpc_status status;

	if (!call || call->finished || call->handled)
		return 0;
	c->server->arriving -= call->request.size;
	status = grpc_frame_feed(&call->request, data, len, GRPC_MESSAGE_MAX);
	c->server->arriving += call->request.size;
	if (status == GRPC_OK && c->server->arriving > ARRIVING_MAX)
		status = GRPC_RESOURCE_EXHAUSTED;
	if (status == GRPC_UNIMPLEMENTED)
		grpc_call_fail(
			call, status, "compressed messages are not supported: use the encoding \"identity\"");
	else if (status == GRPC_RESOURCE_EXHAUSTED)
		grpc_call_fail(call, status, "the message is larger than 4 MiB, or too many arrive at once");
	else if (status != GRPC_OK)
		grpc_call_fail(call, status, "more than one message in a call that takes one");
	return 0;
}

static void call_handle(struct grpc_connection *c, struct grpc_call *call)
{
	struct grpc_frame request = call->request;

	if (call->finished || call->handled)
		return;
	if (!grpc_frame_complete(&request)) {
		grpc_call_fail(call, GRPC_INTERNAL, "the call ended before its message was complete");
		return;
	}
	call->handled = true;
	c->server->arriving -= request.size;
	call->request = (struct grpc_frame){0};
	call->method->handle(c->server->userdata, call, request.body, request.received);
	grpc_frame_release(&request);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	struct grpc_connection *c = userdata;
	struct grpc_call *call;

	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (!call || call->finished)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && (!call->is_post || !call->is_grpc)) {
		nghttp2_submit_rst_stream(
			session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_PROTOCOL_ERROR);
		return 0;
	}
	if (!call->method) {
		grpc_call_fail(call, GRPC_UNIMPLEMENTED, "no such method");
		return 0;
	}
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		call_handle(c, call);
	return 0;
}

/* We have answered a peer that is still sending. It is told to stop (RFC 9113, 8.1); otherwise its stream
 * would stay open. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	int32_t id = frame->hd.stream_id;

	if (frame->hd.type == NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
		nghttp2_session_get_stream_remote_close(session, id) == 0)
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error, void *userdata)
{
	struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);

	if (call)
		grpc_call_gone(call);
	return 0;
}

int grpc_call_session_new(struct grpc_connection *c, nghttp2_session **ret_session)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, CALLS_PER_CONNECTION_MAX},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_MAX},
	};
	nghttp2_session_callbacks *callbacks;

	if (nghttp2_session_callbacks_new(&callbacks) < 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	if (nghttp2_session_server_new(ret_session, callbacks, c) < 0) {
		nghttp2_session_callbacks_del(callbacks);
		return -ENOMEM;
	}
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(*ret_session, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
	nghttp2_session_set_local_window_size(*ret_session, NGHTTP2_FLAG_NONE, 0, WINDOW);
	return 0;
}
