/* What the agent's two processes say to each other. First byte: f, bytes that a worker sends to the first
 * process while calls of the kubelet wait there; w, bytes that the first process sends to a worker. Both are
 * the same program, but one of them may be on its way to a crash. */
#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/kubelet/calls.h"
#include "agent/kubelet/front.h"
#include "agent/kubelet/relay.h"
#include "base/log.h"
#include "net/grpc-server.h"
#include "net/loop.h"

const unsigned int fuzz_rounds = 6000;
/* Frames: length, kind, id, argument, each a number of 32 bits. */
const char *const fuzz_words[] = {"\x01", "\x02", "\x03", "\x04", "\x05", "\x06", "\x07", "\x08",
	"\xff\xff\xff\xff", "\x40\x01", "FROM", "CLOS", NULL};

static struct loop *loop;

/* "the supervisor is gone" is no news here. */
void log_write(enum log_level unit, const char *format, ...)
{
}

/* The kubelet's calls, of which each ends once at most. */
struct grpc_call {
	bool open;
};
static struct grpc_call kubelet_calls[RELAY_METHOD_MAX];
static const struct grpc_method *methods;
static void *methods_data;

int grpc_server_new(struct loop *on, const char *path, const struct grpc_method *given, size_t n,
	void *userdata, struct kept_socket *kept, struct grpc_server **ret_server, struct error *err)
{
	MUST(n == RELAY_METHOD_MAX);
	methods = given;
	methods_data = userdata;
	*ret_server = (struct grpc_server *)&kubelet_calls;
	return 0;
}

int grpc_server_listen_again(struct grpc_server *server, struct error *err)
{
	return 0;
}

void grpc_server_free(struct grpc_server *server)
{
}

int grpc_call_send(struct grpc_call *call, const void *message, size_t len)
{
	MUST(call->open && len <= GRPC_MESSAGE_MAX);
	return 0;
}

void grpc_call_reply(struct grpc_call *call, const void *message, size_t len)
{
	MUST(call->open && len <= GRPC_MESSAGE_MAX);
	call->open = false;
}

void grpc_call_fail(struct grpc_call *call, enum grpc_status status, const char *text)
{
	MUST(call->open && text);
	call->open = false;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	MUST(loop_new(&loop) == 0);
	return 0;
}

static void turn(void)
{
	for (int i = 0; i < 3; i++)
		loop_run_once(loop, 0);
}

static void send_bytes(int fd, const uint8_t *data, size_t size)
{
	char drain[4096];

	for (size_t at = 0; at < size;) {
		ssize_t n = send(fd, data + at, size - at, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			break;
		at += n > 0 ? (size_t)n : 0;
		turn();
		while (recv(fd, drain, sizeof(drain), 0) > 0)
			;
	}
	turn();
}

static void pair(int *fds)
{
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
}

static void first_worker_listens(struct front *front)
{
	const struct relay_frame listen = {.kind = RELAY_LISTEN};
	int fds[2];

	pair(fds);
	MUST(front_attach(front, fds[0]) == 0);
	send_bytes(fds[1], (const uint8_t *)&listen, sizeof(listen));
	close(fds[1]);
	front_detach(front);
}

/* Three workers say the same; the calls have the ids 1 to 5. */
static void fuzz_front(const uint8_t *data, size_t size)
{
	struct front *front;
	int fds[2];

	MUST(front_new(loop, "/nowhere", &front) == 0);
	first_worker_listens(front);
	for (int i = 0; i < RELAY_METHOD_MAX; i++) {
		kubelet_calls[i].open = true;
		methods[i].handle(methods_data, &kubelet_calls[i], (const uint8_t *)"request", 7);
	}
	for (int i = 0; i < 3; i++) {
		pair(fds);
		MUST(front_attach(front, fds[0]) == 0);
		send_bytes(fds[1], data, size);
		MUST(!front_worker_hangs(front));
		close(fds[1]);
		front_detach(front);
	}
	for (int i = 0; i < RELAY_METHOD_MAX; i++)
		if (kubelet_calls[i].open && i != RELAY_LIST_AND_WATCH)
			methods[i].closed(methods_data, &kubelet_calls[i]);
	front_free(front);
}

/* The worker: what it is given it answers at once, or when it is closed. */
static struct kubelet_call *waiting[64];
static size_t n_waiting;

static void handle_now(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	kubelet_call_reply(call, message, len);
}

static void handle_fail(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	kubelet_call_fail(call, GRPC_INVALID_ARGUMENT, "no");
}

static void handle_later(void *userdata, struct kubelet_call *call, const uint8_t *message, size_t len)
{
	kubelet_call_resumed(call);
	kubelet_call_send(call, message, len);
	if (n_waiting < sizeof(waiting) / sizeof(waiting[0]))
		waiting[n_waiting++] = call;
}

static void closed(void *userdata, struct kubelet_call *call)
{
	for (size_t i = 0; i < n_waiting; i++)
		if (waiting[i] == call)
			waiting[i--] = waiting[--n_waiting];
}

static void listening(void *userdata, const char *text)
{
	MUST(!text || strlen(text) < GRPC_MESSAGE_MAX);
}

static void fuzz_worker(const uint8_t *data, size_t size)
{
	static const struct calls_ops ops = {.methods = {[RELAY_OPTIONS] = {handle_now, NULL},
						     [RELAY_LIST_AND_WATCH] = {handle_later, closed},
						     [RELAY_PREFERRED] = {handle_fail, NULL},
						     [RELAY_ALLOCATE] = {handle_later, closed},
						     [RELAY_PRESTART] = {handle_now, NULL}},
		.listening = listening};
	struct calls *calls;
	int fds[2];

	pair(fds);
	MUST(calls_new(loop, fds[0], &ops, NULL, &calls) == 0);
	calls_begin(calls);
	send_bytes(fds[1], data, size);
	if (n_waiting)
		kubelet_call_reply(waiting[--n_waiting], "late", 4);
	send_bytes(fds[1], data, size);
	calls_free(calls);
	MUST(n_waiting == 0);
	close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == 'f')
		fuzz_front(data + 1, size - 1);
	else if (size && data[0] == 'w')
		fuzz_worker(data + 1, size - 1);
	return 0;
}
