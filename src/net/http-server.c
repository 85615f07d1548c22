#include "net/http-server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "net/certificate.h"
#include "net/loop.h"

#define CONNECTIONS_MAX 1024
/* For a request that has begun or never begins. Between two requests the limit is longer than callers keep a
 * connection. */
#define ARRIVAL_SILENCE_MAX_S 10
#define SILENCE_MAX_S 120
/* Beyond loopback any host may connect. A single host must not take all connections away from the kubelet's
 * probes. */
#define PEER_CONNECTIONS_MAX 32
#define API_SERVER_CONNECTIONS_MAX 256
/* Far below a receive window (tcp(7), tcp_rmem: 128 KiB by default, half of it window). If more is unread,
 * the peer's end of stream may wait behind bytes that do not fit. */
#define UNREAD_MAX 16384

struct http_server {
	struct loop *loop;
	struct MHD_Daemon *daemon;
	struct loop_io *io;
	struct loop_timer *timer;
	size_t max_body;
	unsigned silence_max_s;
	http_handler_fn handler;
	void *userdata;
	struct list marked; /* connections, the most recent first */
};

struct connection {
	struct list item;
	uint32_t mark; /* 0: none */
	int fd;
};

struct http_call {
	struct http_server *server;
	struct MHD_Connection *connection;
	struct strbuf body;
	bool handed_over; /* the handler was called */
	bool suspended;
	struct MHD_Response *response; /* set by the reply */
	unsigned status;
};

/* libmicrohttpd has work or a time-out pending that its epoll fd does not announce. */
static void http_server_arm(struct http_server *server)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(server->daemon, &ms) == MHD_YES)
		loop_timer_set(server->timer, (int64_t)(ms > 60000 ? 60000 : ms) * NS_PER_MS);
	else
		loop_timer_stop(server->timer);
}

static void http_server_work(struct http_server *server)
{
	MHD_run(server->daemon);
	http_server_arm(server);
}

static void on_epoll(void *userdata, int fd, uint32_t events)
{
	http_server_work(userdata);
}

static void on_timer(void *userdata)
{
	http_server_work(userdata);
}

static struct MHD_Response *response_new(const char *content_type, char *body)
{
	struct MHD_Response *response;

	response = MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_FREE);
	if (!response)
		free(body);
	else
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	return response;
}

/* Rarely the peer's end of stream arrives together with its last bytes, and libmicrohttpd 0.9.75 does not
 * learn of it (edge-triggered epoll). So the wait for the rest of a request is shorter than the wait for the
 * next request. */
static void limit_silence(struct MHD_Connection *connection, unsigned seconds)
{
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

static enum MHD_Result queue_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
	struct MHD_Response *response;
	enum MHD_Result result;

	response = MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result http_call_queue(struct http_call *call)
{
	enum MHD_Result result;

	if (!call->response)
		return queue_text(call->connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	limit_silence(call->connection, call->server->silence_max_s);
	result = MHD_queue_response(call->connection, call->status, call->response);
	MHD_destroy_response(call->response);
	call->response = NULL;
	return result;
}

static struct http_call *http_call_new(struct http_server *server, struct MHD_Connection *connection)
{
	struct http_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->server = server;
	call->connection = connection;
	strbuf_init(&call->body, server->max_body);
	return call;
}

/* libmicrohttpd calls this once with the headers, once per piece of the body, once at its end, and once more
 * after a suspended connection was resumed. */
static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size, void **state)
{
	struct http_server *server = userdata;
	struct http_call *call = *state;

	if (!call) {
		*state = http_call_new(server, connection);
		limit_silence(connection, ARRIVAL_SILENCE_MAX_S);
		return *state ? MHD_YES : MHD_NO;
	}
	if (*upload_size) {
		strbuf_add(&call->body, upload, *upload_size);
		*upload_size = 0;
		return MHD_YES;
	}
	if (call->handed_over)
		return http_call_queue(call);
	call->handed_over = true;
	if (call->body.failed)
		return queue_text(connection, MHD_HTTP_CONTENT_TOO_LARGE, "request body too large\n");
	server->handler(server->userdata, call, method, url, strbuf_cstr(&call->body), call->body.len);
	if (call->response || call->status)
		return http_call_queue(call);
	call->suspended = true;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

static void on_completed(
	void *userdata, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
	struct http_call *call = *state;

	if (!call)
		return;
	if (call->response)
		MHD_destroy_response(call->response);
	strbuf_release(&call->body);
	free(call);
	*state = NULL;
}

void http_call_reply(struct http_call *call, unsigned status, const char *content_type, char *body)
{
	call->response = body ? response_new(content_type, body) : NULL;
	call->status = call->response ? status : MHD_HTTP_INTERNAL_SERVER_ERROR;
	if (!call->suspended)
		return;
	call->suspended = false;
	MHD_resume_connection(call->connection);
	loop_timer_set(call->server->timer, 0); /* resumed work is picked up by the next MHD_run() */
}

const char *http_call_query(const struct http_call *call, const char *key)
{
	return MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, key);
}

bool http_call_is_gone(const struct http_call *call)
{
	const union MHD_ConnectionInfo *info;
	char byte;

	info = MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	return info && recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* If out of memory, the connection cannot be marked. */
static void on_connection(
	void *userdata, struct MHD_Connection *of, void **context, enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(of, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct connection *connection = *context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (connection)
			list_remove(&connection->item);
		free(connection);
		*context = NULL;
		return;
	}
	connection = info ? calloc(1, sizeof(*connection)) : NULL;
	if (connection)
		connection->fd = info->connect_fd;
	*context = connection;
}

/* Not recv(): it does not see the end of stream behind unread bytes. */
static bool connection_is_open(const struct connection *connection)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);
	int unread;

	return getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
	       info.tcpi_state == TCP_ESTABLISHED && ioctl(connection->fd, FIONREAD, &unread) == 0 &&
	       unread <= UNREAD_MAX;
}

void http_call_mark(struct http_call *call, uint32_t mark)
{
	const union MHD_ConnectionInfo *info;
	struct connection *connection;

	info = MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	connection = info ? info->socket_context : NULL;
	if (!connection)
		return;
	list_remove(&connection->item);
	list_append(call->server->marked.next, &connection->item); /* before the first */
	connection->mark = mark;
}

bool http_call_has_company(const struct http_call *call, uint32_t mark)
{
	list_for_each (item, &call->server->marked) {
		const struct connection *connection = list_entry(item, struct connection, item);

		if (connection->mark == mark && connection_is_open(connection))
			return true;
	}
	return false;
}

static int http_server_attach(struct http_server *server)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int r;

	if (!info)
		return -EIO;
	r = loop_add_timer(server->loop, on_timer, server, &server->timer);
	if (r == 0)
		r = loop_add_io(server->loop, info->epoll_fd, EPOLLIN, on_epoll, server, &server->io);
	if (r == 0)
		http_server_arm(server);
	return r;
}

static int http_server_open(struct loop *loop, const char *address, uint16_t port, size_t max_body, bool tls,
	http_handler_fn handler, void *userdata, struct http_server **ret_server, struct error *err)
{
	bool only_us = strncmp(address, "127.", 4) == 0;
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct MHD_OptionItem more[] = {
		{tls ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, 0, (void *)certificate_for_handshake},
		{MHD_OPTION_END, 0, NULL}};
	unsigned peer_max = tls ? API_SERVER_CONNECTIONS_MAX : only_us ? 0 : PEER_CONNECTIONS_MAX;
	struct http_server *server;
	int r;

	if (inet_pton(AF_INET, address, &sin.sin_addr) != 1)
		return error_set(err, EINVAL, "listen address %s: not an IPv4 address", address);
	server = calloc(1, sizeof(*server));
	if (!server)
		return error_set(err, ENOMEM, "out of memory");
	*server = (struct http_server){.loop = loop,
		.max_body = max_body,
		.silence_max_s = only_us ? SILENCE_MAX_S : ARRIVAL_SILENCE_MAX_S,
		.handler = handler,
		.userdata = userdata};
	list_init(&server->marked);
	errno = 0;
	server->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0),
		port, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&sin,
		MHD_OPTION_LISTENING_ADDRESS_REUSE, 1U, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT, peer_max,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)ARRIVAL_SILENCE_MAX_S, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL, MHD_OPTION_ARRAY, more,
		MHD_OPTION_END);
	if (!server->daemon)
		r = error_set(err, errno ? errno : EADDRINUSE, "cannot listen on %s:%u: %s", address, port,
			strerror(errno ? errno : EADDRINUSE));
	else if ((r = http_server_attach(server)) < 0)
		error_set(err, -r, "cannot serve %s:%u: %s", address, port, strerror(-r));
	if (r < 0 || !server->daemon) {
		http_server_free(server);
		return r;
	}
	*ret_server = server;
	return 0;
}

int http_server_new(struct loop *loop, const char *address, uint16_t port, size_t max_body,
	http_handler_fn handler, void *userdata, struct http_server **ret_server, struct error *err)
{
	return http_server_open(loop, address, port, max_body, false, handler, userdata, ret_server, err);
}

int http_server_new_tls(struct loop *loop, const char *address, uint16_t port, size_t max_body,
	http_handler_fn handler, void *userdata, struct http_server **ret_server, struct error *err)
{
	return http_server_open(loop, address, port, max_body, true, handler, userdata, ret_server, err);
}

void http_server_free(struct http_server *server)
{
	if (!server)
		return;
	loop_io_remove(server->io);
	loop_timer_remove(server->timer);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	free(server);
}

uint16_t http_server_port(const struct http_server *server)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);

	return info ? info->port : 0;
}
