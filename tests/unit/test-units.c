#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/units.h"

static void units_of_gpu_rounds_down(void **state)
{
	assert_int_equal(units_of_gpu(16160, 1024), 15);
	assert_int_equal(units_of_gpu(16384, 1024), 16);
	assert_int_equal(units_of_gpu(15079, 1024), 14);
	assert_int_equal(units_of_gpu(16160, 128), 126);
	assert_int_equal(units_of_gpu(1023, 1024), 0);
}

static void units_of_gpu_survives_a_unit_of_zero_and_absurd_gpus(void **state)
{
	assert_int_equal(units_of_gpu(16160, 0), 0);
	assert_int_equal(units_of_gpu(UINT64_MAX, 128), UNITS_MAX);
}

static void units_add_stops_at_the_top(void **state)
{
	assert_int_equal(units_add(3, 4), 7);
	assert_int_equal(units_add(UNITS_MAX - 1, 1), UNITS_MAX);
	assert_int_equal(units_add(UNITS_MAX, UNITS_MAX), UNITS_MAX);
	assert_int_equal(units_add(UINT32_MAX, UINT32_MAX), UNITS_MAX);
	assert_int_equal(units_add(0, UINT32_MAX), UNITS_MAX);
}

static void unit_parse_knows_the_four_units_and_nothing_else(void **state)
{
	static const char *const wrong[] = {
		"", "1", "1024", "1GiB ", " 1GiB", "1gib", "2GiB", "64MiB", "1Gi"};
	uint32_t mib = 7;

	assert_int_equal(unit_parse("1GiB", &mib), 0);
	assert_int_equal(mib, 1024);
	assert_int_equal(unit_parse("128MiB", &mib), 0);
	assert_int_equal(mib, 128);
	assert_int_equal(unit_parse("256MiB", &mib), 0);
	assert_int_equal(mib, 256);
	assert_int_equal(unit_parse("512MiB", &mib), 0);
	assert_int_equal(mib, 512);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(unit_parse(wrong[i], &mib), -EINVAL);
	assert_int_equal(mib, 512);
}

/* 3 GiB are 24 units of 128 MiB; 9 of these take more than one of 1 GiB. */
static void units_convert_keeps_the_memory_and_rounds_up(void **state)
{
	assert_int_equal(units_convert(3, 1024, 128), 24);
	assert_int_equal(units_convert(24, 128, 1024), 3);
	assert_int_equal(units_convert(9, 128, 1024), 2);
	assert_int_equal(units_convert(0, 128, 1024), 0);
	assert_int_equal(units_convert(7, 1024, 1024), 7);
	assert_int_equal(units_convert(7, 0, 1024), 7);
	assert_int_equal(units_convert(7, 128, 0), 7);
	assert_int_equal(units_convert(UINT32_MAX, 1024, 1), UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units_of_gpu_rounds_down),
		cmocka_unit_test(units_of_gpu_survives_a_unit_of_zero_and_absurd_gpus),
		cmocka_unit_test(units_add_stops_at_the_top),
		cmocka_unit_test(units_convert_keeps_the_memory_and_rounds_up),
		cmocka_unit_test(unit_parse_knows_the_four_units_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
