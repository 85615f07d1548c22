/* Bytes on the device plugin's socket: HTTP/2 and gRPC. After the first byte: anything; if that is 'p', the
 * client's preface and SETTINGS come before it. */
#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/deviceplugin.pb-c.h"
#include "agent/wire.h"
#include "base/error.h"
#include "net/grpc-server.h"
#include "net/loop.h"

const unsigned int fuzz_rounds = 3000;
/* Frames: length (3), type, flags, stream (4). */
const char *const fuzz_words[] = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "/v1beta1.DevicePlugin/Allocate",
	"application/grpc", "\x01\x01\x01", "\xff\xff\xff", "\x83\x86\x44", "\x88", "\x04\x01",
	"\x08\x06\x01", "\x01\x05\x01", NULL};

static struct loop *loop;
static struct grpc_server *server;
static struct grpc_call *stream_call;
static char path[64];

static void handle(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	_cleanup_arena_ struct wire_arena arena;
	const V1beta1__AllocateRequest *request;
	size_t n = 0;

	wire_arena_init(&arena, 1 << 20);
	request = wire_unpack(&arena, &v1beta1__allocate_request__descriptor, message, len);
	for (size_t i = 0; request && i < request->n_container_requests; i++)
		for (size_t k = 0; k < request->container_requests[i]->n_devices_ids; k++)
			n += strlen(request->container_requests[i]->devices_ids[k]);
	MUST(n <= len);
	if (request)
		grpc_call_reply(call, message, len);
	else
		grpc_call_fail(call, GRPC_INVALID_ARGUMENT, "\xff no \n message 100 %");
}

static void watch(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	if (stream_call) {
		grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "one is enough");
		return;
	}
	stream_call = call;
	grpc_call_send(call, "first", 5);
}

static void watch_closed(void *userdata, struct grpc_call *call)
{
	MUST(call == stream_call);
	stream_call = NULL;
}

static const struct grpc_method methods[] = {{"/v1beta1.DevicePlugin/Allocate", handle, NULL},
	{"/v1beta1.DevicePlugin/ListAndWatch", watch, watch_closed}};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct error err;

	snprintf(path, sizeof(path), "/tmp/ration-fuzz-%d.sock", (int)getpid());
	MUST(loop_new(&loop) == 0);
	MUST(grpc_server_new(loop, path, methods, 2, NULL, NULL, &server, &err) == 0);
	return 0;
}

static void remove_socket(void) __attribute__((destructor));
static void remove_socket(void)
{
	unlink(path);
}

static void work(int fd)
{
	char drain[4096];

	for (int i = 0; i < 5; i++) {
		loop_run_once(loop, 0);
		while (recv(fd, drain, sizeof(drain), MSG_DONTWAIT) > 0)
			;
		if (stream_call)
			grpc_call_send(stream_call, "next", 4);
	}
}

static bool send_all(int fd, const void *data, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = send(fd, (const char *)data + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return false;
		at += n > 0 ? (size_t)n : 0;
		work(fd);
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	MUST(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	if (size && data[0] == 'p')
		send_all(fd, preface, sizeof(preface) - 1);
	if (size > 1)
		send_all(fd, data + 1, size - 1);
	work(fd);
	close(fd);
	for (int i = 0; i < 3; i++)
		loop_run_once(loop, 0);
	MUST(!stream_call);
	return 0;
}
