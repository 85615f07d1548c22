#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "model/shares.h"

#define PERCENT (SHARE_WHOLE / 100)

static uint64_t sum_of(const uint32_t *shares, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += shares[i];
	return sum;
}

static void fair_share_gives_each_the_same_small_part_whoever_is_there(void **state)
{
	const struct share_holder holders[] = {{.weight = 9}, {.busy = true}};
	uint32_t shares[2];

	shares_compute(SHARE_FAIR, 20, holders, 1, shares);
	assert_int_equal(shares[0], 5 * PERCENT);
	shares_compute(SHARE_FAIR, 16, holders, 2, shares);
	assert_int_equal(shares[0], SHARE_WHOLE / 16);
	assert_int_equal(shares[1], SHARE_WHOLE / 16);
	shares_compute(SHARE_FAIR, 0, holders, 1, shares);
	assert_int_equal(shares[0], 5 * PERCENT);
}

static void preemptive_divides_by_number_idle_or_not(void **state)
{
	const struct share_holder holders[4] = {{.weight = 3}, {.busy = true}};
	uint32_t shares[4];

	shares_compute(SHARE_PREEMPTIVE, 20, holders, 4, shares);
	for (int i = 0; i < 4; i++)
		assert_int_equal(shares[i], 25 * PERCENT);
	shares_compute(SHARE_PREEMPTIVE, 20, holders, 1, shares);
	assert_int_equal(shares[0], SHARE_WHOLE);
}

static void weights_divide_the_gpu_whatever_is_idle(void **state)
{
	struct share_holder holders[] = {{.weight = 5}, {.weight = 5}, {.weight = 10}};
	uint32_t shares[3];

	for (int busy = 0; busy < 8; busy++) {
		for (int i = 0; i < 3; i++)
			holders[i].busy = busy >> i & 1;
		shares_compute(SHARE_WEIGHT, 20, holders, 3, shares);
		assert_int_equal(shares[0], 25 * PERCENT);
		assert_int_equal(shares[1], 25 * PERCENT);
		assert_int_equal(shares[2], 50 * PERCENT);
	}
}

static void who_names_no_weight_has_the_weight_one(void **state)
{
	const struct share_holder holders[] = {{0}, {.weight = 3}};
	uint32_t shares[2];

	shares_compute(SHARE_WEIGHT, 20, holders, 2, shares);
	assert_int_equal(shares[0], 25 * PERCENT);
	assert_int_equal(shares[1], 75 * PERCENT);
}

static void a_percentage_is_the_weight_and_no_other_is_heard(void **state)
{
	const struct share_holder holders[] = {{.percent = 10, .weight = 1000}, {.percent = 30}};
	uint32_t shares[2];

	shares_compute(SHARE_WEIGHT, 20, holders, 2, shares);
	assert_int_equal(shares[0], 25 * PERCENT);
	assert_int_equal(shares[1], 75 * PERCENT);
}

static void weights_of_others_take_nobody_below_its_percentage(void **state)
{
	const struct share_holder holders[] = {
		{.percent = 30}, {.percent = 20}, {.weight = 300}, {.weight = 100}};
	uint32_t shares[4];

	shares_compute(SHARE_WEIGHT, 20, holders, 4, shares);
	assert_int_equal(shares[0], 30 * PERCENT);
	assert_int_equal(shares[1], 20 * PERCENT);
	assert_int_equal(shares[2], 50 * PERCENT * 3 / 4);
	assert_int_equal(shares[3], 50 * PERCENT / 4);
}

static void a_percentage_holds_under_every_policy_but_weight_and_soft(void **state)
{
	static const enum share_policy policies[] = {SHARE_FAIR, SHARE_PREEMPTIVE, SHARE_FIXED, SHARE_NATIVE};
	const struct share_holder holders[] = {{.percent = 30, .weight = 7}, {.percent = 5, .busy = true}};
	uint32_t shares[2];

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		shares_compute(policies[i], 20, holders, 2, shares);
		assert_int_equal(shares[0], 30 * PERCENT);
		assert_int_equal(shares[1], 5 * PERCENT);
	}
}

static void without_a_percentage_fixed_and_native_control_nothing(void **state)
{
	const struct share_holder holders[] = {{.weight = 7}, {.busy = true}};
	uint32_t shares[2] = {1, 1};

	shares_compute(SHARE_FIXED, 20, holders, 2, shares);
	assert_int_equal(sum_of(shares, 2), 0);
	shares[0] = shares[1] = 1;
	shares_compute(SHARE_NATIVE, 20, holders, 2, shares);
	assert_int_equal(sum_of(shares, 2), 0);
}

static void those_without_a_percentage_divide_what_the_others_leave(void **state)
{
	const struct share_holder holders[] = {{.percent = 60}, {0}, {0}};
	uint32_t shares[3];

	for (enum share_policy policy = SHARE_FAIR; policy < SHARE_POLICY_MAX; policy++) {
		if (policy == SHARE_WEIGHT || policy == SHARE_SOFT)
			continue;
		shares_compute(policy, 20, holders, 3, shares);
		assert_int_equal(shares[0], 60 * PERCENT);
		assert_int_equal(shares[1], (policy == SHARE_FAIR ? 5 : 20) * PERCENT);
		assert_int_equal(shares[2], shares[1]);
	}
}

static void soft_gives_the_gpu_to_those_that_have_work(void **state)
{
	const struct share_holder holders[] = {
		{.weight = 5, .busy = true}, {.weight = 5, .busy = true}, {.weight = 10}};
	uint32_t shares[3];

	shares_compute(SHARE_SOFT, 20, holders, 3, shares);
	assert_int_equal(shares[0], 50 * PERCENT);
	assert_int_equal(shares[1], 50 * PERCENT);
	shares_compute(SHARE_SOFT, 20, holders, 1, shares);
	assert_int_equal(shares[0], SHARE_WHOLE);
}

static void who_is_idle_under_soft_keeps_what_it_has_when_all_have_work(void **state)
{
	struct share_holder holders[] = {{.weight = 5, .busy = true}, {.weight = 5}, {.weight = 10}};
	uint32_t shares[3];

	shares_compute(SHARE_SOFT, 20, holders, 3, shares);
	assert_int_equal(shares[0], SHARE_WHOLE);
	assert_int_equal(shares[1], 25 * PERCENT);
	assert_int_equal(shares[2], 50 * PERCENT);
	holders[1].busy = holders[2].busy = true;
	shares_compute(SHARE_SOFT, 20, holders, 3, shares);
	assert_int_equal(shares[0], 25 * PERCENT);
	assert_int_equal(shares[1], 25 * PERCENT);
	assert_int_equal(shares[2], 50 * PERCENT);
}

/* 30 % and 10 % of three that have 60 %: what is left goes by the same numbers. */
static void soft_guarantees_percentages_and_divides_the_rest(void **state)
{
	struct share_holder holders[] = {
		{.percent = 30, .busy = true}, {.percent = 10, .busy = true}, {.percent = 20}};
	uint32_t shares[3];

	shares_compute(SHARE_SOFT, 20, holders, 3, shares);
	assert_int_equal(shares[0], 75 * PERCENT);
	assert_int_equal(shares[1], 25 * PERCENT);
	/* 20 %, and 20 of 60 parts of the 40 % that nobody asked for */
	assert_int_equal(shares[2], 20 * PERCENT + 40 * PERCENT / 3);
	holders[1].weight = 30; /* of the 60 % that are left, as much as the other */
	shares_compute(SHARE_SOFT, 20, holders, 3, shares);
	assert_int_equal(shares[0], 60 * PERCENT);
	assert_int_equal(shares[1], 40 * PERCENT);
}

static void nobody_who_is_controlled_has_nothing(void **state)
{
	const struct share_holder heavy[] = {
		{.weight = SHARE_WEIGHT_MAX, .busy = true}, {.weight = 1, .busy = true}};
	const struct share_holder full[] = {{.percent = 100, .busy = true}, {.busy = true}};
	uint32_t shares[2];

	for (enum share_policy policy = SHARE_FAIR; policy < SHARE_POLICY_MAX; policy++) {
		shares_compute(policy, 20, full, 2, shares);
		assert_true(shares[1] >= SHARE_LEAST);
		assert_true(sum_of(shares, 2) <= SHARE_WHOLE);
		assert_true(shares[0] >= 98 * PERCENT);
	}
	shares_compute(SHARE_WEIGHT, 20, heavy, 2, shares);
	assert_int_equal(shares[1], SHARE_LEAST);
	assert_true(sum_of(shares, 2) <= SHARE_WHOLE);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Whatever is asked, forged percentages over the GPU's included. */
static void those_that_have_work_never_have_more_than_the_gpu(void **state)
{
	uint32_t seed = 7;

	for (int round = 0; round < 20000; round++) {
		struct share_holder holders[40];
		uint32_t shares[40];
		size_t n = 1 + next_random(&seed) % 40;
		enum share_policy policy = (enum share_policy)(next_random(&seed) % SHARE_POLICY_MAX);
		uint64_t sum = 0;

		for (size_t i = 0; i < n; i++) {
			uint32_t kind = next_random(&seed) % 3;

			holders[i] = (struct share_holder){
				.percent = kind == 0 ? next_random(&seed) % 101 : 0,
				.weight = kind == 1 ? next_random(&seed) % (SHARE_WEIGHT_MAX + 1) : 0,
				.busy = policy != SHARE_SOFT || next_random(&seed) % 2,
			};
		}
		shares_compute(policy, (uint32_t)n, holders, n, shares);
		for (size_t i = 0; i < n; i++) {
			sum += holders[i].busy ? shares[i] : 0;
			assert_true(shares[i] <= SHARE_WHOLE);
			assert_true(shares[i] == 0 || shares[i] >= SHARE_LEAST - 1);
			assert_true(shares[i] != 0 || policy == SHARE_FIXED || policy == SHARE_NATIVE);
		}
		assert_true(sum <= SHARE_WHOLE);
	}
}

static void a_crowd_beyond_all_limits_gets_the_least(void **state)
{
	static struct share_holder holders[SHARE_HOLDERS_MAX + 2];
	static uint32_t shares[SHARE_HOLDERS_MAX + 2];

	shares_compute(SHARE_PREEMPTIVE, 20, holders, ARRAY_SIZE(holders), shares);
	assert_int_equal(shares[0], SHARE_WHOLE / SHARE_HOLDERS_MAX);
	assert_int_equal(shares[SHARE_HOLDERS_MAX], SHARE_LEAST);
	assert_int_equal(shares[SHARE_HOLDERS_MAX + 1], SHARE_LEAST);
	shares_compute(SHARE_PREEMPTIVE, 20, NULL, 0, NULL);
}

static void policies_are_the_digits_0_to_5(void **state)
{
	static const char *const wrong[] = {"", "6", "-1", "4 ", "soft", "04"};
	enum share_policy policy = SHARE_NATIVE;

	assert_int_equal(share_policy_parse("4", &policy), 0);
	assert_int_equal(policy, SHARE_SOFT);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_int_equal(share_policy_parse(wrong[i], &policy), -EINVAL);
		assert_int_equal(policy, SHARE_SOFT);
	}
	assert_string_equal(share_policy_name(SHARE_FAIR), "fair-share");
	assert_string_equal(share_policy_name(SHARE_NATIVE), "native");
}

static void weights_are_whole_positive_numbers(void **state)
{
	static const char *const wrong[] = {"", "0", "-1", "1.5", "10001", "99999999999999999999", "x"};
	uint32_t weight = 77;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_int_equal(share_weight_parse(wrong[i], &weight), -EINVAL);
		assert_int_equal(weight, 77);
	}
	assert_int_equal(share_weight_parse("10000", &weight), 0);
	assert_int_equal(weight, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fair_share_gives_each_the_same_small_part_whoever_is_there),
		cmocka_unit_test(preemptive_divides_by_number_idle_or_not),
		cmocka_unit_test(weights_divide_the_gpu_whatever_is_idle),
		cmocka_unit_test(who_names_no_weight_has_the_weight_one),
		cmocka_unit_test(a_percentage_is_the_weight_and_no_other_is_heard),
		cmocka_unit_test(weights_of_others_take_nobody_below_its_percentage),
		cmocka_unit_test(a_percentage_holds_under_every_policy_but_weight_and_soft),
		cmocka_unit_test(without_a_percentage_fixed_and_native_control_nothing),
		cmocka_unit_test(those_without_a_percentage_divide_what_the_others_leave),
		cmocka_unit_test(soft_gives_the_gpu_to_those_that_have_work),
		cmocka_unit_test(who_is_idle_under_soft_keeps_what_it_has_when_all_have_work),
		cmocka_unit_test(soft_guarantees_percentages_and_divides_the_rest),
		cmocka_unit_test(nobody_who_is_controlled_has_nothing),
		cmocka_unit_test(those_that_have_work_never_have_more_than_the_gpu),
		cmocka_unit_test(a_crowd_beyond_all_limits_gets_the_least),
		cmocka_unit_test(policies_are_the_digits_0_to_5),
		cmocka_unit_test(weights_are_whole_positive_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
