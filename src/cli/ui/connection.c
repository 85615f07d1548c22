#include "cli/ui/connection.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/ui/source.h"

#define READ_MAX_NS (10 * NS_PER_S)
#define WRITE_MAX_NS (30 * NS_PER_S)
#define END_MAX_NS (1 * NS_PER_S)
#define OWN_MAX (256u << 20) /* the output of `ration why`, or a moment of the past */
#define PIECE_MAX (1u << 20)

/* All answers have these headers. The browser runs only scripts and styles of this server, shows the page in
 * no frame, and caches nothing. */
static const char policy[] =
	"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
	"X-Content-Type-Options: nosniff\r\n"
	"X-Frame-Options: DENY\r\n"
	"Referrer-Policy: no-referrer\r\n"
	"Cross-Origin-Resource-Policy: same-origin\r\n"
	"Cross-Origin-Opener-Policy: same-origin\r\n"
	"Cache-Control: no-store\r\n"
	"Connection: close\r\n";

void connection_open(struct connection *connection, int fd, int64_t now_ns)
{
	*connection = (struct connection){
		.state = CONNECTION_READS, .fd = fd, .deadline_ns = now_ns + READ_MAX_NS, .wants_body = true};
	strbuf_init(&connection->header, 4096);
	strbuf_init(&connection->own, OWN_MAX);
	task_init(&connection->work);
}

void connection_close(struct connection *connection)
{
	if (connection->state == CONNECTION_FREE)
		return;
	task_stop(&connection->work);
	snapshot_unref(connection->snapshot);
	strbuf_release(&connection->header);
	strbuf_release(&connection->own);
	shutdown(connection->fd, SHUT_RDWR); /* a child process may have the socket too */
	close(connection->fd);
	connection->state = CONNECTION_FREE;
	connection->fd = -1;
}

static void discard(struct connection *connection)
{
	char chunk[4096];
	ssize_t n = recv(connection->fd, chunk, sizeof(chunk), 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		connection_close(connection);
}

bool connection_read(struct connection *connection, int64_t now_ns)
{
	size_t room = sizeof(connection->head) - connection->head_len;
	ssize_t n;

	if (connection->state != CONNECTION_READS) {
		discard(connection);
		return false;
	}
	n = recv(connection->fd, connection->head + connection->head_len, room, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		connection_close(connection);
		return false;
	}
	connection->head_len += (size_t)n;
	if (ui_request_end(connection->head, connection->head_len))
		return true;
	if (connection->head_len == sizeof(connection->head))
		connection_reply_text(connection, 431, "The request is too long.\n", now_ns);
	return false;
}

static const char *reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} reasons[] = {{200, "OK"}, {303, "See Other"}, {304, "Not Modified"}, {400, "Bad Request"},
		{403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
		{413, "Content Too Large"}, {431, "Request Header Fields Too Large"}, {502, "Bad Gateway"},
		{503, "Service Unavailable"}};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Error";
}

void connection_reply(struct connection *connection, unsigned status, const char *type, const char *more,
	const char *body, size_t len, int64_t now_ns)
{
	struct strbuf *header = &connection->header;

	strbuf_clear(header);
	strbuf_addf(header, "HTTP/1.1 %u %s\r\n%s%s", status, reason(status), policy, more);
	if (status != 304)
		strbuf_addf(header, "Content-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n", type, len);
	strbuf_adds(header, "\r\n");
	if (header->failed) {
		connection_close(connection);
		return;
	}
	connection->body = body;
	connection->body_len = connection->wants_body && status != 304 ? len : 0;
	connection->sent = 0;
	connection->state = CONNECTION_WRITES;
	connection->deadline_ns = now_ns + WRITE_MAX_NS;
}

void connection_reply_text(struct connection *connection, unsigned status, const char *text, int64_t now_ns)
{
	connection_reply(connection, status, "text/plain", status == 405 ? "Allow: GET, HEAD\r\n" : "", text,
		strlen(text), now_ns);
}

void connection_write(struct connection *connection, int64_t now_ns)
{
	size_t head = connection->header.len, at = connection->sent;
	const char *data = at < head ? connection->header.data + at : connection->body + (at - head);
	size_t left = at < head ? head - at : head + connection->body_len - at;
	ssize_t n = left ? send(connection->fd, data, left < PIECE_MAX ? left : PIECE_MAX, MSG_NOSIGNAL) : 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		connection_close(connection);
		return;
	}
	connection->sent += (size_t)n;
	if (connection->sent < head + connection->body_len)
		return;
	shutdown(connection->fd, SHUT_WR);
	connection->state = CONNECTION_ENDS;
	connection->deadline_ns = now_ns + END_MAX_NS;
}
