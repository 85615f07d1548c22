#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/activity.h"

#define MS INT64_C(1000000)

static void what_is_seen_first_is_no_movement(void **state)
{
	struct activity activity = {0};

	assert_false(activity_see(&activity, 1000 * MS, 77 * MS, 5));
	assert_false(activity_see(&activity, 1020 * MS, 77 * MS, 5));
}

static void work_that_starts_is_seen_at_once_and_its_end_soon(void **state)
{
	struct activity activity = {0};

	activity_see(&activity, 0, 0, 0);
	assert_true(activity_see(&activity, 20 * MS, MS, 0));
	assert_true(activity_see(&activity, 40 * MS, MS, 0));
	assert_false(activity_see(&activity, 60 * MS, MS, 0));
}

static void who_only_asks_and_gets_nothing_has_work(void **state)
{
	struct activity activity = {0};

	activity_see(&activity, 0, 0, 0);
	for (int64_t at = 20; at < 2000; at += 20)
		assert_true(activity_see(&activity, at * MS, 0, (uint64_t)at));
}

static void a_long_kernel_counts_while_it_runs_and_as_long_again(void **state)
{
	struct activity activity = {0};

	activity_see(&activity, 0, 0, 0);
	activity_see(&activity, 20 * MS, 50 * MS, 1);
	assert_true(activity_see(&activity, 100 * MS, 50 * MS, 1));
	assert_false(activity_see(&activity, 120 * MS, 50 * MS, 1));
}

static void numbers_that_jump_or_go_back_are_movement_and_no_more(void **state)
{
	struct activity activity = {0};

	activity_see(&activity, 0, 1000 * MS, 9);
	assert_true(activity_see(&activity, 20 * MS, 5 * MS, 2));
	assert_false(activity_see(&activity, 60 * MS, 5 * MS, 2));
	assert_true(activity_see(&activity, 80 * MS, UINT64_MAX, 2));
	assert_true(activity_see(&activity, 580 * MS - 1, UINT64_MAX, 2));
	assert_false(activity_see(&activity, 580 * MS, UINT64_MAX, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_seen_first_is_no_movement),
		cmocka_unit_test(work_that_starts_is_seen_at_once_and_its_end_soon),
		cmocka_unit_test(who_only_asks_and_gets_nothing_has_work),
		cmocka_unit_test(a_long_kernel_counts_while_it_runs_and_as_long_again),
		cmocka_unit_test(numbers_that_jump_or_go_back_are_movement_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
