/* Whose turn it is at a kubelet that admits one pod after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "node/turn.h"

static struct turn turn;

static int setup(void **state)
{
	turn_init(&turn);
	return 0;
}

static int teardown(void **state)
{
	turn_release(&turn);
	return 0;
}

#define FOLLOW(...)                                                                                          \
	turn_follow(&turn, (const char *const[]){__VA_ARGS__},                                               \
		sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))

static void a_turn_ends_when_the_next_pod_comes(void **state)
{
	FOLLOW("d/a");
	FOLLOW("d/a"); /* its second container */
	assert_false(turn_is_past(&turn, "d/a"));
	FOLLOW("d/b", "d/a");
	assert_true(turn_is_past(&turn, "d/a"));
	assert_false(turn_is_past(&turn, "d/b"));
	FOLLOW("d/a", "d/b");
	assert_true(turn_is_past(&turn, "d/a"));
	assert_false(turn_is_past(&turn, "d/b"));
}

static void pods_that_come_together_may_all_be_meant(void **state)
{
	FOLLOW("d/a");
	FOLLOW("d/a", "d/b", "d/c");
	assert_false(turn_is_past(&turn, "d/b"));
	assert_false(turn_is_past(&turn, "d/c"));
}

static void a_name_that_left_the_list_comes_anew(void **state)
{
	FOLLOW("d/a");
	FOLLOW("d/a", "d/b");
	FOLLOW("d/b");
	assert_false(turn_is_past(&turn, "d/b"));
	FOLLOW("d/a", "d/b");
	assert_false(turn_is_past(&turn, "d/a"));
	assert_true(turn_is_past(&turn, "d/b"));
}

static void a_kubelet_that_starts_admits_all_anew(void **state)
{
	FOLLOW("d/a");
	FOLLOW("d/a", "d/b");
	turn_begin(&turn);
	assert_false(turn_is_past(&turn, "d/a"));
	FOLLOW("d/a");
	assert_false(turn_is_past(&turn, "d/a"));
}

static void the_turn_of_the_others_is_over_once_a_call_has_its_pod(void **state)
{
	FOLLOW("d/a", "d/b", "d/c");
	turn_took(&turn, "d/b");
	assert_true(turn_is_past(&turn, "d/a"));
	assert_false(turn_is_past(&turn, "d/b"));
	assert_true(turn_is_past(&turn, "d/c"));
	FOLLOW("d/a", "d/b", "d/c"); /* its second container */
	assert_true(turn_is_past(&turn, "d/a"));
	assert_false(turn_is_past(&turn, "d/b"));
	FOLLOW("d/a", "d/b", "d/c", "d/e");
	assert_true(turn_is_past(&turn, "d/b"));
	assert_false(turn_is_past(&turn, "d/e"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_turn_ends_when_the_next_pod_comes, setup, teardown),
		cmocka_unit_test_setup_teardown(pods_that_come_together_may_all_be_meant, setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_that_left_the_list_comes_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(a_kubelet_that_starts_admits_all_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_turn_of_the_others_is_over_once_a_call_has_its_pod, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
