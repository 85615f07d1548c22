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

static void limit_is_the_containers_share_of_the_gpu_in_whole_mib(void **state)
{
	static const struct {
		uint64_t gpu, units, unit, mib;
	} cases[] = {
		/* the documents' */
		{16160, 2, 1024, 2154},
		{15079, 3, 1024, 3231},
		{16130, 4, 1024, 4301},
		{16160, 15, 1024, 16160},
		{16160, 1, 1024, 1077},	  /* 1077.33 */
		{16160, 1, 128, 128},	  /* 126 units: 128.25 */
		{16160, 20, 1024, 16160}, /* a GPU that has shrunk since */
		{512, 1, 1024, 512},	  /* has no whole unit */
		{UINT64_C(1) << 40, 1, 1024, 1024},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(
			units_limit_bytes(cases[i].gpu, (uint32_t)cases[i].units, (uint32_t)cases[i].unit),
			cases[i].mib << 20);
}

static void units_for_bytes_is_the_inverse_of_the_limit(void **state)
{
	static const uint32_t sizes[] = {128, 256, 1024};
	static const uint64_t gpus[] = {1000, 16160, 144384};

	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			for (uint32_t u = 1; u < units_of_gpu(gpus[k], sizes[i]); u++) {
				uint64_t limit = units_limit_bytes(gpus[k], u, sizes[i]);

				assert_int_equal(units_for_bytes(gpus[k], limit, sizes[i]), u);
				assert_int_equal(units_for_bytes(gpus[k], limit + 1, sizes[i]), u + 1);
			}
	assert_int_equal(units_for_bytes(16160, 0, 1024), 1);
	assert_int_equal(units_for_bytes(16160, UINT64_MAX, 1024), 15);
	assert_int_equal(units_for_bytes(0, 5, 1024), 1); /* the GPU is gone */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units_of_gpu_rounds_down),
		cmocka_unit_test(units_of_gpu_survives_a_unit_of_zero_and_absurd_gpus),
		cmocka_unit_test(units_add_stops_at_the_top),
		cmocka_unit_test(limit_is_the_containers_share_of_the_gpu_in_whole_mib),
		cmocka_unit_test(units_for_bytes_is_the_inverse_of_the_limit),
		cmocka_unit_test(units_convert_keeps_the_memory_and_rounds_up),
		cmocka_unit_test(unit_parse_knows_the_four_units_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
