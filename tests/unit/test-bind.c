/* What may have changed between the call of bind and its Binding: the Lease, the time, the caller, the
 * outcome. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "model-fixture.h"
#include "net/loop.h"
#include "scheduler-fixture.h"
#include "scheduler/actuator.h"
#include "scheduler/leadership.h"

#define BINDING "/binding"
#define LIST "spec.nodeName"
#define EMPTY_LIST "{\"items\":[]}"
/* The longest that a bind may wait before its next request starts: kube-scheduler forgets the pod after 10 s,
 * and a request lasts 3 s at most (bind.c). */
#define START_MAX_NS (5 * NS_PER_S)
#define IN_FLIGHT_MAX 64

/* Room for one pod of 3 units. */
static int set_up(void **state)
{
	return world_begin(4);
}

static int set_up_for_two(void **state)
{
	return world_begin(8);
}

static int tear_down(void **state)
{
	return world_end();
}

static void assert_answer(struct http_call *call, const char *text)
{
	assert_non_null(call->answer);
	if (!strstr(call->answer, text))
		fail_msg("%s does not say: %s", call->answer, text);
	free(call->answer);
	call->answer = NULL;
}

static void assert_bound(struct http_call *call)
{
	assert_answer(call, "\"Error\":\"\"");
}

/* A bind whose Binding is on its way. */
static void send_binding(struct http_call *call, const char *uid)
{
	world_pod_known(uid);
	world_bind(call, uid);
	assert_int_equal(world_asked("GET", LIST), 1);
	world_answer(0, 200, EMPTY_LIST);
	assert_int_equal(world_asked("POST", BINDING), 1);
	assert_int_equal(world_used(), 3);
}

static void a_binding_that_is_applied_keeps_its_gpu(void **state)
{
	struct http_call call = {0};

	send_binding(&call, "p");
	world_answer(0, 201, "{}");
	assert_bound(&call);
	world_pass(60 * NS_PER_S);
	assert_int_equal(world_used(), 3);
}

static void a_binding_that_is_refused_frees_its_gpu_at_once(void **state)
{
	struct http_call call = {0};

	send_binding(&call, "p");
	world_answer(0, 403, "{}");
	assert_answer(&call, "Binding failed");
	assert_int_equal(world_used(), 0);
}

/* No answer, one that says nothing, and a conflict: the pod may be bound by an earlier try. */
static void a_binding_of_unknown_outcome_keeps_its_gpu_for_ten_seconds(void **state)
{
	static const struct {
		int result;
		long status;
	} answers[] = {{-ETIMEDOUT, 0}, {0, 500}, {0, 409}};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct http_call call = {0};

		send_binding(&call, "p");
		world_answer(answers[i].result, answers[i].status, "");
		assert_answer(&call, "Binding failed");
		world_pass(10 * NS_PER_S - 1);
		assert_int_equal(world_used(), 3);
		world_pass(1);
		assert_int_equal(world_used(), 0);
		ledger_remove_pod(&world.scheduler.core.ledger, "p");
		world_pass(20 * NS_PER_S);
	}
}

/* The Binding was applied, and the pod was deleted by force before any watch showed it. Its containers may
 * run. */
static void a_pod_that_is_gone_before_its_outcome_is_known_keeps_its_gpu(void **state)
{
	static const struct pod_facts unknown;
	struct http_call call = {0};

	send_binding(&call, "p");
	world_answer(0, 500, "");
	assert_answer(&call, "Binding failed");
	assert_true(core_pod_is_verified(&world.scheduler.core, "p", POD_GONE, &unknown, monotonic_ns()));
	assert_non_null(ledger_pod(&world.scheduler.core.ledger, "p"));
	assert_int_equal(ledger_pod(&world.scheduler.core.ledger, "p")->occupancy, OCCUPANCY_ORPHAN);
	world_pass(15 * NS_PER_S);
	assert_int_equal(world_used(), 3);
}

/* The watch has shown each state of the pod, and none of them had a node. */
static void a_pod_that_the_watch_shows_deleted_before_its_outcome_is_known_was_not_bound(void **state)
{
	struct http_call call = {0};

	send_binding(&call, "p");
	world_answer(0, 500, "");
	assert_answer(&call, "Binding failed");
	assert_int_equal(core_pod_is_gone(&world.scheduler.core, "p", true, monotonic_ns()), 0);
	assert_int_equal(world_used(), 0);
}

/* A watch that was cut may show in one event that the containers started and that the kubelet rejected the
 * pod. */
static void a_pod_that_fails_as_its_containers_are_first_shown_keeps_its_gpu(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct http_call call = {0};

	send_binding(&call, "p");
	world_answer(0, 201, "{}");
	assert_bound(&call);
	fixture_pod(&facts, "p", 3, "");
	fixture_bind(&facts, "n", "GPU-n-0");
	assert_int_equal(core_see_pod(&world.scheduler.core, &facts, 0, monotonic_ns()), 0);
	facts.finished = facts.running = true;
	assert_int_equal(core_see_pod(&world.scheduler.core, &facts, 0, monotonic_ns()), 0);
	assert_non_null(ledger_pod(&world.scheduler.core.ledger, "p"));
	assert_int_equal(ledger_pod(&world.scheduler.core.ledger, "p")->occupancy, OCCUPANCY_ORPHAN);
	assert_int_equal(world_used(), 3);
}

static void each_unknown_outcome_has_its_own_ten_seconds(void **state)
{
	struct http_call first = {0}, second = {0};

	send_binding(&first, "p");
	world_pod_known("q");
	world_bind(&second, "q");
	world_answer(-ETIMEDOUT, 0, "");
	assert_answer(&first, "Binding failed");
	world_pass(3 * NS_PER_S);
	world_answer(-ETIMEDOUT, 0, "");
	assert_answer(&second, "Binding failed");
	assert_int_equal(world_used(), 6);
	world_pass(7 * NS_PER_S);
	assert_int_equal(world_used(), 3);
	world_pass(3 * NS_PER_S - 1);
	assert_int_equal(world_used(), 3);
	world_pass(1);
	assert_int_equal(world_used(), 0);
}

static void while_the_watch_is_cut_an_unknown_outcome_stays_unknown(void **state)
{
	struct http_call call = {0};

	send_binding(&call, "p");
	world_answer(-ETIMEDOUT, 0, "");
	assert_answer(&call, "Binding failed");
	world.scheduler.core.following = false;
	world_pass(600 * NS_PER_S);
	assert_int_equal(world_used(), 3);
	world.scheduler.core.following = true;
	world_pass(NS_PER_S);
	assert_int_equal(world_used(), 0);
}

static void a_doubt_ends_although_events_keep_coming(void **state)
{
	struct http_call call = {0};

	send_binding(&call, "p");
	world_answer(-ETIMEDOUT, 0, "");
	assert_answer(&call, "Binding failed");
	world.now_ns += 10 * NS_PER_S;
	world.scheduler.core.heard_ns = world.now_ns;
	actuate(&world.scheduler); /* an event, before the timer is looked at */
	world_pass(0);
	assert_int_equal(world_used(), 0);
}

/* Its connection may be dead. */
static void while_the_watch_tells_nothing_an_unknown_outcome_stays_unknown(void **state)
{
	struct http_call call = {0};

	send_binding(&call, "p");
	world_answer(-ETIMEDOUT, 0, "");
	assert_answer(&call, "Binding failed");
	world_pass(9 * NS_PER_S);
	world.now_ns += 600 * NS_PER_S;
	actuate(&world.scheduler);
	assert_int_equal(loop_run_once(world.scheduler.loop, 0), 0);
	assert_int_equal(world_used(), 3);
	world_pass(NS_PER_S);
	assert_int_equal(world_used(), 0);
}

static void a_lease_that_is_lost_before_the_call_is_told(void **state)
{
	struct http_call call = {0};

	world_pod_known("p");
	world_lose_lease();
	world_bind(&call, "p");
	assert_answer(&call, "another scheduler owns the GPU ledger");
	assert_int_equal(world_asked("", ""), 0);
}

static void a_lease_that_is_lost_after_the_call_stops_its_binding(void **state)
{
	struct http_call call = {0};

	world_pod_known("p");
	world_bind(&call, "p");
	world_lose_lease();
	world_answer(0, 200, EMPTY_LIST);
	assert_answer(&call, "another scheduler owns the GPU ledger");
	assert_int_equal(world_asked("", ""), 0);
	assert_int_equal(world_used(), 0);
}

static void a_bind_whose_node_is_listed_too_late_is_refused(void **state)
{
	struct http_call call = {0};

	world_pod_known("p");
	world_bind(&call, "p");
	world_pass(START_MAX_NS + 1);
	world_answer(0, 200, EMPTY_LIST);
	assert_answer(&call, "too slow");
	assert_int_equal(world_asked("", ""), 0);
	assert_int_equal(world_used(), 0);
}

static void a_bind_whose_node_is_listed_in_time_goes_on(void **state)
{
	struct http_call call = {0};

	world_pod_known("p");
	world_bind(&call, "p");
	world_pass(START_MAX_NS);
	world_answer(0, 200, EMPTY_LIST);
	assert_int_equal(world_asked("POST", BINDING), 1);
	world_answer(0, 201, "{}");
	assert_bound(&call);
}

/* The watch has not shown the pod, so it is asked for. */
#define POD_P                                                                                                \
	"{\"metadata\":{\"uid\":\"p\",\"name\":\"p\",\"namespace\":\"default\"},\"spec\":{\"containers\":["  \
	"{\"name\":\"main\",\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}}}]}}"

static void a_bind_whose_pod_is_read_too_late_is_refused(void **state)
{
	struct http_call call = {0};

	world_bind(&call, "p");
	world_answer(0, 200, EMPTY_LIST);
	assert_int_equal(world_asked("GET", "/pods/p"), 1);
	world_pass(START_MAX_NS + 1);
	world_answer(0, 200, POD_P);
	assert_answer(&call, "too slow");
	assert_int_equal(world_asked("", ""), 0);
}

static void a_bind_whose_caller_hangs_up_while_its_pod_is_read_sends_no_binding(void **state)
{
	struct http_call call = {0};

	world_bind(&call, "p");
	world_answer(0, 200, EMPTY_LIST);
	assert_int_equal(world_asked("GET", "/pods/p"), 1);
	call.gone = true;
	world_answer(0, 200, POD_P);
	assert_answer(&call, "closed the connection");
	assert_int_equal(world_asked("", ""), 0);
	assert_int_equal(world_used(), 0);
}

static void a_bind_whose_caller_hangs_up_while_its_node_is_listed_sends_no_binding(void **state)
{
	struct http_call call = {0};

	world_pod_known("p");
	world_bind(&call, "p");
	call.gone = true;
	world_answer(0, 200, EMPTY_LIST);
	assert_answer(&call, "closed the connection");
	assert_int_equal(world_asked("", ""), 0);
	assert_int_equal(world_used(), 0);
}

/* As many binds as may be under way at once, and one more, which waits for its turn. The pods are not known.
 */
static void fill(struct http_call calls[IN_FLIGHT_MAX + 1])
{
	char uid[16];

	/* The five seconds of a new leader are over, so no node is listed. */
	leadership_note(&world.scheduler, NULL);
	for (int i = 0; i < 6; i++) {
		world_pass(NS_PER_S);
		leadership_note(&world.scheduler, NULL);
	}
	for (int i = 0; i <= IN_FLIGHT_MAX; i++) {
		calls[i] = (struct http_call){0};
		snprintf(uid, sizeof(uid), "p%d", i);
		world_bind(&calls[i], uid);
	}
	assert_int_equal(world_asked("GET", "/pods/p0"), IN_FLIGHT_MAX);
}

static void drain(struct http_call calls[IN_FLIGHT_MAX + 1])
{
	while (world_asked("GET", "/pods/p"))
		world_answer(0, 404, "");
	for (int i = 0; i <= IN_FLIGHT_MAX; i++)
		free(calls[i].answer);
}

static void a_bind_whose_turn_comes_in_time_begins(void **state)
{
	struct http_call calls[IN_FLIGHT_MAX + 1];

	fill(calls);
	world_pass(START_MAX_NS);
	world_answer(0, 404, "");
	assert_null(calls[IN_FLIGHT_MAX].answer);
	assert_int_equal(world_asked("GET", "/pods/p1"), IN_FLIGHT_MAX);
	drain(calls);
}

static void a_bind_whose_turn_comes_too_late_asks_for_nothing(void **state)
{
	struct http_call calls[IN_FLIGHT_MAX + 1];

	fill(calls);
	world_pass(START_MAX_NS + 1);
	world_answer(0, 404, "");
	assert_answer(&calls[IN_FLIGHT_MAX], "too slow");
	assert_int_equal(world_asked("GET", "/pods/p1"), IN_FLIGHT_MAX - 1);
	drain(calls);
}

static void a_bind_whose_caller_hangs_up_before_its_turn_asks_for_nothing(void **state)
{
	struct http_call calls[IN_FLIGHT_MAX + 1];

	fill(calls);
	calls[IN_FLIGHT_MAX].gone = true;
	world_answer(0, 404, "");
	assert_answer(&calls[IN_FLIGHT_MAX], "closed the connection");
	assert_int_equal(world_asked("GET", "/pods/p1"), IN_FLIGHT_MAX - 1);
	drain(calls);
}

/* The second bind sees what the first has reserved, before any answer of the API server. */
static void two_binds_at_once_do_not_get_the_same_units(void **state)
{
	struct http_call first = {0}, second = {0};

	send_binding(&first, "p");
	world_pod_known("q");
	world_bind(&second, "q");
	assert_answer(&second, "no GPU has 3 units free on node n");
	world_answer(0, 201, "{}");
	assert_bound(&first);
	assert_int_equal(world_used(), 3);
}

static void a_pod_that_was_made_anew_is_not_bound_by_the_old_uid(void **state)
{
	struct http_call call = {0};

	world_bind(&call, "p");
	world_answer(0, 200, EMPTY_LIST);
	world_answer(0, 200,
		"{\"metadata\":{\"uid\":\"other\",\"name\":\"p\",\"namespace\":\"default\"},\"spec\":{"
		"\"containers\":[{"
		"\"name\":\"main\",\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}}}]}}");
	assert_answer(&call, "created anew");
	assert_int_equal(world_asked("", ""), 0);
	assert_int_equal(world_used(), 0);
}

#define BIND(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BIND(a_binding_that_is_applied_keeps_its_gpu),
		BIND(a_binding_that_is_refused_frees_its_gpu_at_once),
		BIND(a_binding_of_unknown_outcome_keeps_its_gpu_for_ten_seconds),
		BIND(a_pod_that_is_gone_before_its_outcome_is_known_keeps_its_gpu),
		BIND(a_pod_that_the_watch_shows_deleted_before_its_outcome_is_known_was_not_bound),
		BIND(a_pod_that_fails_as_its_containers_are_first_shown_keeps_its_gpu),
		cmocka_unit_test_setup_teardown(
			each_unknown_outcome_has_its_own_ten_seconds, set_up_for_two, tear_down),
		BIND(while_the_watch_is_cut_an_unknown_outcome_stays_unknown),
		BIND(a_doubt_ends_although_events_keep_coming),
		BIND(while_the_watch_tells_nothing_an_unknown_outcome_stays_unknown),
		BIND(a_lease_that_is_lost_before_the_call_is_told),
		BIND(a_lease_that_is_lost_after_the_call_stops_its_binding),
		BIND(a_bind_whose_node_is_listed_too_late_is_refused),
		BIND(a_bind_whose_node_is_listed_in_time_goes_on),
		BIND(a_bind_whose_pod_is_read_too_late_is_refused),
		BIND(a_bind_whose_caller_hangs_up_while_its_node_is_listed_sends_no_binding),
		BIND(a_bind_whose_caller_hangs_up_while_its_pod_is_read_sends_no_binding),
		BIND(a_bind_whose_turn_comes_in_time_begins),
		BIND(a_bind_whose_turn_comes_too_late_asks_for_nothing),
		BIND(a_bind_whose_caller_hangs_up_before_its_turn_asks_for_nothing),
		BIND(two_binds_at_once_do_not_get_the_same_units),
		BIND(a_pod_that_was_made_anew_is_not_bound_by_the_old_uid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
