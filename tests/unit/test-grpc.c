/* Client and server of net/ against each other, on one loop. The foreign peer (grpcio) is in
 * tests/component/test_agent_grpc.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/grpc-client.h"
#include "net/grpc-server.h"
#include "net/loop.h"

struct fixture {
	struct loop *loop;
	struct grpc_server *server;
	struct grpc_client *client;
	char dir[32];
	char path[64], other[64];
	/* what the methods saw */
	struct grpc_call *held;
	int closed;
	/* what the last reply was */
	int replies;
	int result;
	enum grpc_status status;
	char text[2048];
	uint8_t *message;
	size_t len;
};

static void echo(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	grpc_call_reply(call, message, len);
}

static void refuse(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	grpc_call_fail(call, GRPC_FAILED_PRECONDITION, "100 % wrong: ä\n2nd line");
}

static void hold(void *userdata, struct grpc_call *call, const uint8_t *message, size_t len)
{
	struct fixture *f = userdata;

	f->held = call;
}

static void hold_closed(void *userdata, struct grpc_call *call)
{
	struct fixture *f = userdata;

	assert_ptr_equal(call, f->held);
	f->held = NULL;
	f->closed++;
}

static const struct grpc_method METHODS[] = {
	{"/t.T/Echo", echo, NULL},
	{"/t.T/Refuse", refuse, NULL},
	{"/t.T/Hold", hold, hold_closed},
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct error err = {""};

	*state = f;
	strcpy(f->dir, "/tmp/test-grpc-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/s.sock", f->dir);
	snprintf(f->other, sizeof(f->other), "%s/o.sock", f->dir);
	assert_int_equal(loop_new(&f->loop), 0);
	assert_int_equal(grpc_server_new(f->loop, f->path, METHODS, 3, f, NULL, &f->server, &err), 0);
	assert_int_equal(grpc_client_new(f->loop, f->path, GRPC_MESSAGE_MAX, &f->client), 0);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	grpc_client_free(f->client);
	grpc_server_free(f->server);
	loop_free(f->loop);
	assert_int_equal(access(f->path, F_OK), -1);
	rmdir(f->dir);
	free(f->message);
	free(f);
	return 0;
}

static void on_reply(void *userdata, const struct grpc_reply *reply)
{
	struct fixture *f = userdata;

	f->replies++;
	f->result = reply->result;
	f->status = reply->status;
	snprintf(f->text, sizeof(f->text), "%s", reply->text);
	free(f->message);
	f->message = malloc(reply->len + 1);
	f->len = reply->len;
	if (reply->len)
		memcpy(f->message, reply->message, reply->len);
}

static void run_until(struct fixture *f, const int *counter, int value)
{
	int64_t end = monotonic_ns() + 10 * NS_PER_S;

	while (*counter < value && monotonic_ns() < end)
		assert_int_equal(loop_run_once(f->loop, 100), 0);
	assert_true(*counter >= value);
}

static void call(struct fixture *f, const char *method, const void *message, size_t len)
{
	assert_int_equal(grpc_client_call(f->client, method, message, len, 5000, on_reply, f, NULL), 0);
	run_until(f, &f->replies, f->replies + 1);
}

static void message_comes_back_as_it_was(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Echo", "hello", 5);
	assert_int_equal(f->result, 0);
	assert_int_equal(f->status, GRPC_OK);
	assert_int_equal(f->len, 5);
	assert_memory_equal(f->message, "hello", 5);
}

static void empty_message_is_a_message(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Echo", NULL, 0);
	assert_int_equal(f->result, 0);
	assert_int_equal(f->status, GRPC_OK);
	assert_int_equal(f->len, 0);
}

static void message_of_the_largest_size_passes_and_one_byte_more_does_not(void **state)
{
	struct fixture *f = *state;
	uint8_t *large = malloc(GRPC_MESSAGE_MAX + 1);

	for (size_t i = 0; i <= GRPC_MESSAGE_MAX; i++)
		large[i] = (uint8_t)(i * 7 + i / 251);
	call(f, "/t.T/Echo", large, GRPC_MESSAGE_MAX);
	assert_int_equal(f->status, GRPC_OK);
	assert_int_equal(f->len, GRPC_MESSAGE_MAX);
	assert_memory_equal(f->message, large, GRPC_MESSAGE_MAX);
	call(f, "/t.T/Echo", large, GRPC_MESSAGE_MAX + 1);
	assert_int_equal(f->result, 0);
	assert_int_equal(f->status, GRPC_RESOURCE_EXHAUSTED);
	/* and the connection is as good as before */
	call(f, "/t.T/Echo", "x", 1);
	assert_int_equal(f->status, GRPC_OK);
	free(large);
}

static void error_text_survives_the_header(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Refuse", "", 0);
	assert_int_equal(f->status, GRPC_FAILED_PRECONDITION);
	assert_string_equal(f->text, "100 % wrong: ä\n2nd line");
}

static void unknown_method_is_unimplemented(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Nothing", "", 0);
	assert_int_equal(f->status, GRPC_UNIMPLEMENTED);
}

static void deadline_ends_the_call_and_tells_the_server(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(grpc_client_call(f->client, "/t.T/Hold", "", 0, 50, on_reply, f, NULL), 0);
	run_until(f, &f->replies, 1);
	assert_int_equal(f->result, -ETIMEDOUT);
	run_until(f, &f->closed, 1);
	call(f, "/t.T/Echo", "x", 1);
	assert_int_equal(f->status, GRPC_OK);
}

static void cancelled_call_never_calls_back(void **state)
{
	struct fixture *f = *state;
	struct grpc_client_call *c;

	assert_int_equal(grpc_client_call(f->client, "/t.T/Echo", "x", 1, 5000, on_reply, f, &c), 0);
	grpc_client_cancel(c);
	for (int i = 0; i < 20; i++)
		loop_run_once(f->loop, 5);
	assert_int_equal(f->replies, 0);
}

static void sixteen_calls_at_once_all_get_their_answer(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 16; i++)
		assert_int_equal(
			grpc_client_call(f->client, "/t.T/Echo", "x", 1, 5000, on_reply, f, NULL), 0);
	run_until(f, &f->replies, 16);
	assert_int_equal(f->status, GRPC_OK);
}

static void server_that_goes_ends_the_calls(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(grpc_client_call(f->client, "/t.T/Hold", "", 0, 5000, on_reply, f, NULL), 0);
	while (!f->held)
		loop_run_once(f->loop, 100);
	grpc_server_free(f->server);
	f->server = NULL;
	assert_int_equal(f->closed, 1);
	run_until(f, &f->replies, 1);
	assert_true(f->result < 0);
	assert_int_equal(grpc_client_call(f->client, "/t.T/Echo", "", 0, 5000, on_reply, f, NULL), -ENOENT);
}

static int raw_connect(const struct fixture *f)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, f->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void two_hundred_silent_connections_keep_nobody_out(void **state)
{
	struct fixture *f = *state;
	int fds[200];

	for (int i = 0; i < 200; i++) {
		fds[i] = raw_connect(f);
		loop_run_once(f->loop, 10);
	}
	call(f, "/t.T/Echo", "x", 1);
	assert_int_equal(f->status, GRPC_OK);
	for (int i = 0; i < 200; i++)
		close(fds[i]);
}

static void garbage_ends_the_connection_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	char noise[4096];
	int fd = raw_connect(f);
	ssize_t n;

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)(i * 31 + 7);
	assert_int_equal(write(fd, noise, sizeof(noise)), sizeof(noise));
	for (int i = 0; i < 10; i++)
		loop_run_once(f->loop, 10);
	do
		n = recv(fd, noise, sizeof(noise), MSG_DONTWAIT);
	while (n > 0);
	assert_true(n == 0 || errno == ECONNRESET);
	close(fd);
	call(f, "/t.T/Echo", "x", 1);
	assert_int_equal(f->status, GRPC_OK);
}

static void stale_socket_is_replaced(void **state)
{
	struct fixture *f = *state;
	struct grpc_server *second;
	struct error err = {""};

	/* The first server's file is replaced; when the first goes, the second's file stays. */
	assert_int_equal(grpc_server_new(f->loop, f->path, METHODS, 3, f, NULL, &second, &err), 0);
	grpc_server_free(f->server);
	f->server = second;
	call(f, "/t.T/Echo", "x", 1);
	assert_int_equal(f->status, GRPC_OK);
}

/* A process that served here was killed, and the next one takes its socket over: connections wait meanwhile.
 */
static void a_kept_socket_is_taken_over_with_its_file(void **state)
{
	struct fixture *f = *state;
	struct kept_socket kept = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
	struct grpc_server *killed;
	struct error err = {""};
	struct stat before, after;

	grpc_server_free(f->server);
	assert_int_equal(grpc_server_new(f->loop, f->path, METHODS, 3, f, &kept, &killed, &err), 0);
	assert_true(kept_socket_is_at(&kept, f->path));
	assert_int_equal(stat(f->path, &before), 0);
	assert_int_equal(grpc_server_new(f->loop, f->path, METHODS, 3, f, &kept, &f->server, &err), 0);
	assert_int_equal(stat(f->path, &after), 0);
	assert_true(before.st_ino == after.st_ino && before.st_ctime == after.st_ctime);
	assert_int_equal(rename(f->path, f->other), 0); /* so that the end of the first leaves the file */
	grpc_server_free(killed);
	assert_int_equal(rename(f->other, f->path), 0);
	call(f, "/t.T/Echo", "x", 1);
	assert_int_equal(f->status, GRPC_OK);
	close(kept.fd);
}

/* A process was killed after it had bound the socket and before it had noted that. */
static void a_kept_socket_that_is_bound_already_is_given_up(void **state)
{
	struct fixture *f = *state;
	struct kept_socket kept = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
	struct grpc_server *server;
	struct error err = {""};
	int fd = kept.fd;

	grpc_server_free(f->server);
	assert_int_equal(grpc_server_new(f->loop, f->path, METHODS, 3, f, &kept, &server, &err), 0);
	grpc_server_free(server);
	kept = (struct kept_socket){.fd = fd};
	assert_int_equal(grpc_server_new(f->loop, f->path, METHODS, 3, f, &kept, &f->server, &err), -EINVAL);
	assert_int_equal(kept.fd, -1);
	assert_int_equal(grpc_server_new(f->loop, f->path, METHODS, 3, f, &kept, &f->server, &err), 0);
	call(f, "/t.T/Echo", "x", 1);
	assert_int_equal(f->status, GRPC_OK);
	close(fd);
}

static void path_that_is_too_long_is_refused_with_a_sentence(void **state)
{
	struct fixture *f = *state;
	struct grpc_server *server;
	struct grpc_client *client;
	struct error err = {""};
	char path[200];

	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[199] = '\0';
	assert_int_equal(grpc_server_new(f->loop, path, METHODS, 3, f, NULL, &server, &err), -ENAMETOOLONG);
	assert_non_null(strstr(err.text, "too long"));
	assert_int_equal(grpc_client_new(f->loop, path, 1, &client), -ENAMETOOLONG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(message_comes_back_as_it_was),
		TEST(empty_message_is_a_message),
		TEST(message_of_the_largest_size_passes_and_one_byte_more_does_not),
		TEST(error_text_survives_the_header),
		TEST(unknown_method_is_unimplemented),
		TEST(deadline_ends_the_call_and_tells_the_server),
		TEST(cancelled_call_never_calls_back),
		TEST(sixteen_calls_at_once_all_get_their_answer),
		TEST(server_that_goes_ends_the_calls),
		TEST(two_hundred_silent_connections_keep_nobody_out),
		TEST(garbage_ends_the_connection_and_nothing_else),
		TEST(stale_socket_is_replaced),
		TEST(a_kept_socket_is_taken_over_with_its_file),
		TEST(a_kept_socket_that_is_bound_already_is_given_up),
		TEST(path_that_is_too_long_is_refused_with_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
