#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/activity.h"

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)

/* Samples of a second each, all alike; returns how many until it was told of, 0: not. */
static unsigned told_after(
	struct endless *endless, unsigned n, uint64_t started_ns, uint64_t used_ns, uint32_t share)
{
	unsigned at = 0;

	for (unsigned i = 1; i <= n; i++) {
		if (!endless_sample(endless, SECOND, started_ns, used_ns, share))
			continue;
		assert_int_equal(at, 0);
		at = i;
	}
	return at;
}

static void endless_is_told_once_after_ten_seconds(void **state)
{
	struct endless endless = {0};

	assert_int_equal(told_after(&endless, 60, 0, SECOND, 300000), 10);
}

static void endless_begins_anew_with_the_next_start(void **state)
{
	struct endless endless = {0};

	assert_int_equal(told_after(&endless, 9, 0, SECOND, 300000), 0);
	assert_int_equal(told_after(&endless, 1, 1, SECOND, 300000), 0);
	assert_int_equal(told_after(&endless, 9, 0, SECOND, 300000), 0);
	assert_int_equal(told_after(&endless, 1, 0, SECOND, 300000), 1);
	assert_int_equal(told_after(&endless, 1, 5, SECOND, 300000), 0);
	assert_int_equal(told_after(&endless, 12, 0, SECOND, 300000), 10);
}

static void endless_within_the_share_harms_nobody(void **state)
{
	struct endless endless = {0};

	assert_int_equal(told_after(&endless, 60, 0, 350 * MS, 300000), 0);
	assert_int_equal(told_after(&endless, 10, 0, 360 * MS, 300000), 10);
	assert_int_equal(told_after(&endless, 60, 0, 0, 300000), 0);
	/* The whole GPU is its own. */
	assert_int_equal(told_after(&endless, 60, 0, SECOND, 1000000), 0);
}

static void endless_long_samples_do_not_overflow(void **state)
{
	struct endless endless = {0};

	assert_true(endless_sample(&endless, UINT64_MAX, 0, UINT64_MAX, 0));
	assert_false(endless_sample(&endless, UINT64_MAX, 0, UINT64_MAX, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endless_is_told_once_after_ten_seconds),
		cmocka_unit_test(endless_begins_anew_with_the_next_start),
		cmocka_unit_test(endless_within_the_share_harms_nobody),
		cmocka_unit_test(endless_long_samples_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
