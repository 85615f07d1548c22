/* What a launch costs, from samples that are too long in most cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/pacing-constants.h"
#include "shim/pacing-cost.h"

#define RESOLUTION 500 /* what is added to a sample of a launch by itself, see there */

static uint64_t next_key = 1;

/* One that nobody had. */
static struct cost *fresh(uint64_t *ret_key)
{
	next_key += 2;
	*ret_key = cost_key(&next_key, 1);
	return cost_find(*ret_key, 1);
}

static void in_a_row(struct cost *cost, uint64_t key, uint64_t ns)
{
	cost_sample(cost, key, cost_version(cost), COST_IN_A_ROW, ns, COST_FACTOR_ONE);
}

static int compare_keys(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Functions lie some bytes apart, grids and blocks are small numbers, often powers of two. */
static void what_differs_in_one_number_has_another_key_and_another_place(void **state)
{
	enum { FUNCTIONS = 16, GRIDS = 32, BLOCKS = 16, KEYS = FUNCTIONS * GRIDS * BLOCKS };
	static uint64_t keys[KEYS];
	unsigned places[512] = {0}, fullest = 0, n = 0;

	for (uint64_t i = 0; i < FUNCTIONS; i++)
		for (uint64_t grid = 1; grid <= GRIDS; grid++)
			for (uint64_t block = 0; block < BLOCKS; block++)
				keys[n++] = cost_key(
					(uint64_t[]){0x5580000000 + i * 16, grid | UINT64_C(1) << 32,
						1 | UINT64_C(1) << (32 + block % 10), 1 | UINT64_C(1) << 32,
						block / 10 * 1024, 0, 0},
					COST_KEY_WORDS);
	for (unsigned i = 0; i < n; i++)
		places[(keys[i] >> 40) % 512]++;
	for (unsigned i = 0; i < 512; i++)
		fullest = places[i] > fullest ? places[i] : fullest;
	assert_in_range(fullest, KEYS / 512, KEYS / 512 * 3); /* 16 on average: 48 by chance never */
	qsort(keys, n, sizeof(keys[0]), compare_keys);
	for (unsigned i = 1; i < n; i++)
		assert_true(keys[i] != keys[i - 1] && keys[i] % 2 == 1);
}

static void what_was_measured_once_is_known(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	assert_int_equal(cost_ns(cost), 0);
	in_a_row(cost, key, 200000);
	assert_int_equal(cost_ns(cost), 200000);
	assert_ptr_equal(cost_find(key, 2), cost);
}

static void samples_that_others_have_stretched_do_not_count(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	/* 1 ms, and slices of 2 ms in between. */
	for (int i = 0; i < 100; i++)
		in_a_row(cost, key, i % 4 ? 1000000 + (uint64_t)(i % 4) * 2000000 : 1000000);
	assert_in_range(cost_ns(cost), 1000000, 1010000);
}

static void a_duration_that_varies_costs_its_mean(void **state)
{
	uint64_t key, sum = 0;
	struct cost *cost = fresh(&key);
	unsigned seed = 3;

	for (int i = 0; i < 2000; i++) {
		in_a_row(cost, key, 800000 + (uint64_t)rand_r(&seed) % 400000);
		sum += cost_ns(cost);
	}
	assert_in_range(sum / 2000, 950000, 1030000);
}

static void a_function_that_does_more_costs_more_soon(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	for (int i = 0; i < 50; i++)
		in_a_row(cost, key, 1000000);
	for (int i = 0; i < 40; i++)
		in_a_row(cost, key, 5000000);
	assert_in_range(cost_ns(cost), 4800000, 5000000);
	for (int i = 0; i < 40; i++)
		in_a_row(cost, key, 1000000);
	assert_in_range(cost_ns(cost), 1000000, 1100000);
}

/* A launch of some ms by itself, where the keeper has corrected the share by so many percent. */
static int64_t alone(struct cost *cost, uint64_t key, uint64_t ns, uint32_t percent)
{
	return cost_sample(cost, key, cost_version(cost), COST_ALONE, ns, COST_FACTOR_ONE / 100 * percent);
}

static void a_long_launch_costs_what_it_took_once_without_others(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	for (int i = 0; i < 20; i++)
		alone(cost, key, 20000000, 101);
	alone(cost, key, 5000000, 101);
	for (int i = 0; i < 1000; i++)
		alone(cost, key, 9000000, 101);
	assert_in_range(cost_ns(cost), 5000000, 5100000);
	assert_int_equal(cost_of(cost, 9000000), 0);
	assert_in_range(cost_of(cost, 4000000), 4000000, 4100000);
}

/* Others whose work ends in the middle of a slice stretch it by anything. */
static void what_is_stretched_a_little_does_not_let_the_cost_creep_upwards(void **state)
{
	uint64_t key, sum = 0;
	struct cost *cost = fresh(&key);
	unsigned seed = 5;

	alone(cost, key, 5000000, 101);
	for (int i = 0; i < 5000; i++) {
		alone(cost, key, 5000000 + (uint64_t)rand_r(&seed) % 10000000, 101);
		sum += cost_ns(cost);
	}
	/* What lies between 5 and 7.5 ms is taken for one duration that varies. */
	assert_in_range(sum / 5000, 6100000, 6400000);
}

/* A launch that always takes the same: a slice of somebody else's is no variation, though it is less than
 * half of it. */
static void what_never_varied_is_not_taken_for_longer_beside_others(void **state)
{
	uint64_t key = cost_key((uint64_t[]){37}, 1);
	struct cost *cost = cost_find(key, 0);

	for (int i = 0; i < 20; i++)
		alone(cost, key, 5000000, 100);
	for (int i = 0; i < 200; i++) {
		alone(cost, key, i % 3 ? 7000000 : 5000000, 100);
		assert_in_range(cost_ns(cost), 4990000, 5010000);
	}
	/* It does as much as those were long now, and the keeper sees it. */
	for (int i = 0; i < 400; i++)
		alone(cost, key, 7000000, cost_ns(cost) < 6900000 ? 80 : 100);
	assert_in_range(cost_ns(cost), 6800000, 7100000);
}

static void a_long_launch_that_does_more_costs_more_once_the_keeper_sees_it(void **state)
{
	/* Far less than was granted, and a driver that tells nothing. */
	static const uint32_t corrected[] = {60, 100};

	for (int k = 0; k < 2; k++) {
		uint64_t key;
		struct cost *cost = fresh(&key);

		for (int i = 0; i < 50; i++)
			alone(cost, key, 5000000, 100);
		for (int i = 0; i < 300; i++)
			alone(cost, key, 20000000, corrected[k]);
		assert_in_range(cost_ns(cost), 19000000, 20100000);
	}
}

static void what_the_keeper_has_made_up_for_is_not_taken_back_at_once(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	for (int i = 0; i < 20; i++)
		alone(cost, key, 9000000, 180);
	/* 9 ms at 1.8 times the share is what 5 ms are at the share. */
	for (int i = 0; i < 100; i++)
		alone(cost, key, 5000000, 180);
	assert_in_range(cost_ns(cost), 8500000, 9000000);
	for (int i = 0; i < 20000; i++)
		alone(cost, key, 5000000, 100);
	assert_in_range(cost_ns(cost), 5000000, 5100000);
}

static void what_a_stretched_first_sample_charged_is_given_back(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);
	uint32_t unknown;

	cost_start(cost, 2, &unknown);
	assert_int_equal(alone(cost, key, 100000000, 100), 2 * (100000000 + RESOLUTION - COST_GUESS_NS));
	assert_true(cost_is_unsure(cost));
	assert_int_equal(alone(cost, key, 5000000, 100), 2 * (5000000 - (100000000 + RESOLUTION)));
	assert_int_equal(alone(cost, key, 5000000, 100), 0);
	for (int i = 0; i < 10; i++)
		alone(cost, key, 5000000, 100);
	assert_false(cost_is_unsure(cost));
}

static void the_better_way_to_measure_counts(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	for (int i = 0; i < 100; i++) {
		cost_sample(cost, key, 0, COST_ALONE, 12000, COST_FACTOR_ONE); /* with 10 us on its way */
		in_a_row(cost, key, 2000);
	}
	assert_in_range(cost_ns(cost), 2000, 2010);
	cost = fresh(&key);
	for (int i = 0; i < 100; i++) {
		cost_sample(cost, key, 0, COST_ALONE, 12000, COST_FACTOR_ONE);
		in_a_row(cost, key, 50000); /* with pauses */
	}
	assert_in_range(cost_ns(cost), 12000 + RESOLUTION, 12010 + RESOLUTION);
}

static void a_way_that_nothing_comes_by_any_more_counts_no_more(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	for (uint32_t now = 1; now < 10; now++) {
		cost_find(key, now);
		in_a_row(cost, key, 2000);
	}
	for (uint32_t now = 100; now < 150; now++) {
		cost_find(key, now);
		cost_sample(cost, key, 0, COST_ALONE, 50000, COST_FACTOR_ONE);
	}
	assert_in_range(cost_ns(cost), 49000, 50000 + RESOLUTION);
}

static void what_was_started_before_a_sample_is_paid_with_it(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);
	uint32_t unknown;

	assert_int_equal(cost_start(cost, 1, &unknown), COST_GUESS_NS);
	assert_int_equal(unknown, 0);
	cost_start(cost, 2, &unknown);
	assert_int_equal(unknown, 1);
	cost_start(cost, 1, &unknown);
	cost_unstart(cost, 1);
	assert_int_equal(cost_sample(cost, key, 0, COST_IN_A_ROW, 105000, COST_FACTOR_ONE), 3 * 100000);
	assert_int_equal(cost_sample(cost, key, 0, COST_IN_A_ROW, 105000, COST_FACTOR_ONE), 0);
}

static void what_is_renewed_is_measured_again_and_old_samples_are_not_taken(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);
	uint16_t before;
	uint32_t unknown;

	for (int i = 0; i < 20; i++)
		in_a_row(cost, key, 1000000);
	before = cost_version(cost);
	cost_renew(key);
	assert_int_equal(cost_ns(cost), 0);
	assert_int_equal(cost_start(cost, 1, &unknown), 1000000);
	assert_int_equal(cost_start(cost, 1, &unknown), 1000000);
	assert_int_equal(unknown, 0); /* nobody need wait: it is known about */
	cost_sample(cost, key, before, COST_IN_A_ROW, 1000000, COST_FACTOR_ONE);
	assert_int_equal(cost_ns(cost), 0);
	assert_int_equal(cost_sample(cost, key, cost_version(cost), COST_IN_A_ROW, 20000000, COST_FACTOR_ONE),
		2 * 19000000);
	assert_int_equal(cost_ns(cost), 20000000);
}

static void what_cannot_be_measured_costs_what_was_guessed(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	for (int i = 0; i < 10; i++)
		cost_failed(cost, key);
	assert_int_equal(cost_ns(cost), COST_GUESS_NS);
	in_a_row(cost, key, 70000);
	assert_in_range(cost_ns(cost), COST_GUESS_NS + 1, 70000);
}

static void there_is_room_for_two_thousand_and_the_oldest_go_first(void **state)
{
	uint64_t often_key, key;
	struct cost *often = fresh(&often_key), *cost;

	in_a_row(often, often_key, 4000);
	for (uint32_t i = 2; i < 100000; i++) {
		cost = fresh(&key);
		in_a_row(cost, key, 1000);
		assert_ptr_equal(cost_find(often_key, i), often);
	}
	assert_int_equal(cost_ns(often), 4000);
}

static void a_sample_for_one_that_was_replaced_is_not_taken(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);

	assert_int_equal(cost_sample(cost, key + 2, 0, COST_IN_A_ROW, 5000, COST_FACTOR_ONE), 0);
	assert_int_equal(cost_ns(cost), 0);
}

static void a_child_of_fork_knows_nothing(void **state)
{
	uint64_t key;
	struct cost *cost = fresh(&key);
	int status;
	pid_t pid;

	in_a_row(cost, key, 1000);
	pid = fork();
	if (pid == 0)
		_exit(cost_ns(cost_find(key, 1)) == 0 ? 0 : 1);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(cost_ns(cost), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_differs_in_one_number_has_another_key_and_another_place),
		cmocka_unit_test(what_was_measured_once_is_known),
		cmocka_unit_test(samples_that_others_have_stretched_do_not_count),
		cmocka_unit_test(a_duration_that_varies_costs_its_mean),
		cmocka_unit_test(a_function_that_does_more_costs_more_soon),
		cmocka_unit_test(a_long_launch_costs_what_it_took_once_without_others),
		cmocka_unit_test(what_is_stretched_a_little_does_not_let_the_cost_creep_upwards),
		cmocka_unit_test(what_never_varied_is_not_taken_for_longer_beside_others),
		cmocka_unit_test(a_long_launch_that_does_more_costs_more_once_the_keeper_sees_it),
		cmocka_unit_test(what_the_keeper_has_made_up_for_is_not_taken_back_at_once),
		cmocka_unit_test(what_a_stretched_first_sample_charged_is_given_back),
		cmocka_unit_test(the_better_way_to_measure_counts),
		cmocka_unit_test(a_way_that_nothing_comes_by_any_more_counts_no_more),
		cmocka_unit_test(what_was_started_before_a_sample_is_paid_with_it),
		cmocka_unit_test(what_is_renewed_is_measured_again_and_old_samples_are_not_taken),
		cmocka_unit_test(what_cannot_be_measured_costs_what_was_guessed),
		cmocka_unit_test(there_is_room_for_two_thousand_and_the_oldest_go_first),
		cmocka_unit_test(a_sample_for_one_that_was_replaced_is_not_taken),
		cmocka_unit_test(a_child_of_fork_knows_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
