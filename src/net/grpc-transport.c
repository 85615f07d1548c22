#include "net/grpc-transport.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define READ_SIZE 16384
#define READS_PER_WAKEUP 16 /* so that one busy peer does not starve the loop */

int grpc_transport_flush(struct grpc_transport *t)
{
	for (;;) {
		ssize_t n;

		if (!t->out_len) {
			n = nghttp2_session_mem_send(t->session, &t->out);
			if (n < 0)
				return n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
			if (n == 0)
				return 0;
			t->out_len = (size_t)n;
		}
		n = send(t->fd, t->out, t->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		t->out += n;
		t->out_len -= (size_t)n;
		t->progress_ns = monotonic_ns();
	}
}

static int transport_read(struct grpc_transport *t)
{
	uint8_t data[READ_SIZE];

	for (int i = 0; i < READS_PER_WAKEUP; i++) {
		ssize_t n = recv(t->fd, data, sizeof(data), MSG_DONTWAIT);
		ssize_t used;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (n == 0)
			return -ECONNRESET;
		t->progress_ns = monotonic_ns();
		used = nghttp2_session_mem_recv(t->session, data, (size_t)n);
		if (used < 0)
			return used == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
		if (n < (ssize_t)sizeof(data))
			return 0;
	}
	return 0;
}

static void transport_set_events(struct grpc_transport *t, uint32_t events)
{
	if (events != t->events && loop_io_set_events(t->io, events) == 0)
		t->events = events;
}

static void transport_on_io(void *userdata, int fd, uint32_t events)
{
	struct grpc_transport *t = userdata;
	int r = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = transport_read(t);
	if (r == 0)
		r = grpc_transport_flush(t);
	else
		grpc_transport_flush(t); /* sends a GOAWAY with the reason, if still possible */
	if (r < 0) {
		t->dead(t->userdata, r);
		return;
	}
	if (!nghttp2_session_want_read(t->session) && !nghttp2_session_want_write(t->session) &&
		!t->out_len) {
		t->dead(t->userdata, 0);
		return;
	}
	/* As long as a peer does not read, nothing is read from it; otherwise its PINGs and SETTINGS would
	 * pile up answers. */
	transport_set_events(t, t->out_len ? EPOLLOUT : EPOLLIN);
}

int grpc_transport_open(struct grpc_transport *t, struct loop *loop, int fd, nghttp2_session *session,
	void (*dead)(void *userdata, int error), void *userdata)
{
	int r;

	*t = (struct grpc_transport){.fd = fd,
		.session = session,
		.events = EPOLLIN | EPOLLOUT,
		.dead = dead,
		.userdata = userdata};
	t->progress_ns = monotonic_ns();
	r = loop_add_io(loop, fd, t->events, transport_on_io, t, &t->io);
	if (r < 0)
		grpc_transport_close(t);
	return r;
}

void grpc_transport_close(struct grpc_transport *t)
{
	loop_io_remove(t->io);
	nghttp2_session_del(t->session);
	if (t->session)
		close(t->fd);
	*t = (struct grpc_transport){.fd = -1};
}

void grpc_transport_wake(struct grpc_transport *t)
{
	if (t->io)
		transport_set_events(t, t->out_len ? EPOLLOUT : EPOLLIN | EPOLLOUT);
}
