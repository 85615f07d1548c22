/* What a container may hold of a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/gpu/watchdog.h"

#define MIB UINT64_C(1048576)

static void a_limit_that_never_changed_is_what_is_allowed(void **state)
{
	assert_int_equal(watchdog_allowed(0, 100 * MIB, 2154 * MIB, 2154 * MIB), 2154 * MIB);
	assert_int_equal(watchdog_allowed(2154 * MIB, 9000 * MIB, 2154 * MIB, 2154 * MIB), 2154 * MIB);
	assert_int_equal(watchdog_allowed(2154 * MIB, 3000 * MIB, 3231 * MIB, 3231 * MIB), 3231 * MIB);
}

/* `ration set` gave it less than it has: it keeps that, and may not take more again. */
static void after_a_smaller_limit_what_is_there_is_allowed_as_long_as_it_stays(void **state)
{
	uint64_t allowed = watchdog_allowed(2154 * MIB, 2000 * MIB, 1077 * MIB, 2154 * MIB);

	assert_int_equal(allowed, 2000 * MIB);
	allowed = watchdog_allowed(allowed, 1500 * MIB, 1077 * MIB, 2154 * MIB);
	assert_int_equal(allowed, 1500 * MIB);
	allowed = watchdog_allowed(allowed, 2000 * MIB, 1077 * MIB, 2154 * MIB);
	assert_int_equal(allowed, 1500 * MIB);
	assert_true(watchdog_is_over(2000 * MIB, allowed));
	allowed = watchdog_allowed(allowed, 0, 1077 * MIB, 2154 * MIB);
	assert_int_equal(allowed, 1077 * MIB);
}

/* An agent that was restarted does not know what was there before, only the largest limit so far. */
static void an_agent_that_is_new_allows_what_the_largest_limit_did(void **state)
{
	assert_int_equal(watchdog_allowed(0, 2000 * MIB, 1077 * MIB, 2154 * MIB), 2000 * MIB);
	assert_int_equal(watchdog_allowed(0, 9000 * MIB, 1077 * MIB, 2154 * MIB), 2154 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_that_never_changed_is_what_is_allowed),
		cmocka_unit_test(after_a_smaller_limit_what_is_there_is_allowed_as_long_as_it_stays),
		cmocka_unit_test(an_agent_that_is_new_allows_what_the_largest_limit_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
