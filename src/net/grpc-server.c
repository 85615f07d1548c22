#include "net/grpc-server-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "net/loop.h"

#define CONNECTIONS_MAX 32
#define STALL_NS (20 * NS_PER_S)
#define SWEEP_NS (5 * NS_PER_S)

static void connection_free(struct grpc_connection *c)
{
	/* The transport is closed first, because what the methods do now must not reach the session. */
	grpc_transport_close(&c->transport);
	while (!list_empty(&c->calls))
		grpc_call_gone(list_entry(c->calls.next, struct grpc_call, item));
	list_remove(&c->item);
	c->server->n_connections--;
	free(c);
}

static void connection_dead(void *userdata, int error)
{
	connection_free(userdata);
}

/* Only connections without a call may be closed: the kubelet's has its ListAndWatch open. */
static bool server_make_room(struct grpc_server *server)
{
	struct grpc_connection *oldest = NULL;

	if (server->n_connections < CONNECTIONS_MAX)
		return true;
	list_for_each (item, &server->connections) {
		struct grpc_connection *c = list_entry(item, struct grpc_connection, item);

		if (list_empty(&c->calls) &&
			(!oldest || c->transport.progress_ns < oldest->transport.progress_ns))
			oldest = c;
	}
	if (oldest)
		connection_free(oldest);
	return oldest;
}

static bool peer_allowed(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

static void server_accept(struct grpc_server *server, int fd)
{
	struct grpc_connection *c;
	nghttp2_session *session;

	if (!peer_allowed(fd) || !server_make_room(server)) {
		close(fd);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c || grpc_call_session_new(c, &session) < 0) {
		free(c);
		close(fd);
		return;
	}
	c->server = server;
	list_init(&c->calls);
	if (grpc_transport_open(&c->transport, server->loop, fd, session, connection_dead, c) < 0) {
		free(c);
		return;
	}
	list_append(&server->connections, &c->item);
	server->n_connections++;
}

static void server_on_io(void *userdata, int listen_fd, uint32_t events)
{
	for (int i = 0; i < CONNECTIONS_MAX; i++) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		server_accept(userdata, fd);
	}
}

static bool connection_stalled(const struct grpc_connection *c, int64_t now)
{
	bool awaited = !c->began || c->transport.out_len;

	if (now - c->transport.progress_ns < STALL_NS)
		return false;
	list_for_each (item, &c->calls)
		awaited |= grpc_call_is_arriving(list_entry(item, struct grpc_call, item));
	return awaited;
}

static void server_sweep(void *userdata)
{
	struct grpc_server *server = userdata;
	int64_t now = monotonic_ns();

	list_for_each_safe (item, after, &server->connections) {
		struct grpc_connection *c = list_entry(item, struct grpc_connection, item);

		if (connection_stalled(c, now))
			connection_free(c);
	}
	loop_timer_set(server->sweep, SWEEP_NS);
}

bool kept_socket_is_at(const struct kept_socket *kept, const char *path)
{
	struct stat st;

	return kept && kept->fd >= 0 && kept->ino && lstat(path, &st) == 0 && st.st_dev == kept->dev &&
	       st.st_ino == kept->ino;
}

/* A socket to bind: the kept one if it is new. It can be bound once only, and when its file is gone another
 * file may get the same number. */
static int server_socket(struct grpc_server *server)
{
	if (server->kept && server->kept->fd >= 0 && !server->kept->ino)
		return fcntl(server->kept->fd, F_DUPFD_CLOEXEC, 0);
	if (server->kept)
		server->kept->fd = -1;
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int server_listen(struct grpc_server *server, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct kept_socket *kept = server->kept;
	struct stat st;
	mode_t before;
	int r;

	if (kept_socket_is_at(kept, server->path)) {
		server->fd = fcntl(kept->fd, F_DUPFD_CLOEXEC, 0);
		server->dev = kept->dev;
		server->ino = kept->ino;
		return server->fd < 0 ? error_set(err, errno, "cannot go on with the socket at %s: %s",
						server->path, strerror(errno))
				      : 0;
	}
	if (strlen(server->path) >= sizeof(address.sun_path))
		return error_set(err, ENAMETOOLONG, "%s: too long for a unix socket", server->path);
	strcpy(address.sun_path, server->path);
	if (lstat(server->path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(server->path);
	server->fd = server_socket(server);
	if (server->fd < 0)
		return error_set(err, errno, "cannot create a socket: %s", strerror(errno));
	before = umask(0177);
	r = bind(server->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
	umask(before);
	if (r == 0 && (listen(server->fd, SOMAXCONN) < 0 || stat(server->path, &st) < 0))
		r = errno;
	if (r) {
		if (kept)
			kept->fd = -1;
		return error_set(err, r, "cannot listen on %s: %s", server->path, strerror(r));
	}
	server->dev = st.st_dev;
	server->ino = st.st_ino;
	if (kept && kept->fd >= 0) {
		kept->dev = st.st_dev;
		kept->ino = st.st_ino;
	}
	return 0;
}

static int server_open(struct grpc_server *server, struct error *err)
{
	int r = server_listen(server, err);

	if (r == 0)
		r = loop_add_io(server->loop, server->fd, EPOLLIN, server_on_io, server, &server->io);
	return r;
}

/* Whether the file at the path is still our socket. Other processes may have removed or replaced it. */
static bool server_is_reachable(const struct grpc_server *server)
{
	struct stat st;

	return lstat(server->path, &st) == 0 && st.st_dev == server->dev && st.st_ino == server->ino;
}

int grpc_server_listen_again(struct grpc_server *server, struct error *err)
{
	if (server->io && server_is_reachable(server))
		return 0;
	loop_io_remove(server->io);
	server->io = NULL;
	if (server->fd >= 0)
		close(TAKE_FD(&server->fd));
	return server_open(server, err);
}

int grpc_server_new(struct loop *loop, const char *path, const struct grpc_method *methods, size_t n_methods,
	void *userdata, struct kept_socket *kept, struct grpc_server **ret_server, struct error *err)
{
	struct grpc_server *server = calloc(1, sizeof(*server));
	int r = -ENOMEM;

	if (!server)
		return error_set(err, ENOMEM, "out of memory");
	*server = (struct grpc_server){.loop = loop,
		.fd = -1,
		.methods = methods,
		.n_methods = n_methods,
		.userdata = userdata,
		.kept = kept};
	list_init(&server->connections);
	server->path = strdup(path);
	if (server->path)
		r = server_open(server, err);
	else
		error_set(err, ENOMEM, "out of memory");
	if (r == 0)
		r = loop_add_timer(loop, server_sweep, server, &server->sweep);
	if (r < 0) {
		grpc_server_free(server);
		return r;
	}
	loop_timer_set(server->sweep, SWEEP_NS);
	*ret_server = server;
	return 0;
}

void grpc_server_free(struct grpc_server *server)
{
	if (!server)
		return;
	while (!list_empty(&server->connections)) {
		struct grpc_connection *c = list_entry(
			server->connections.next, struct grpc_connection, item);

		nghttp2_session_terminate_session(c->transport.session, NGHTTP2_NO_ERROR);
		grpc_transport_flush(&c->transport);
		connection_free(c);
	}
	loop_io_remove(server->io);
	loop_timer_remove(server->sweep);
	if (server->ino && server_is_reachable(server))
		unlink(server->path);
	if (server->fd >= 0)
		close(server->fd);
	free(server->path);
	free(server);
}
