#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "cli/ui/stranded.h"

/* The kinds, ended by one without units. */
static void expect(const struct stranded_kind *kinds, const struct stranded_gpu *gpus, size_t n_gpus,
	const uint32_t *expected)
{
	struct stranded stranded;
	uint32_t units[8];

	stranded_init(&stranded);
	for (; kinds->units; kinds++)
		stranded_add_kind(&stranded, kinds);
	assert_int_equal(stranded_find(&stranded, gpus, n_gpus, units), 0);
	for (size_t i = 0; i < n_gpus; i++)
		assert_int_equal(units[i], expected[i]);
	stranded_release(&stranded);
}

static void expect_one(const struct stranded_kind *kinds, struct stranded_gpu gpu, uint32_t expected)
{
	expect(kinds, &gpu, 1, &expected);
}

static void memory_that_no_kind_fits_into_is_stranded(void **state)
{
	static const struct stranded_kind kinds[] = {{12, 0, 1}, {5, 0, 1}, {0}};

	expect_one(kinds, (struct stranded_gpu){.free = 4, .core = 100}, 4);
	expect_one(kinds, (struct stranded_gpu){.free = 5, .core = 100}, 0);
	expect_one(kinds, (struct stranded_gpu){.free = 0, .core = 100}, 0);
}

static void several_pods_together_fill_what_they_can(void **state)
{
	static const struct stranded_kind kinds[] = {{3, 0, 1}, {5, 0, 1}, {0}};

	expect_one(kinds, (struct stranded_gpu){.free = 7, .core = 100}, 1); /* 3 + 3 */
	expect_one(kinds, (struct stranded_gpu){.free = 8, .core = 100}, 0); /* 3 + 5 */
	expect_one(
		kinds, (struct stranded_gpu){.free = 14, .core = 100}, 0); /* 3 + 3 + 3 + 5; not 5 + 5 + 3 */
}

static void memory_without_computing_power_is_stranded(void **state)
{
	static const struct stranded_kind kinds[] = {{4, 30, 1}, {0}};

	expect_one(kinds, (struct stranded_gpu){.free = 12, .core = 25}, 12);
	expect_one(kinds, (struct stranded_gpu){.free = 12, .core = 30}, 8);
	expect_one(kinds, (struct stranded_gpu){.free = 12, .core = 89}, 4);
	expect_one(kinds, (struct stranded_gpu){.free = 12, .core = 90}, 0);
}

static void a_kind_of_little_computing_power_uses_what_another_leaves(void **state)
{
	static const struct stranded_kind kinds[] = {{10, 50, 1}, {1, 5, 1}, {0}};

	/* 10 with 50 percent, then 2 with 5 percent each. */
	expect_one(kinds, (struct stranded_gpu){.free = 15, .core = 60}, 3);
}

static void a_kind_for_several_gpus_needs_that_many_with_room(void **state)
{
	static const struct stranded_kind kinds[] = {{6, 0, 2}, {0}};
	const struct stranded_gpu one[] = {{.free = 8, .core = 100}, {.free = 5, .core = 100}};
	const struct stranded_gpu two[] = {
		{.free = 8, .core = 100}, {.free = 6, .core = 100}, {.free = 2, .core = 100}};
	const struct stranded_gpu ill[] = {
		{.free = 8, .core = 100}, {.free = 6, .core = 100, .closed = true}};

	expect(kinds, one, 2, (const uint32_t[]){8, 5});
	expect(kinds, two, 3, (const uint32_t[]){2, 0, 2});
	expect(kinds, ill, 2, (const uint32_t[]){8, 6});
}

static void a_gpu_that_takes_no_pods_strands_everything(void **state)
{
	static const struct stranded_kind kinds[] = {{1, 0, 1}, {0}};

	expect_one(kinds, (struct stranded_gpu){.free = 9, .core = 100, .closed = true}, 9);
}

static void without_any_pod_nothing_open_is_called_stranded(void **state)
{
	expect_one((const struct stranded_kind[]){{0}}, (struct stranded_gpu){.free = 9, .core = 100}, 0);
	expect_one((const struct stranded_kind[]){{0}},
		(struct stranded_gpu){.free = 9, .core = 100, .closed = true}, 9);
}

static void of_too_many_kinds_the_smallest_count(void **state)
{
	struct stranded stranded;
	const struct stranded_gpu gpu = {.free = 9, .core = 100};
	uint32_t units;

	stranded_init(&stranded);
	for (uint32_t i = 0; i < 3 * STRANDED_KINDS_MAX; i++)
		stranded_add_kind(&stranded, &(struct stranded_kind){1000 - i, 0, 1});
	assert_int_equal(stranded.n_kinds, STRANDED_KINDS_MAX);
	assert_int_equal(stranded_find(&stranded, &gpu, 1, &units), 0);
	assert_int_equal(units, 9);
	stranded_add_kind(&stranded, &(struct stranded_kind){9, 0, 1});
	assert_int_equal(stranded.n_kinds, STRANDED_KINDS_MAX);
	assert_int_equal(stranded_find(&stranded, &gpu, 1, &units), 0);
	assert_int_equal(units, 0);
	stranded_release(&stranded);
}

static void gpus_of_any_size_are_answered(void **state)
{
	static const struct stranded_kind kinds[] = {{7, 0, 1}, {0}};
	const struct stranded_gpu gpus[] = {{.free = 10, .core = 1000}, {.free = 70000, .core = 100}};

	expect(kinds, &gpus[0], 1, (const uint32_t[]){3});
	/* 65536 units are looked at, of which 9362 pods fill 65534. */
	expect(kinds, gpus, 2, (const uint32_t[]){3, 70000 - 65534});
}

/* More sets of kinds than tables are kept: each answer is still that of its own set. */
static void the_answer_does_not_depend_on_what_was_asked_before(void **state)
{
	struct stranded stranded;
	uint32_t units[8];

	stranded_init(&stranded);
	for (uint32_t i = 0; i < 6; i++)
		stranded_add_kind(&stranded, &(struct stranded_kind){10 + i, 0, 2 + i});
	for (int round = 0; round < 3; round++)
		for (uint32_t n = 1; n <= 7; n++) {
			struct stranded_gpu gpus[7];

			for (uint32_t i = 0; i < n; i++)
				gpus[i] = (struct stranded_gpu){.free = 15, .core = 100};
			assert_int_equal(stranded_find(&stranded, gpus, n, units), 0);
			/* With n GPUs, the largest kind that fits has 8 + n units. */
			assert_int_equal(units[n - 1], n == 1 ? 15 : 15 - (8 + n));
		}
	stranded_release(&stranded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_that_no_kind_fits_into_is_stranded),
		cmocka_unit_test(several_pods_together_fill_what_they_can),
		cmocka_unit_test(memory_without_computing_power_is_stranded),
		cmocka_unit_test(a_kind_of_little_computing_power_uses_what_another_leaves),
		cmocka_unit_test(a_kind_for_several_gpus_needs_that_many_with_room),
		cmocka_unit_test(a_gpu_that_takes_no_pods_strands_everything),
		cmocka_unit_test(without_any_pod_nothing_open_is_called_stranded),
		cmocka_unit_test(of_too_many_kinds_the_smallest_count),
		cmocka_unit_test(gpus_of_any_size_are_answered),
		cmocka_unit_test(the_answer_does_not_depend_on_what_was_asked_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
