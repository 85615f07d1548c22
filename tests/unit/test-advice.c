#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cli/advise/advice.h"

#define MIB (UINT64_C(1) << 20)
#define V100                                                                                                 \
	16160 /* 15 units of 1 GiB; n of them are floor(16160 * n / 15) MiB: 1077, 2154, 3232, 4309, 5386    \
		 ... */

static const struct advice_terms terms = {.margin = 10, .min_age_s = 600};

static struct advice_gpu gpu(uint32_t units, uint64_t peak_mib)
{
	return (struct advice_gpu){
		.mib = V100, .units = units, .peak_bytes = peak_mib * MIB, .free = 15 - units};
}

static struct advice_facts of(const struct advice_gpu *gpus, size_t n)
{
	return (struct advice_facts){.gpus = gpus, .n_gpus = n, .unit_mib = 1024, .seen_s = 600};
}

static void expect(const struct advice_facts *facts, enum advice_kind kind, uint32_t units)
{
	struct advice advice = advise_container(facts, &terms);

	assert_int_equal(advice.kind, kind);
	assert_int_equal(advice.units, units);
}

static void expect_one(const struct advice_gpu *gpu, uint64_t refused, enum advice_kind kind, uint32_t units)
{
	struct advice_facts facts = of(gpu, 1);

	facts.refused = refused;
	expect(&facts, kind, units);
}

static void a_pod_that_uses_much_less_should_have_its_peak_and_the_margin(void **state)
{
	struct advice_gpu one = gpu(8, 2900); /* 3190 with the margin, 3 units are 3232 */

	expect_one(&one, 0, ADVICE_LESS, 3);
	one.peak_bytes = 2940 * MIB; /* 3234 */
	expect_one(&one, 0, ADVICE_LESS, 4);
}

static void a_pod_that_used_nothing_keeps_one_unit(void **state)
{
	struct advice_gpu one = gpu(8, 0);

	expect_one(&one, 0, ADVICE_LESS, 1);
	one.units = 1;
	expect_one(&one, 0, ADVICE_KEEP, 1);
}

static void present_use_counts_even_if_the_peak_does_not_know_it(void **state)
{
	struct advice_gpu one = gpu(8, 1000);

	one.used_bytes = 5000 * MIB; /* 5500: 6 units are 6464 */
	expect_one(&one, 0, ADVICE_LESS, 6);
}

static void less_than_a_tenth_is_not_worth_a_command(void **state)
{
	struct advice_gpu ten = gpu(10, 8700),
			  eleven = gpu(11, 9700); /* 9570: 9 units are 9696; 10670: 10 are 10773 */

	expect_one(&ten, 0, ADVICE_LESS, 9);
	expect_one(&eleven, 0, ADVICE_KEEP, 11);
}

static void a_full_pod_that_was_refused_nothing_keeps_what_it_has(void **state)
{
	struct advice_gpu one = gpu(3, 3232);

	expect_one(&one, 0, ADVICE_KEEP, 3);
	one.peak_bytes = 4000 * MIB; /* past its limit, or the limit became smaller */
	expect_one(&one, 0, ADVICE_KEEP, 3);
}

static void a_pod_that_was_refused_memory_should_have_what_it_wanted(void **state)
{
	struct advice_gpu one = gpu(2, 2000);

	one.wanted_bytes = 4000 * MIB; /* 4400: 5 units are 5386 */
	expect_one(&one, 3, ADVICE_MORE, 5);
	one.free = 2;
	expect_one(&one, 3, ADVICE_MORE, 4);
	one.free = 0;
	expect_one(&one, 3, ADVICE_NO_ROOM, 2);
}

static void a_pod_that_has_since_got_what_it_wanted_keeps_it(void **state)
{
	struct advice_gpu one = gpu(5, 2000);

	one.wanted_bytes = 4000 * MIB;
	expect_one(&one, 3, ADVICE_KEEP, 5);
	one.units = 8;
	expect_one(&one, 3, ADVICE_LESS, 5);
}

static void no_container_should_have_more_than_the_gpu(void **state)
{
	struct advice_gpu one = gpu(14, 15000), whole = gpu(15, 16000);

	one.wanted_bytes = UINT64_MAX;
	expect_one(&one, 1, ADVICE_MORE, 15);
	whole.wanted_bytes = UINT64_MAX;
	expect_one(&whole, 1, ADVICE_KEEP, 15);
}

static void a_whole_gpu_that_is_hardly_used_can_be_shared(void **state)
{
	struct advice_gpu whole = gpu(15, 6000); /* 6600: 7 units are 7541 */

	expect_one(&whole, 0, ADVICE_LESS, 7);
}

static void several_gpus_get_equal_parts_by_the_one_that_needs_most(void **state)
{
	struct advice_gpu two[] = {gpu(6, 1000), gpu(6, 3000)}; /* 3300: 4 units */
	struct advice_facts facts = of(two, 2);

	expect(&facts, ADVICE_LESS, 8);
	two[0].wanted_bytes = 7000 * MIB; /* 7700: 8 units */
	facts.refused = 1;
	expect(&facts, ADVICE_MORE, 16);
	two[1].free = 1;
	expect(&facts, ADVICE_MORE, 14);
	two[1].free = 0;
	expect(&facts, ADVICE_NO_ROOM, 12);
}

static void small_units_are_counted_as_the_node_does(void **state)
{
	/* 126 units of 128 MiB; n are floor(16160 * n / 126) MiB. 1100 MiB: 9 are 1154. */
	struct advice_gpu one = gpu(64, 1000);
	struct advice_facts facts = of(&one, 1);

	facts.unit_mib = 128;
	expect(&facts, ADVICE_LESS, 9);
}

static void who_is_young_or_has_a_claim_gets_no_advice(void **state)
{
	struct advice_gpu one = gpu(8, 100);
	struct advice_facts facts = of(&one, 1);

	facts.seen_s = 599;
	expect(&facts, ADVICE_YOUNG, 8);
	facts.is_claim = true;
	expect(&facts, ADVICE_CLAIM, 8);
	facts = of(NULL, 0);
	expect(&facts, ADVICE_KEEP, 0);
}

static void without_a_limit_a_pod_should_have_more_if_it_used_more(void **state)
{
	struct advice_gpu one = gpu(3, 3232), two[] = {gpu(3, 100), gpu(3, 5000)};
	struct advice_facts facts = of(&one, 1), both = of(two, 2);

	facts.unlimited = both.unlimited = true;
	expect(&facts, ADVICE_KEEP, 3); /* all of 3 units, and the margin is only a margin */
	one.peak_bytes++;
	one.free = 0; /* it runs on another GPU the next time, or waits */
	expect(&facts, ADVICE_MORE, 4);
	one.peak_bytes = 1000 * MIB;
	expect(&facts, ADVICE_LESS, 2);
	expect(&both, ADVICE_MORE, 12); /* 5500: 6 units of each */
	one = gpu(15, V100 + 1);	/* no GPU is larger */
	expect(&facts, ADVICE_KEEP, 15);
}

static void what_is_used_must_fit_on_each_gpu(void **state)
{
	struct advice_gpu two[] = {gpu(6, 0), gpu(6, 0)};
	struct advice_facts facts = of(two, 2);

	two[1].used_bytes = 2154 * MIB;
	assert_true(advise_fits(&facts, 4));
	two[1].used_bytes = 2154 * MIB + 1;
	assert_false(advise_fits(&facts, 4));
	assert_true(advise_fits(&facts, 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_that_uses_much_less_should_have_its_peak_and_the_margin),
		cmocka_unit_test(a_pod_that_used_nothing_keeps_one_unit),
		cmocka_unit_test(present_use_counts_even_if_the_peak_does_not_know_it),
		cmocka_unit_test(less_than_a_tenth_is_not_worth_a_command),
		cmocka_unit_test(a_full_pod_that_was_refused_nothing_keeps_what_it_has),
		cmocka_unit_test(a_pod_that_was_refused_memory_should_have_what_it_wanted),
		cmocka_unit_test(a_pod_that_has_since_got_what_it_wanted_keeps_it),
		cmocka_unit_test(no_container_should_have_more_than_the_gpu),
		cmocka_unit_test(a_whole_gpu_that_is_hardly_used_can_be_shared),
		cmocka_unit_test(several_gpus_get_equal_parts_by_the_one_that_needs_most),
		cmocka_unit_test(small_units_are_counted_as_the_node_does),
		cmocka_unit_test(who_is_young_or_has_a_claim_gets_no_advice),
		cmocka_unit_test(without_a_limit_a_pod_should_have_more_if_it_used_more),
		cmocka_unit_test(what_is_used_must_fit_on_each_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
