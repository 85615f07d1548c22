#include "agent/kubelet/relay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "net/grpc-frame.h"
#include "net/loop.h"

#define WAITING_MAX ((size_t)64 << 20)
#define FRAME_MAX (sizeof(struct relay_frame) + GRPC_MESSAGE_MAX)
#define CHUNK ((size_t)64 << 10)

struct relay {
	int fd;
	struct loop_io *io;
	const struct relay_ops *ops;
	void *userdata;
	struct strbuf in, out;
	bool reading, ended;
};

static void relay_end(struct relay *relay)
{
	if (relay->ended)
		return;
	relay->ended = true;
	loop_io_remove(relay->io);
	relay->io = NULL;
	relay->ops->ended(relay->userdata);
}

static void relay_watch(struct relay *relay)
{
	if (relay->io)
		loop_io_set_events(
			relay->io, (relay->reading ? EPOLLIN : 0u) | (relay->out.len ? EPOLLOUT : 0u));
}

/* A buffer that once held a long list of devices is not kept for the small ones. */
static void buffer_shrink(struct strbuf *buf)
{
	if (!buf->len && buf->size > CHUNK)
		strbuf_release(buf);
}

static int relay_flush(struct relay *relay)
{
	size_t done = 0;

	while (done < relay->out.len) {
		ssize_t n = send(relay->fd, relay->out.data + done, relay->out.len - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n < 0)
			break;
		done += (size_t)n;
	}
	strbuf_drop_front(&relay->out, done);
	buffer_shrink(&relay->out);
	relay_watch(relay);
	return 0;
}

/* Returns the bytes used up, or -EPROTO. */
static ssize_t relay_parse(struct relay *relay, const char *data, size_t len)
{
	struct relay_frame frame;

	if (len < sizeof(frame))
		return 0;
	memcpy(&frame, data, sizeof(frame));
	if (frame.len > GRPC_MESSAGE_MAX || frame.kind >= RELAY_KIND_MAX)
		return -EPROTO;
	if (len < sizeof(frame) + frame.len)
		return 0;
	relay->ops->frame(relay->userdata, &frame, (const uint8_t *)data + sizeof(frame));
	return (ssize_t)(sizeof(frame) + frame.len);
}

static int relay_parse_all(struct relay *relay)
{
	size_t done = 0;
	ssize_t n;

	while ((n = relay_parse(relay, strbuf_cstr(&relay->in) + done, relay->in.len - done)) > 0)
		done += (size_t)n;
	strbuf_drop_front(&relay->in, done);
	buffer_shrink(&relay->in);
	return n < 0 ? (int)n : 0;
}

/* Returns whether something came. */
static int relay_read(struct relay *relay)
{
	char chunk[CHUNK];
	ssize_t n = recv(relay->fd, chunk, sizeof(chunk), 0);
	int r;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	if (strbuf_add(&relay->in, chunk, (size_t)n) < 0)
		return -ENOMEM;
	r = relay_parse_all(relay);
	return r < 0 ? r : 1;
}

static void on_io(void *userdata, int fd, uint32_t events)
{
	struct relay *relay = userdata;
	int r = 0;

	if (events & EPOLLOUT)
		r = relay_flush(relay);
	if (r == 0 && events & EPOLLIN)
		r = relay_read(relay);
	else if (r == 0 && events & (EPOLLHUP | EPOLLERR))
		r = -ECONNRESET;
	if (r < 0)
		relay_end(relay);
}

int relay_new(
	struct loop *loop, int fd, const struct relay_ops *ops, void *userdata, struct relay **ret_relay)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	int r;

	if (!relay) {
		close(fd);
		return -ENOMEM;
	}
	*relay = (struct relay){.fd = fd, .ops = ops, .userdata = userdata};
	strbuf_init(&relay->in, FRAME_MAX + CHUNK);
	strbuf_init(&relay->out, WAITING_MAX);
	r = loop_add_io(loop, fd, 0, on_io, relay, &relay->io);
	if (r < 0) {
		relay_free(relay);
		return r;
	}
	*ret_relay = relay;
	return 0;
}

void relay_free(struct relay *relay)
{
	if (!relay)
		return;
	loop_io_remove(relay->io);
	close(relay->fd);
	strbuf_release(&relay->in);
	strbuf_release(&relay->out);
	free(relay);
}

void relay_begin(struct relay *relay)
{
	relay->reading = true;
	relay_watch(relay);
}

void relay_drain(struct relay *relay)
{
	while (!relay->ended && relay_read(relay) > 0)
		;
}

int relay_send(
	struct relay *relay, enum relay_kind kind, uint32_t id, uint32_t arg, const void *data, size_t len)
{
	struct relay_frame frame = {.len = (uint32_t)len, .kind = kind, .id = id, .arg = arg};

	if (len > GRPC_MESSAGE_MAX || relay->out.len + sizeof(frame) + len > WAITING_MAX)
		return -EMSGSIZE;
	if (relay->ended)
		return 0; /* who ended it knows */
	if (strbuf_add(&relay->out, &frame, sizeof(frame)) < 0)
		return -ENOMEM;
	if (strbuf_add(&relay->out, data, len) < 0) {
		relay->out.len -= sizeof(frame);
		relay->out.failed = 0;
		return -ENOMEM;
	}
	if (relay_flush(relay) < 0)
		relay_watch(relay); /* the loop tells of the end, not the sender */
	return 0;
}
