/* What the kubelet (PodResources) and the container runtime (Status) answer. First byte: l or s, a message
 * for List or Status in proper frames; L or S, bare HTTP/2 from the server. */
#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/kubelet/podresources.h"
#include "agent/container/runtime.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "net/grpc-client.h"
#include "net/loop.h"

const unsigned int fuzz_rounds = 1500;
const char *const fuzz_words[] = {"\x0a", "\x12", "\x1a", "\xff\xff\xff\xff\x0f",
	"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "aliyun.com/gpu-mem", "config",
	"{\"cdiSpecDirs\":[\"/var/run/cdi\"],\"enableCDI\":true}", "\x88",
	"\x40\x0bgrpc-status\x01"
	"0",
	"\x40\x0cgrpc-message\x03%ff", "\x00\x00\x01\x01\x05\x00\x00\x00\x01", NULL};

static struct loop *loop;
static int listen_fd;
static char path[64];
static bool answered;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	log_open("fuzz-grpc-client", LOG_LEVEL_ERROR);
	snprintf(path, sizeof(path), "/tmp/ration-fuzz-client-%d.sock", (int)getpid());
	strcpy(address.sun_path, path);
	unlink(path);
	listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	MUST(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		listen(listen_fd, 16) == 0);
	MUST(loop_new(&loop) == 0);
	return 0;
}

static void remove_socket(void) __attribute__((destructor));
static void remove_socket(void)
{
	unlink(path);
}

static void on_listing(void *userdata, struct listing *listing, const char *text)
{
	answered = true;
	if (!listing) {
		MUST(text && *text);
		return;
	}
	for (size_t i = 0; i < listing->n_pods; i++)
		MUST(listing->pods[i].name && listing->pods[i].namespace_);
	listing_release(listing);
	free(listing);
}

static void on_runtime(void *userdata)
{
}

static void add_frame(
	struct strbuf *out, unsigned type, unsigned flags, unsigned stream, const void *data, size_t len)
{
	const unsigned char head[9] = {(unsigned char)(len >> 16), (unsigned char)(len >> 8),
		(unsigned char)len, (unsigned char)type, (unsigned char)flags, 0, 0, 0,
		(unsigned char)stream};

	strbuf_add(out, head, sizeof(head));
	strbuf_add(out, data, len);
}

/* SETTINGS, HEADERS (":status: 200", content-type), DATA with one message, trailers (grpc-status: 0). */
static void add_answer(struct strbuf *out, const uint8_t *message, size_t len)
{
	static const char headers[] = "\x88\x0f\x10\x10"
				      "application/grpc";
	static const char trailers[] = "\x00\x0bgrpc-status\x01"
				       "0";
	char head[5] = {0, 0, (char)(len >> 16), (char)(len >> 8), (char)len};

	add_frame(out, 4, 0, 0, "", 0);
	add_frame(out, 1, 4, 1, headers, sizeof(headers) - 1);
	add_frame(out, 0, 0, 1, head, sizeof(head));
	for (size_t at = 0, n; at < len; at += n) {
		n = len - at < 16384 ? len - at : 16384;
		add_frame(out, 0, 0, 1, message + at, n);
	}
	add_frame(out, 1, 5, 1, trailers, sizeof(trailers) - 1);
}

static void serve(const struct strbuf *answer)
{
	char drain[4096];
	size_t sent = 0;
	int fd;

	loop_run_once(loop, 0);
	loop_run_once(loop, 0);
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	for (int i = 0; fd >= 0 && i < 50 && (sent < answer->len || i < 6); i++) {
		ssize_t n = send(fd, strbuf_cstr(answer) + sent, answer->len - sent, MSG_NOSIGNAL);

		sent += n > 0 ? (size_t)n : 0;
		loop_run_once(loop, 0);
		while (recv(fd, drain, sizeof(drain), 0) > 0)
			;
	}
	if (fd >= 0)
		close(fd);
	for (int i = 0; i < 4; i++)
		loop_run_once(loop, 0);
}

static void ask_kubelet(const struct strbuf *answer)
{
	struct podresources_call *call = NULL;
	struct podresources *resources;

	answered = false;
	MUST(podresources_new(loop, path, &resources) == 0);
	MUST(podresources_list(resources, on_listing, NULL, &call) == 0);
	serve(answer);
	if (!answered)
		podresources_cancel(call);
	podresources_free(resources);
}

static void ask_runtime(const struct strbuf *answer)
{
	struct grpc_client *cri;
	struct runtime *runtime;

	MUST(grpc_client_new(loop, path, (size_t)4 << 20, &cri) == 0 &&
		runtime_new(loop, cri, path, "/var/run/cdi", on_runtime, NULL, &runtime) == 0);
	serve(answer);
	runtime_free(runtime);
	grpc_client_free(cri);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strbuf answer;
	int left;

	if (!size)
		return 0;
	strbuf_init(&answer, 1 << 20);
	if (data[0] == 'l' || data[0] == 's')
		add_answer(&answer, data + 1, size - 1);
	else
		strbuf_add(&answer, data + 1, size - 1);
	if (data[0] == 'l' || data[0] == 'L')
		ask_kubelet(&answer);
	else if (data[0] == 's' || data[0] == 'S')
		ask_runtime(&answer);
	while ((left = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(left);
	strbuf_release(&answer);
	return 0;
}
