/* The kubelet's side of the device plugin while workers come and go: front.c between a gRPC client and
 * workers that these tests play. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/kubelet/front.h"
#include "agent/kubelet/relay.h"
#include "net/grpc-client.h"
#include "net/loop.h"

struct fixture {
	struct loop *loop;
	struct front *front;
	struct grpc_client *kubelet;
	struct relay *worker;
	char dir[32], path[64];
	uint32_t call; /* the last one that the worker was given */
	int calls, replies;
	enum grpc_status status;
	char text[256];
};

static void on_frame(void *userdata, const struct relay_frame *frame, const uint8_t *data)
{
	struct fixture *f = userdata;

	if (frame->kind != RELAY_CALL)
		return;
	f->call = frame->id;
	f->calls++;
}

static void on_ended(void *userdata)
{
}

static void turn(struct fixture *f)
{
	for (int i = 0; i < 20; i++)
		loop_run_once(f->loop, 1);
}

static void worker_start(struct fixture *f)
{
	static const struct relay_ops ops = {on_frame, on_ended};
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(front_attach(f->front, fds[0]), 0);
	assert_int_equal(relay_new(f->loop, fds[1], &ops, f, &f->worker), 0);
}

static void worker_reads(struct fixture *f)
{
	relay_begin(f->worker);
	turn(f);
	relay_send(f->worker, RELAY_TAKEN, f->call, 0, NULL, 0);
}

static void worker_dies(struct fixture *f)
{
	relay_free(f->worker);
	f->worker = NULL;
	front_detach(f->front);
}

static void on_reply(void *userdata, const struct grpc_reply *reply)
{
	struct fixture *f = userdata;

	f->replies++;
	f->status = reply->status;
	snprintf(f->text, sizeof(f->text), "%s", reply->text ? reply->text : "");
}

static void kubelet_calls(struct fixture *f, const char *method)
{
	assert_int_equal(grpc_client_call(f->kubelet, method, "x", 1, 5000, on_reply, f, NULL), 0);
	turn(f);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	strcpy(f->dir, "/tmp/test-front-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/plugin.sock", f->dir);
	assert_int_equal(loop_new(&f->loop), 0);
	assert_int_equal(front_new(f->loop, f->path, &f->front), 0);
	assert_int_equal(grpc_client_new(f->loop, f->path, 4 << 20, &f->kubelet), 0);
	worker_start(f);
	relay_begin(f->worker);
	relay_send(f->worker, RELAY_LISTEN, 0, 0, NULL, 0);
	turn(f);
	worker_dies(f);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	grpc_client_free(f->kubelet);
	front_free(f->front);
	relay_free(f->worker);
	loop_free(f->loop);
	rmdir(f->dir);
	free(f);
	return 0;
}

#define ALLOCATE "/v1beta1.DevicePlugin/Allocate"

static void call_that_no_worker_had_read_outlives_any_number_of_them(void **state)
{
	struct fixture *f = *state;

	kubelet_calls(f, ALLOCATE);
	for (int i = 0; i < 5; i++) {
		worker_start(f);
		turn(f);
		worker_dies(f);
		turn(f);
		assert_int_equal(f->replies, 0);
	}
	worker_start(f);
	worker_reads(f);
	relay_send(f->worker, RELAY_REPLY, f->call, 0, "", 0);
	turn(f);
	assert_int_equal(f->replies, 1);
	assert_int_equal(f->status, GRPC_OK);
}

static void call_that_three_workers_had_read_when_they_died_is_refused(void **state)
{
	struct fixture *f = *state;

	kubelet_calls(f, ALLOCATE);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(f->replies, 0);
		worker_start(f);
		worker_reads(f);
		worker_dies(f); /* before the loop has seen what it said */
		turn(f);
		worker_start(f); /* one in between that reads nothing is no excuse */
		worker_dies(f);
		turn(f);
	}
	assert_int_equal(f->replies, 1);
	assert_int_equal(f->status, GRPC_UNAVAILABLE);
	assert_non_null(strstr(f->text, "died three times"));
}

static void answer_that_a_worker_gave_before_it_died_is_the_answer(void **state)
{
	struct fixture *f = *state;

	kubelet_calls(f, ALLOCATE);
	worker_start(f);
	worker_reads(f);
	relay_send(f->worker, RELAY_REPLY, f->call, 0, "", 0);
	worker_dies(f);
	worker_start(f);
	relay_begin(f->worker);
	turn(f);
	assert_int_equal(f->replies, 1);
	assert_int_equal(f->status, GRPC_OK);
	assert_int_equal(f->calls, 1); /* the next worker is not asked */
}

static void list_and_watch_that_is_open_outlives_any_number_of_workers(void **state)
{
	struct fixture *f = *state;

	kubelet_calls(f, "/v1beta1.DevicePlugin/ListAndWatch");
	for (int i = 0; i < 5; i++) {
		worker_start(f);
		worker_reads(f);
		worker_dies(f);
		turn(f);
	}
	assert_int_equal(f->calls, 5);
	assert_int_equal(f->replies, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			call_that_no_worker_had_read_outlives_any_number_of_them, setup, teardown),
		cmocka_unit_test_setup_teardown(
			call_that_three_workers_had_read_when_they_died_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(
			answer_that_a_worker_gave_before_it_died_is_the_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(
			list_and_watch_that_is_open_outlives_any_number_of_workers, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
