/* When leadership may have come here, and what a node's list then tells that the watch has not shown. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "kube/client.h"
#include "model-fixture.h"
#include "scheduler-fixture.h"
#include "scheduler/leadership.h"

static int set_up(void **state)
{
	return world_begin(15);
}

static int tear_down(void **state)
{
	return world_end();
}

/* ---- the list of a node ---------------------------------------------------------------------------------
 */

/* A list with one pod "p" that asks for 3 units, is bound to the node, and has `units` of its GPU; resizes:
 * the member of its placement that counts them, with a comma. */
static int read_list(int units, const char *resizes)
{
	char body[1024];

	snprintf(body, sizeof(body),
		"{\"items\":[{\"metadata\":{\"uid\":\"p\",\"name\":\"p\",\"namespace\":\"default\","
		"\"annotations\":{"
		"\"ration.dev/placement\":\"{%s\\\"unit\\\":1024,\\\"containers\\\":{\\\"main\\\":[{"
		"\\\"uuid\\\":\\\"GPU-n-0\\\",\\\"units\\\":%d}]}}\"}},\"spec\":{\"nodeName\":\"n\","
		"\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{\"aliyun.com/"
		"gpu-mem\":\"3\"}}}]},\"status\":{\"phase\":\"Running\"}}]}",
		resizes, units);
	return leadership_read_pods(&world.scheduler,
		&(struct kube_response){.status = 200, .body = body, .body_len = strlen(body)});
}

#define NEVER ""
#define ONCE "\\\"resizes\\\":1,"
#define TWICE "\\\"resizes\\\":2,"

static void show_bound(const char *uid)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	fixture_pod(&pod, uid, 3, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&world.scheduler.core.ledger, &pod), 0);
}

static void a_pod_that_only_the_list_shows_counts(void **state)
{
	world_pod_known("p");
	assert_int_equal(read_list(3, NEVER), 0);
	assert_int_equal(world_used(), 3);
}

static void a_size_that_only_the_list_shows_counts(void **state)
{
	show_bound("p");
	assert_int_equal(world_used(), 3);
	assert_int_equal(read_list(5, ONCE), 0);
	assert_int_equal(world_used(), 5);
}

/* The list was made before the watch told of the resize. */
static void an_older_size_of_the_list_changes_nothing(void **state)
{
	show_bound("p");
	assert_int_equal(read_list(5, TWICE), 0);
	assert_int_equal(read_list(4, ONCE), 0);
	assert_int_equal(world_used(), 5);
}

/* A watch that is cut before it shows the pod does not tell its end: the pod is asked for after the next
 * LIST. */
static void a_pod_that_only_the_list_shows_is_to_be_asked_for(void **state)
{
	assert_int_equal(read_list(3, NEVER), 0);
	assert_false(ledger_pod(&world.scheduler.core.ledger, "p")->listed);
	show_bound("p");
	assert_true(ledger_pod(&world.scheduler.core.ledger, "p")->listed);
}

static void a_pod_that_the_watch_has_shown_stays_shown(void **state)
{
	world_pod_known("p");
	assert_int_equal(read_list(3, NEVER), 0);
	assert_true(ledger_pod(&world.scheduler.core.ledger, "p")->listed);
}

static void what_is_no_list_is_told(void **state)
{
	static const char *const bodies[] = {"", "no", "{\"items\":7}"};

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		assert_int_equal(
			leadership_read_pods(&world.scheduler,
				&(struct kube_response){
					.status = 200, .body = bodies[i], .body_len = strlen(bodies[i])}),
			-EBADMSG);
}

/* ---- when -----------------------------------------------------------------------------------------------
 */

static enum leadership_node node_now(void)
{
	return leadership_node(&world.scheduler.core.leadership, "n", world.now_ns);
}

static void call_now(void)
{
	struct http_call call = {0};

	leadership_note(&world.scheduler, &call);
}

/* Calls without a pause, from a leader that keeps a connection open. */
static void calls_for(int64_t ns)
{
	for (int64_t end = world.now_ns + ns; world.now_ns < end;) {
		world.now_ns += NS_PER_S < end - world.now_ns ? NS_PER_S : end - world.now_ns;
		call_now();
	}
}

static void nodes_are_listed_for_five_seconds(void **state)
{
	call_now();
	assert_int_equal(node_now(), LEADERSHIP_LIST);
	calls_for(5 * NS_PER_S - 1);
	assert_int_equal(node_now(), LEADERSHIP_LIST);
	calls_for(1);
	assert_int_equal(node_now(), LEADERSHIP_GO);
}

static void a_pause_of_more_than_two_seconds_begins_anew(void **state)
{
	call_now();
	calls_for(6 * NS_PER_S);
	world.now_ns += 2 * NS_PER_S;
	call_now();
	assert_int_equal(node_now(), LEADERSHIP_GO);
	world.now_ns += 2 * NS_PER_S + 1;
	call_now();
	assert_int_equal(node_now(), LEADERSHIP_LIST);
}

static void a_leader_without_its_connections_begins_anew(void **state)
{
	call_now();
	calls_for(6 * NS_PER_S);
	world.alone = true;
	call_now();
	assert_int_equal(node_now(), LEADERSHIP_LIST);
}

static void an_answer_is_good_for_200_ms(void **state)
{
	struct leadership *leadership = &world.scheduler.core.leadership;
	int64_t period;

	call_now();
	period = leadership_begin(leadership, "n");
	assert_true(period > 0);
	assert_int_equal(node_now(), LEADERSHIP_WAIT);
	leadership_end(leadership, "n", period, true, world.now_ns);
	world.now_ns += 200 * NS_PER_MS - 1;
	assert_int_equal(node_now(), LEADERSHIP_GO);
	world.now_ns += 1;
	assert_int_equal(node_now(), LEADERSHIP_LIST);
}

static void a_list_that_failed_tells_nothing(void **state)
{
	struct leadership *leadership = &world.scheduler.core.leadership;

	call_now();
	leadership_end(leadership, "n", leadership_begin(leadership, "n"), false, world.now_ns);
	assert_int_equal(node_now(), LEADERSHIP_LIST);
}

/* The list was asked for before leadership came here again. */
static void a_list_of_an_earlier_leader_tells_nothing(void **state)
{
	struct leadership *leadership = &world.scheduler.core.leadership;
	int64_t period;

	call_now();
	period = leadership_begin(leadership, "n");
	world.now_ns += 3 * NS_PER_S;
	call_now();
	leadership_end(leadership, "n", period, true, world.now_ns);
	assert_int_equal(node_now(), LEADERSHIP_LIST);
}

#define LEADERSHIP(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LEADERSHIP(a_pod_that_only_the_list_shows_counts),
		LEADERSHIP(a_size_that_only_the_list_shows_counts),
		LEADERSHIP(an_older_size_of_the_list_changes_nothing),
		LEADERSHIP(a_pod_that_only_the_list_shows_is_to_be_asked_for),
		LEADERSHIP(a_pod_that_the_watch_has_shown_stays_shown),
		LEADERSHIP(what_is_no_list_is_told),
		LEADERSHIP(nodes_are_listed_for_five_seconds),
		LEADERSHIP(a_pause_of_more_than_two_seconds_begins_anew),
		LEADERSHIP(a_leader_without_its_connections_begins_anew),
		LEADERSHIP(an_answer_is_good_for_200_ms),
		LEADERSHIP(a_list_that_failed_tells_nothing),
		LEADERSHIP(a_list_of_an_earlier_leader_tells_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
