#include "cli/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/kubectl.h"
#include "kube/names.h"

#define SMALL_MAX (256u << 10)
#define START_MAX_NS (20 * NS_PER_S)
#define ANSWER_MAX_NS (30 * NS_PER_S)

/* Without the newlines at the end. */
static const char *said(const struct strbuf *complaints)
{
	for (size_t len = complaints->len; len && complaints->data[len - 1] == '\n'; len--)
		complaints->data[len - 1] = '\0';
	return complaints->data ? complaints->data : "it gave no reason";
}

static int not_forwarded(
	const struct forward_target *target, const struct strbuf *complaints, struct error *err)
{
	if (strcasestr(strbuf_cstr(complaints), "forbidden"))
		return error_set(err, EACCES,
			"you may not open a port to %s: ask for the verb create on pods/portforward and get on pods in " NAMESPACE_SYSTEM
			" (%s)",
			target->role, said(complaints));
	if (strstr(strbuf_cstr(complaints), "(NotFound)"))
		return error_set(
			err, ENOENT, "%s pod %s is gone, %s", target->whose, target->pod, target->gone);
	return error_set(err, EIO, "no way to pod %s, %s: %s", target->pod, target->which, said(complaints));
}

/* "Forwarding from 127.0.0.1:41234 -> 39999" */
static int port_from_line(const char *text)
{
	static const char before[] = "Forwarding from 127.0.0.1:";
	const char *line = strstr(text, before);
	unsigned port;

	if (!line || !strchr(line, '>') || sscanf(line + strlen(before), "%5u", &port) != 1 || !port ||
		port > 65535)
		return 0;
	return (int)port;
}

/* Waits for the line with the port. 0: the process has ended, or the time is over. */
static int forward_wait(const struct kubectl_process *process, struct strbuf *complaints)
{
	_cleanup_strbuf_ struct strbuf out, pending;
	int64_t deadline = monotonic_ns() + START_MAX_NS;
	struct pollfd fds[] = {
		{.fd = process->complaints, .events = POLLIN}, {.fd = process->out, .events = POLLIN}};
	char chunk[4096];
	int port = 0;

	strbuf_init(&out, SMALL_MAX);
	strbuf_init(&pending, SMALL_MAX);
	while (!port && (fds[0].fd >= 0 || fds[1].fd >= 0)) {
		int64_t left = deadline - monotonic_ns();

		if (left <= 0 || (poll(fds, 2, (int)(left / NS_PER_MS) + 1) < 0 && errno != EINTR))
			break;
		for (int i = 0; i < 2; i++) {
			ssize_t n = fds[i].fd >= 0 && fds[i].revents ? read(fds[i].fd, chunk, sizeof(chunk))
								     : -1;

			if (n > 0 && i == 0)
				complaints_take(chunk, (size_t)n, &pending, complaints);
			else if (n > 0)
				strbuf_add(&out, chunk, (size_t)n);
			else if (n == 0)
				fds[i].fd = -1;
		}
		port = port_from_line(strbuf_cstr(&out));
	}
	return port;
}

/* HTTP/1.0 is used because its answer ends with the connection and has no encoding. */

static int answer_read(int fd, const char *path, struct strbuf *answer)
{
	_cleanup_strbuf_ struct strbuf request;
	char chunk[65536];
	ssize_t n;

	strbuf_init(&request, SMALL_MAX);
	strbuf_addf(&request, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", path);
	if (request.failed)
		return request.failed;
#ifdef SO_NOSIGPIPE /* macOS has this in place of MSG_NOSIGNAL */
	setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
	if (send(fd, request.data, request.len, MSG_NOSIGNAL) != (ssize_t)request.len)
		return -EPIPE;
	for (;;) {
		n = recv(fd, chunk, sizeof(chunk), 0);
		if (n < 0 && errno == EINTR)
			continue; /* with SO_RCVTIMEO, a stop and `fg` interrupt recv() (signal(7)) */
		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (strbuf_add(answer, chunk, (size_t)n) < 0)
			return answer->failed;
	}
}

/* Reads a whole HTTP/1.0 answer: its status, and where its body begins. -EINVAL: this is not an HTTP answer.
 * -EPIPE: it is shorter than its Content-Length, because the connection broke. */
static int http_answer_parse(const char *answer, int *ret_status, const char **ret_body)
{
	static const char length_header[] = "\r\nContent-Length:";
	const char *end = strstr(answer, "\r\n\r\n"), *body, *header;
	int status;

	if (!end || sscanf(answer, "HTTP/1.%*1d %3d", &status) != 1)
		return -EINVAL;
	body = end + strlen("\r\n\r\n");
	header = strcasestr(answer, length_header);
	if (header && header < end && strtoull(header + strlen(length_header), NULL, 10) != strlen(body))
		return -EPIPE;
	*ret_status = status;
	*ret_body = body;
	return 0;
}

static int local_get(int port, const char *path, struct strbuf *answer)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval patience = {.tv_sec = ANSWER_MAX_NS / NS_PER_S};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* On Linux SO_SNDTIMEO limits connect(), too (socket(7)). Without the limit, a kubectl that accepts
	 * no more connections would block this process for minutes. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	return answer_read(fd, path, answer);
}

static int answer_take(const struct forward_target *target, int r, const struct strbuf *answer,
	struct strbuf *body, struct error *err)
{
	const char *text = "", *pod = target->pod;
	int status = 0;

	if (r == -EMSGSIZE)
		return error_set(err, EMSGSIZE, "the answer of pod %s is too long", pod);
	if (r == 0)
		r = http_answer_parse(strbuf_cstr(answer), &status, &text);
	if (r == -EPIPE)
		return error_set(err, EPIPE,
			"the answer of pod %s broke off: `kubectl port-forward` or %s has ended, try again",
			pod, target->role);
	if (r < 0)
		return error_set(err, EIO,
			"%s in pod %s does not answer on port %s: look at `kubectl -n " NAMESPACE_SYSTEM
			" logs %s -c %s`%s%s",
			target->program, pod, target->port, pod, target->program, r != -EINVAL ? ": " : "",
			r != -EINVAL ? strerror(-r) : "");
	if (status == 404)
		return error_set(err, ENOSYS, "%s in pod %s is older than this command and %s",
			target->program, pod, target->older);
	if (status != 200)
		return error_set(err, EIO, "%s in pod %s answers with status %d: %.200s", target->program,
			pod, status, text);
	return strbuf_adds(body, text);
}

int forward_open(const struct kubectl *kubectl, const struct forward_target *target,
	struct forward *ret_forward, struct error *err)
{
	_cleanup_strbuf_ struct strbuf complaints;
	_cleanup_free_ char *pod = NULL, *port = NULL;
	struct forward forward = {.target = *target, .process = {.pid = -1, .out = -1, .complaints = -1}};
	int r;

	strbuf_init(&complaints, SMALL_MAX);
	if (asprintf(&pod, "pod/%s", target->pod) < 0 || asprintf(&port, ":%s", target->port) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = kubectl_start(kubectl,
		(const char *const[]){"--namespace=" NAMESPACE_SYSTEM, "port-forward", "--address=127.0.0.1",
			pod, port, NULL},
		&forward.process, err);
	if (r < 0)
		return r;
	forward.port = forward_wait(&forward.process, &complaints);
	if (!forward.port) {
		forward_close(&forward);
		return not_forwarded(target, &complaints, err);
	}
	*ret_forward = forward;
	return 0;
}

/* kubectl prints a line for each connection, and blocks if no process reads it. */
static void drain(const struct kubectl_process *process)
{
	struct pollfd fds[] = {
		{.fd = process->complaints, .events = POLLIN}, {.fd = process->out, .events = POLLIN}};
	char chunk[4096];

	for (int i = 0; i < 2; i++)
		while (poll(&fds[i], 1, 0) > 0 && read(fds[i].fd, chunk, sizeof(chunk)) > 0)
			;
}

int forward_read(const struct forward *forward, const char *path, struct strbuf *body, struct error *err)
{
	_cleanup_strbuf_ struct strbuf answer;
	int r;

	drain(&forward->process);
	strbuf_init(&answer, body->max);
	r = local_get(forward->port, path, &answer);
	return answer_take(&forward->target, r, &answer, body, err);
}

void forward_close(struct forward *forward)
{
	kubectl_stop(&forward->process);
}

int forward_get(const struct kubectl *kubectl, const char *pod, const char *path, struct strbuf *body,
	struct error *err)
{
	const struct forward_target target = {
		.pod = pod,
		.port = SCHEDULER_PORT,
		.program = "ration-scheduler",
		.role = "the scheduler",
		.whose = "the leading scheduler's",
		.which = "which leads",
		.gone = "another one will lead soon: try again in 15 seconds",
		.older = "cannot tell why: upgrade the chart ack-co-scheduler",
	};
	struct forward forward;
	int r = forward_open(kubectl, &target, &forward, err);

	if (r < 0)
		return r;
	r = forward_read(&forward, path, body, err);
	forward_close(&forward);
	return r;
}
