/* A bucket of computing power: time is a number here, so that hours are cheap. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "grant/token-bucket.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)
#define PERCENT UINT64_C(10000) /* of a GPU, as a rate */

/* Draws want_ns whenever there is credit, from `from` to `to`, sleeping as long as it is told to and `late`
 * longer. Returns the sum. */
static uint64_t draw_all(
	_Atomic uint64_t *word, uint64_t from, uint64_t to, uint64_t rate, uint64_t want, uint64_t late)
{
	uint64_t sum = 0, wait;

	for (uint64_t now = from; now < to; now += wait ? wait + late : 0) {
		wait = token_bucket_draw(word, now, rate, want);
		sum += wait ? 0 : want;
	}
	return sum;
}

static void five_percent_of_a_gpu_loses_nothing_to_rounding(void **state)
{
	static const uint64_t rates[] = {PERCENT, 5 * PERCENT, 33 * PERCENT, 95 * PERCENT, 333333, 51234};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		_Atomic uint64_t word = 0;
		uint64_t first = draw_all(&word, HOUR, HOUR + SECOND, rates[i], MS, 0);
		uint64_t sum = draw_all(&word, HOUR + SECOND, HOUR + 101 * SECOND, rates[i], MS, 0);
		uint64_t due = rates[i] * 100000;

		assert_in_range(
			first, rates[i] * 1000 - MS, rates[i] * 1000 + token_bucket_burst_ns(rates[i]) + MS);
		assert_in_range(sum, due - due / 500 - MS, due + MS);
	}
}

static void who_comes_often_gets_no_less_and_no_more(void **state)
{
	_Atomic uint64_t word = 0;
	uint64_t sum = 0;

	draw_all(&word, HOUR, HOUR + SECOND, 5 * PERCENT, MS, 0);
	for (uint64_t now = HOUR + SECOND; now < HOUR + 11 * SECOND; now += 7 * US)
		sum += token_bucket_draw(&word, now, 5 * PERCENT, 20 * US) ? 0 : 20 * US;
	assert_in_range(sum, 500 * MS - MS, 500 * MS + MS);
}

static void who_wakes_late_makes_up_for_it(void **state)
{
	_Atomic uint64_t word = 0;

	draw_all(&word, HOUR, HOUR + SECOND, 50 * PERCENT, MS, 0);
	assert_in_range(draw_all(&word, HOUR + SECOND, HOUR + 11 * SECOND, 50 * PERCENT, MS, 5 * MS),
		5 * SECOND - 20 * MS, 5 * SECOND + MS);
}

static void any_rest_refills_at_most_one_burst(void **state)
{
	static const uint64_t rests[] = {21 * MS, SECOND, HOUR, 2 * HOUR, 3 * HOUR, 100 * HOUR, 10000 * HOUR};

	for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
		_Atomic uint64_t word = 0;
		uint64_t start = 10 * HOUR, now, sum = 0;

		draw_all(&word, start, start + SECOND, 30 * PERCENT, MS, 0);
		now = start + SECOND + rests[i];
		while (token_bucket_draw(&word, now, 30 * PERCENT, MS) == 0)
			sum += MS;
		/* 20 ms at 30 %: 6 ms. */
		assert_int_equal(sum, 6 * MS);
	}
}

static void a_rest_before_a_long_kernel_saves_up_that_kernel_and_no_more(void **state)
{
	_Atomic uint64_t word = 0;
	uint64_t now = HOUR, sum = 0;

	draw_all(&word, now, now + SECOND, 10 * PERCENT, MS, 0);
	now += HOUR;
	while (token_bucket_draw_saving(&word, now, 10 * PERCENT, MS, 50 * MS) == 0)
		sum += MS;
	assert_int_equal(sum, 50 * MS);
	/* Who draws for a short one finds a burst: 20 ms at 10 %. */
	now += HOUR;
	for (sum = 0; token_bucket_draw(&word, now, 10 * PERCENT, MS) == 0;)
		sum += MS;
	assert_int_equal(sum, 2 * MS);
}

static void what_is_given_back_pays_debt_and_is_no_more_than_may_be_saved(void **state)
{
	_Atomic uint64_t word = 0;
	uint64_t now = HOUR;

	while (token_bucket_draw(&word, now, 10 * PERCENT, MS) == 0)
		continue;
	token_bucket_change(&word, now, 10 * PERCENT, -(int64_t)SECOND, 0);
	assert_int_equal(token_bucket_left_ns(word, now, 10 * PERCENT), -(int64_t)SECOND);
	token_bucket_change(&word, now, 10 * PERCENT, 900 * (int64_t)MS, 0);
	assert_int_equal(token_bucket_left_ns(word, now, 10 * PERCENT), -100 * (int64_t)MS);
	token_bucket_change(&word, now, 10 * PERCENT, INT64_MAX, 0);
	assert_int_equal(token_bucket_left_ns(word, now, 10 * PERCENT), 2 * MS);
	token_bucket_change(&word, now, 10 * PERCENT, INT64_MIN, 0);
	assert_int_equal(
		token_bucket_left_ns(word, now, 10 * PERCENT), -TOKEN_BUCKET_DEBT_MAX_NS + 2 * (int64_t)MS);
}

static void the_clock_may_come_round_at_any_moment(void **state)
{
	/* 2^28 steps of 50 us. */
	uint64_t round = (UINT64_C(1) << 28) * 50 * US;
	_Atomic uint64_t word = 0;

	draw_all(&word, round - 2 * SECOND, round - SECOND, 30 * PERCENT, MS, 0);
	assert_in_range(draw_all(&word, round - SECOND, round + SECOND, 30 * PERCENT, MS, 0), 600 * MS - MS,
		600 * MS + MS);
}

static void a_kernel_longer_than_the_credit_is_paid_afterwards(void **state)
{
	_Atomic uint64_t word = 0;
	uint64_t now = HOUR, wait;

	while (token_bucket_draw(&word, now, 30 * PERCENT, MS) == 0)
		continue;
	now += 10 * MS;
	assert_int_equal(token_bucket_draw(&word, now, 30 * PERCENT, 50 * MS), 0);
	wait = token_bucket_draw(&word, now, 30 * PERCENT, MS);
	/* It had 3 ms: 47 are left to pay, at 0.3 ms in a millisecond. */
	assert_in_range(wait, 156 * MS, 157 * MS);
	assert_int_not_equal(token_bucket_draw(&word, now + wait - 50 * US, 30 * PERCENT, MS), 0);
	assert_int_equal(token_bucket_draw(&word, now + wait, 30 * PERCENT, MS), 0);
}

static void a_higher_rate_pays_a_debt_faster_from_the_next_call_on(void **state)
{
	_Atomic uint64_t word = 0;
	uint64_t now = HOUR;

	while (token_bucket_draw(&word, now, 10 * PERCENT, MS) == 0)
		continue;
	token_bucket_draw(&word, now + MS, 10 * PERCENT, 100 * MS);
	now += MS;
	assert_in_range(token_bucket_draw(&word, now, 10 * PERCENT, MS), 990 * MS, SECOND);
	assert_in_range(token_bucket_draw(&word, now, 50 * PERCENT, MS), 198 * MS, 200 * MS);
	/* What passed at 10 % was worth 10 %. */
	now += 100 * MS;
	assert_in_range(token_bucket_draw(&word, now, 10 * PERCENT, MS), 890 * MS, 900 * MS);
	assert_in_range(token_bucket_draw(&word, now, 50 * PERCENT, MS), 178 * MS, 180 * MS);
}

static void a_lower_rate_leaves_no_old_burst(void **state)
{
	_Atomic uint64_t word = 0;

	token_bucket_draw(&word, HOUR, 90 * PERCENT, 1);
	token_bucket_draw(&word, HOUR + SECOND, 90 * PERCENT, 1);
	assert_int_equal(token_bucket_left_ns(word, HOUR + SECOND, 5 * PERCENT), 20 * 50 * US);
}

static void an_older_time_takes_nothing_away_and_gives_nothing(void **state)
{
	_Atomic uint64_t word = 0;
	uint64_t now = HOUR;

	while (token_bucket_draw(&word, now, 30 * PERCENT, MS) == 0)
		continue;
	for (int i = 0; i < 1000; i++)
		assert_int_not_equal(
			token_bucket_draw(&word, now - (uint64_t)i * 100 * US, 30 * PERCENT, MS), 0);
	assert_int_equal(token_bucket_draw(&word, now + 10 * MS, 30 * PERCENT, MS), 0);
}

static void damage_neither_stops_nor_frees_a_container(void **state)
{
	unsigned seed = 7;

	for (int i = 0; i < 100000; i++) {
		_Atomic uint64_t word = (uint64_t)rand_r(&seed) << 42 ^ (uint64_t)rand_r(&seed) << 21 ^
					(uint64_t)rand_r(&seed);
		uint64_t now = (uint64_t)rand_r(&seed) * SECOND / 7, sum = 0, wait;

		while ((wait = token_bucket_draw(&word, now, 30 * PERCENT, MS)) == 0)
			sum += MS;
		assert_in_range(sum, 0, 7 * MS);
		/* 10 s of debt at 30 %, and a second that the word may be ahead. */
		assert_in_range(wait, 1, 35 * SECOND);
	}
}

static void no_rate_is_the_least_rate_and_stops_nobody(void **state)
{
	_Atomic uint64_t word = 0;

	while (token_bucket_draw(&word, HOUR, 0, 1) == 0)
		continue;
	assert_in_range(token_bucket_draw(&word, HOUR, 0, 1), 1, MS);
	assert_in_range(token_bucket_draw(&word, HOUR, UINT64_MAX, 1), 0, MS);
}

/* ---- several at a time ----------------------------------------------------------------------------------
 */

/* Time goes on with each look at it, so nobody is late however busy the machine is; but who reads it and is
 * held up before it draws comes with an old one. */
#define LOOK (10 * US)
#define UNTIL (HOUR + SECOND / 2)

static struct shared {
	_Atomic uint64_t word, drawn, now;
} * shared;

static void *draw_until(void *unused)
{
	uint64_t now;

	while ((now = atomic_fetch_add(&shared->now, LOOK)) < UNTIL)
		if (token_bucket_draw(&shared->word, now, 30 * PERCENT, 50 * US) == 0)
			atomic_fetch_add(&shared->drawn, 50 * US);
	return NULL;
}

static void assert_drawn(uint64_t least)
{
	assert_in_range(atomic_load(&shared->drawn), least,
		SECOND / 2 * 30 / 100 + token_bucket_burst_ns(30 * PERCENT) + MS);
}

static void sixty_four_threads_draw_what_one_would(void **state)
{
	pthread_t threads[64];

	for (int i = 0; i < 64; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, draw_until, NULL), 0);
	for (int i = 0; i < 64; i++)
		pthread_join(threads[i], NULL);
	assert_drawn(SECOND / 2 * 30 / 100 - 2 * MS);
}

static void sixty_four_processes_draw_what_one_would_though_some_are_killed(void **state)
{
	pid_t pids[64];

	for (int i = 0; i < 64; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			draw_until(NULL);
			_exit(0);
		}
	}
	for (int i = 0; i < 64; i += 16)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < 64; i++)
		waitpid(pids[i], NULL, 0);
	/* What they had drawn is not in the sum: a slice each at most. */
	assert_drawn(SECOND / 2 * 30 / 100 - 2 * MS - 4 * 50 * US);
	assert_true(token_bucket_left_ns(shared->word, UNTIL, 30 * PERCENT) > -(int64_t)MS);
}

static int share(void **state)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -1;
	shared->now = HOUR;
	return 0;
}

static int unshare_all(void **state)
{
	return munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(five_percent_of_a_gpu_loses_nothing_to_rounding),
		cmocka_unit_test(who_comes_often_gets_no_less_and_no_more),
		cmocka_unit_test(who_wakes_late_makes_up_for_it),
		cmocka_unit_test(any_rest_refills_at_most_one_burst),
		cmocka_unit_test(a_rest_before_a_long_kernel_saves_up_that_kernel_and_no_more),
		cmocka_unit_test(what_is_given_back_pays_debt_and_is_no_more_than_may_be_saved),
		cmocka_unit_test(the_clock_may_come_round_at_any_moment),
		cmocka_unit_test(a_kernel_longer_than_the_credit_is_paid_afterwards),
		cmocka_unit_test(a_higher_rate_pays_a_debt_faster_from_the_next_call_on),
		cmocka_unit_test(a_lower_rate_leaves_no_old_burst),
		cmocka_unit_test(an_older_time_takes_nothing_away_and_gives_nothing),
		cmocka_unit_test(damage_neither_stops_nor_frees_a_container),
		cmocka_unit_test(no_rate_is_the_least_rate_and_stops_nobody),
		cmocka_unit_test_setup_teardown(sixty_four_threads_draw_what_one_would, share, unshare_all),
		cmocka_unit_test_setup_teardown(
			sixty_four_processes_draw_what_one_would_though_some_are_killed, share, unshare_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
