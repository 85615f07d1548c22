/* bench-floor - the least that any extender can cost: reads a request, answers with as many bytes as the path
 * says (POST /5000), does nothing else. Plain blocking sockets, one thread for each connection: no library,
 * no event loop, no parsing of the body. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"

#define HEADER_MAX 4096
#define CHUNK (256 * 1024)
#define ANSWER_MAX (16 << 20)

static int read_header(int fd, char *header, size_t *ret_len)
{
	size_t len = 0;

	for (;;) {
		ssize_t n = recv(fd, header + len, HEADER_MAX - 1 - len, 0);

		if (n <= 0)
			return -1;
		len += (size_t)n;
		header[len] = '\0';
		if (strstr(header, "\r\n\r\n"))
			break;
		if (len >= HEADER_MAX - 1)
			return -1;
	}
	*ret_len = len;
	return 0;
}

/* Reads the rest of the body and forgets it. */
static int skip_body(int fd, const char *header, size_t have, char *scratch)
{
	const char *length = strcasestr(header, "\r\nContent-Length:"), *end = strstr(header, "\r\n\r\n") + 4;
	size_t left = length ? strtoul(length + 17, NULL, 10) : 0, got = have - (size_t)(end - header);

	for (left = left > got ? left - got : 0; left;) {
		ssize_t n = recv(fd, scratch, left < CHUNK ? left : CHUNK, 0);

		if (n <= 0)
			return -1;
		left -= (size_t)n;
	}
	return 0;
}

static int send_answer(int fd, char *answer, size_t size)
{
	char *at = answer + HEADER_MAX;
	int n = snprintf(answer, HEADER_MAX,
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", size);

	at = memmove(at - n, answer, (size_t)n);
	for (size_t left = size + (size_t)n; left;) {
		ssize_t sent = send(fd, at, left, MSG_NOSIGNAL);

		if (sent <= 0)
			return -1;
		at += sent;
		left -= (size_t)sent;
	}
	return 0;
}

static void *serve(void *userdata)
{
	int fd = (int)(intptr_t)userdata;
	_cleanup_free_ char *answer = malloc(HEADER_MAX + ANSWER_MAX), *scratch = malloc(CHUNK);
	char header[HEADER_MAX];
	size_t have;

	while (answer && scratch && read_header(fd, header, &have) == 0) {
		const char *path = strchr(header, '/');
		size_t size = path ? strtoul(path + 1, NULL, 10) : 0;

		if (size > ANSWER_MAX || skip_body(fd, header, have, scratch) < 0)
			break;
		memset(answer + HEADER_MAX, ' ', size);
		if (send_answer(fd, answer, size) < 0)
			break;
	}
	close(fd);
	return NULL;
}

int main(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, on = 1;

	if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 64) < 0 ||
		getsockname(listener, (struct sockaddr *)&address, &size) < 0) {
		perror("bench-floor");
		return 1;
	}
	printf("%u\n", ntohs(address.sin_port));
	fflush(stdout);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		pthread_t thread;

		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) != 0)
			close(fd);
		else
			pthread_detach(thread);
	}
	return 0;
}
