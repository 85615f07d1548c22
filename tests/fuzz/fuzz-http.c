/* Bytes on the socket of the HTTP server. Requests for /later are answered a moment later. */
#include "fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "net/http-server.h"
#include "net/loop.h"

const unsigned int fuzz_rounds = 2000;
const char *const fuzz_words[] = {"GET ", "POST ", " HTTP/1.1\r\n", " HTTP/1.0\r\n", "\r\n\r\n",
	"Content-Length: 5\r\n", "Content-Length: 18446744073709551616\r\n", "Content-Length: -1\r\n",
	"Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n", "0\r\n\r\n", "ffffffffffffffff\r\n",
	"Expect: 100-continue\r\n", "Connection: close\r\n", "/later", "%00", "%", "?", "Upgrade: h2c\r\n",
	NULL};

static struct loop *loop;
static struct http_server *server;
static struct http_call *waiting[64];
static size_t n_waiting;

static void on_call(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	MUST(strlen(body) <= len && body[len] == '\0' && len <= 1024);
	if (strcmp(path, "/later") == 0 && n_waiting < 64)
		waiting[n_waiting++] = call;
	else
		http_call_reply(call, 200, "text/plain", fuzz_text((const uint8_t *)"ok", 2));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct error err;

	MUST(loop_new(&loop) == 0);
	MUST(http_server_new(loop, "127.0.0.1", 0, 1024, on_call, NULL, &server, &err) == 0);
	return 0;
}

static void answer_waiting(void)
{
	while (n_waiting)
		http_call_reply(
			waiting[--n_waiting], 200, "text/plain", fuzz_text((const uint8_t *)"later", 5));
}

static void work(int fd)
{
	char drain[4096];

	for (int i = 0; i < 6; i++) {
		loop_run_once(loop, 0);
		while (recv(fd, drain, sizeof(drain), MSG_DONTWAIT) > 0)
			;
		answer_waiting();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(http_server_port(server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	/* No TIME_WAIT: the ports would run out. */
	struct linger at_once = {.l_onoff = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	for (size_t at = 0; at < size;) {
		ssize_t n = send(fd, data + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			break;
		at += n > 0 ? (size_t)n : 0;
		work(fd);
	}
	shutdown(fd, SHUT_WR);
	work(fd);
	close(fd);
	/* Each request of a pipeline may be one for /later, and comes when the one before is answered. */
	for (int i = 0; i < 2000 && (i < 3 || n_waiting); i++) {
		answer_waiting();
		loop_run_once(loop, 0);
	}
	answer_waiting();
	loop_run_once(loop, 0);
	return 0;
}
