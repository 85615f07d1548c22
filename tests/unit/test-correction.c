#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "model/correction.h"
#include "model/shares.h"

#define SECOND UINT64_C(1000000000)
#define PERCENT (SHARE_WHOLE / 100)

/* A container whose shim takes each nanosecond of work for `wrong` nanoseconds, and a driver that says in
 * whole percents, `late` seconds later and with an error of up to `noise` points, what was used. */
struct plant {
	struct correction correction;
	double wrong;
	int late, noise;
	uint32_t seed;
	double used[4]; /* of the last seconds, the newest first */
	int second;
};

static int noise_of(struct plant *plant)
{
	plant->seed = plant->seed * 1664525 + 1013904223;
	return plant->noise ? (int)(plant->seed >> 8) % (2 * plant->noise + 1) - plant->noise : 0;
}

/* Of the container and one process more. */
static struct correction_gpu said(uint32_t of_all, uint32_t of_gpu)
{
	return (struct correction_gpu){.of_gpu = of_gpu, .of_all = of_all, .named = 2};
}

static uint64_t used_ns(uint64_t elapsed, uint32_t percent, uint32_t of_all, uint32_t of_gpu)
{
	struct correction_gpu gpu = said(of_all, of_gpu);

	return correction_used_ns(elapsed, percent, &gpu);
}

static uint64_t others_ns(uint64_t elapsed, uint32_t percent, uint32_t of_all, uint32_t of_gpu)
{
	struct correction_gpu gpu = said(of_all, of_gpu);

	return correction_others_ns(elapsed, percent, &gpu);
}

/* One second in which the container would use `wants` of the GPU. Returns what it used. */
static double plant_second(struct plant *plant, uint32_t share, double wants)
{
	double allowed = (double)correction_rate(&plant->correction, share) / 1e6 / plant->wrong;
	double used = wants < allowed ? wants : allowed;
	int percent;

	used = used > 1 ? 1 : used;
	for (int i = 3; i > 0; i--)
		plant->used[i] = plant->used[i - 1];
	plant->used[0] = used;
	percent = (int)(plant->used[plant->late] * 100 + 0.5) + noise_of(plant);
	percent = percent < 0 ? 0 : percent;
	correction_sample(&plant->correction, SECOND, (uint64_t)(used * plant->wrong * 1e9),
		used_ns(SECOND, (uint32_t)percent, (uint32_t)percent, (uint32_t)percent), 0);
	plant->second++;
	return used;
}

static double plant_mean(struct plant *plant, uint32_t share, double wants, int seconds)
{
	double sum = 0;

	for (int i = 0; i < seconds; i++)
		sum += plant_second(plant, share, wants);
	return sum / seconds;
}

static void assert_near(double is, double should, double most)
{
	if (is < should - most || is > should + most)
		fail_msg("%f is not within %f of %f", is, most, should);
}

static void what_is_used_becomes_the_share_however_wrong_the_estimate(void **state)
{
	static const double wrong[] = {0.3, 0.5, 0.8, 1, 1.25, 2, 3.5};
	static const uint32_t shares[] = {5, 10, 30, 50, 95};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		for (size_t k = 0; k < ARRAY_SIZE(shares); k++) {
			struct plant plant = {.wrong = wrong[i], .late = 1, .noise = 1, .seed = 3};

			correction_init(&plant.correction);
			plant_mean(&plant, shares[k] * PERCENT, 1, 60);
			assert_near(plant_mean(&plant, shares[k] * PERCENT, 1, 60), shares[k] / 100.0, 0.01);
		}
}

static void what_is_far_off_is_corrected_within_seconds(void **state)
{
	static const double wrong[] = {0.1, 0.4, 2.5, 10, 20};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct plant plant = {.wrong = wrong[i], .late = 1, .seed = 3};

		correction_init(&plant.correction);
		plant_mean(&plant, 50 * PERCENT, 1, 5);
		assert_near(plant_mean(&plant, 50 * PERCENT, 1, 5), 0.5, 0.1);
	}
}

/* Whoever has long kernels and begins beside others takes them for several times as long as they are, pays
 * that, and waits: there is nothing to compare for seconds. */
static void what_was_charged_far_too_high_is_known_at_the_second_look(void **state)
{
	struct correction correction;

	correction_init(&correction);
	correction_sample(&correction, SECOND / 3, SECOND / 10, 0, 0);
	correction_sample(&correction, SECOND / 3, SECOND, SECOND / 10, 0);
	assert_near(correction.factor, 1, 0);
	correction_sample(&correction, SECOND / 3, 0, SECOND / 10, 0);
	/* 1.1 s were charged for 0.2 s, and up to 30 ms that may be missing. */
	assert_true(correction.factor >= 1.1 / 0.23 && correction.factor <= 1.1 / 0.2);
}

/* Long kernels of who begins beside others: each sample of them contains as much of the others. */
static void what_slices_of_others_made_too_long_is_known_within_a_second(void **state)
{
	struct correction correction;

	correction_init(&correction);
	correction_sample(&correction, SECOND / 3, SECOND / 10, SECOND / 30, SECOND / 4);
	for (int i = 0; i < 2; i++)
		correction_sample(&correction, SECOND / 3, SECOND / 10, SECOND / 20, SECOND / 4);
	assert_near(correction.factor, 2, 0.4);
}

/* Kernels of 50 ms: one more or less in a third of a second is chance, and nobody else is there. */
static void single_kernels_of_who_is_alone_are_chance(void **state)
{
	static const int started[] = {3, 2, 2, 1, 3, 2, 1, 2, 2, 3, 1, 2};
	static const int used[] = {2, 2, 2, 2, 2, 2, 2, 1, 3, 2, 2, 2};
	struct correction correction;

	correction_init(&correction);
	for (size_t i = 0; i < ARRAY_SIZE(started); i++) {
		correction_sample(&correction, SECOND / 3, (uint64_t)started[i] * SECOND / 20,
			(uint64_t)used[i] * SECOND / 20, 0);
		assert_near(correction.factor, 1, 0.06);
	}
}

static void what_is_still_on_its_way_is_no_error(void **state)
{
	struct correction correction;

	correction_init(&correction);
	for (int i = 0; i < 30; i++) {
		/* Each look tells what was started up to the one before. */
		correction_sample(&correction, SECOND / 3, i % 10 == 0 ? SECOND / 3 : 0,
			i % 10 == 1 ? SECOND / 3 : 0, 0);
		assert_near(correction.factor, 1, 0);
	}
}

static void the_driver_is_asked_more_often_at_the_beginning(void **state)
{
	struct correction correction;
	int looks = 0;

	correction_init(&correction);
	assert_int_equal(correction_look_ns(&correction), SECOND / 3);
	for (; correction_look_ns(&correction) < SECOND && looks < 100; looks++)
		correction_sample(&correction, SECOND / 3, SECOND / 30, SECOND / 30, 0);
	/* The first four seconds of work. */
	assert_int_equal(looks, 12);
}

static void noise_and_delay_do_not_make_the_rate_swing(void **state)
{
	struct plant plant = {.wrong = 1, .late = 2, .noise = 3, .seed = 11};

	correction_init(&plant.correction);
	plant_mean(&plant, 30 * PERCENT, 1, 30);
	for (int i = 0; i < 300; i++)
		assert_near(plant_second(&plant, 30 * PERCENT, 1), 0.3, 0.02);
}

static void an_idle_container_does_not_wind_up(void **state)
{
	struct plant plant = {.wrong = 1, .late = 1, .seed = 5};
	double before;

	correction_init(&plant.correction);
	plant_mean(&plant, 30 * PERCENT, 1, 20);
	before = plant.correction.factor;
	plant_mean(&plant, 30 * PERCENT, 0, 3600);
	assert_near(plant.correction.factor, before, 0.001);
	assert_near(plant_second(&plant, 30 * PERCENT, 1), 0.3, 0.01);
}

static void who_uses_less_than_its_share_is_not_given_more(void **state)
{
	struct plant plant = {.wrong = 1, .late = 1, .noise = 1, .seed = 5};

	correction_init(&plant.correction);
	plant_mean(&plant, 50 * PERCENT, 0.1, 600);
	assert_near(plant_second(&plant, 50 * PERCENT, 1), 0.5, 0.03);
}

/* The driver's answer lags: without care each start would look like an estimate far too high. */
static void bursts_teach_nothing_wrong(void **state)
{
	struct plant plant = {.wrong = 1, .late = 1, .seed = 5};

	correction_init(&plant.correction);
	for (int i = 0; i < 300; i++)
		plant_second(&plant, 30 * PERCENT, i % 7 < 4 ? 1 : 0);
	assert_near(plant.correction.factor, 1, 0.05);
}

static void too_little_work_to_tell_teaches_nothing(void **state)
{
	struct correction correction;

	correction_init(&correction);
	for (int i = 0; i < 100; i++)
		correction_sample(&correction, SECOND, SECOND / 100, SECOND / 20, 0);
	for (int i = 0; i < 100; i++)
		correction_sample(&correction, SECOND, SECOND / 20, SECOND / 100, 0);
	assert_near(correction.factor, 1, 0);
}

static void a_driver_that_was_silent_for_long_teaches_nothing(void **state)
{
	struct correction correction;

	correction_init(&correction);
	for (int i = 0; i < 100; i++)
		correction_sample(&correction, 60 * SECOND, 50 * SECOND, 6 * SECOND, 0);
	assert_near(correction.factor, 1, 0);
}

static void no_number_leads_out_of_the_bounds(void **state)
{
	static const uint64_t numbers[] = {0, 1, SECOND / 50, SECOND / 2, SECOND, 100 * SECOND, UINT64_MAX};
	struct correction correction;
	uint32_t seed = 1;

	correction_init(&correction);
	for (int i = 0; i < 100000; i++) {
		uint64_t picked[3];

		for (int k = 0; k < 3; k++) {
			seed = seed * 1664525 + 1013904223;
			picked[k] = numbers[(seed >> 16) % ARRAY_SIZE(numbers)];
		}
		correction_sample(&correction, picked[0], picked[1], picked[2], 0);
		assert_true(correction.factor >= CORRECTION_LEAST && correction.factor <= CORRECTION_MOST);
	}
}

static void a_new_keeper_goes_on_where_the_last_one_was(void **state)
{
	struct correction correction;

	correction_resume(&correction, 300000, 360000);
	assert_int_equal(correction_rate(&correction, 300000), 360000);
	assert_int_equal(correction_rate(&correction, 100000), 120000);
	correction_resume(&correction, 1, UINT64_MAX);
	assert_int_equal(correction_rate(&correction, 100000), 100000 * 32);
	correction_resume(&correction, 0, 0);
	assert_int_equal(correction_rate(&correction, 100000), 100000);
	assert_int_equal(correction_rate(&correction, 0), 0);
}

static void what_the_processes_are_said_to_use_is_scaled_to_the_gpu(void **state)
{
	/* 60 + 60 of a GPU that was busy for 100 */
	assert_int_equal(used_ns(SECOND, 60, 120, 100), SECOND / 2);
	/* A process that is not named is not blamed on the others; whole percents may hide one of each of the
	 * two. */
	assert_int_equal(used_ns(SECOND, 20, 20, 100), SECOND / 100 * 22);
	assert_int_equal(used_ns(SECOND, 20, 20, 21), SECOND / 100 * 21);
	assert_int_equal(used_ns(SECOND, 0, 0, 100), 0);
	/* The GPU's number is of a second, in which it was idle before. */
	assert_int_equal(used_ns(SECOND / 4, 40, 80, 30), SECOND / 10);
	assert_int_equal(used_ns(SECOND / 4, 80, 160, 30), SECOND / 8);
	/* others: those that are named, or the GPU's rest */
	assert_int_equal(others_ns(SECOND, 20, 70, 60), SECOND / 2);
	assert_int_equal(others_ns(SECOND, 20, 20, 60), SECOND / 10 * 4);
	assert_int_equal(others_ns(SECOND, 20, 20, 10), 0);
}

/* The driver's answers are later than what was started, also where the keeper has just begun. */
static void a_new_keeper_takes_work_that_was_under_way_for_no_error(void **state)
{
	static const uint64_t rates[] = {250000, 500000, 31250};

	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		struct correction correction;

		correction_resume(&correction, 250000, rates[i]);
		correction_at_work(&correction);
		for (int k = 0; k < 60; k++) {
			uint64_t elapsed = correction_look_ns(&correction);

			correction_sample(&correction, elapsed, elapsed * rates[i] / 1000000, elapsed / 4,
				elapsed / 4 * 3);
			assert_near(correction.factor, (double)rates[i] / 250000,
				0.01 * (double)rates[i] / 250000);
		}
	}
}

/* 30 % of a GPU, of which the driver tells only half in the second in which a process ends and another
 * begins. */
static void what_the_dead_had_started_is_no_error(void **state)
{
	struct correction correction;

	for (int early = 0; early < 2; early++) {
		uint64_t who = 1;

		correction_init(&correction);
		correction_at_work(&correction);
		for (int i = 0; i < 60; i++) {
			bool ends = i > (early ? 2 : 30) && i % 4 == 0;

			who += ends;
			correction_processes(&correction, who, SECOND / 10 * 3);
			correction_sample(&correction, correction_look_ns(&correction), SECOND / 10 * 3,
				SECOND / 100 * (ends ? 15 : 30), SECOND / 2);
			assert_near(correction.factor, 1, 0.05);
		}
	}
}

/* Nobody is there at any look, or nobody of before: what they had started would be charged for nothing. */
static void who_lives_for_less_than_a_look_is_not_given_more(void **state)
{
	struct correction correction;

	correction_init(&correction);
	for (uint64_t i = 0; i < 60; i++) {
		correction_processes(&correction, i % 3, SECOND / 4);
		correction_sample(&correction, SECOND / 3, SECOND / 4, i % 3 ? SECOND / 20 : 0, 0);
		assert_true(correction.factor <= 1);
	}
}

/* Others come and go beside one that goes on: what a look is off by chance, it is to both sides. */
static void chance_is_not_taken_for_too_little_where_processes_come_and_go(void **state)
{
	struct correction correction;

	correction_init(&correction);
	correction_at_work(&correction);
	for (uint64_t i = 0; i < 120; i++) {
		correction_processes(&correction, i + 1, SECOND / 4);
		correction_sample(&correction, correction_look_ns(&correction), SECOND / 4,
			i % 2 ? SECOND / 5 : SECOND / 10 * 3, SECOND / 2);
		assert_near(correction.factor, 1, 0.06);
	}
}

static void who_comes_and_goes_is_corrected_downwards_still(void **state)
{
	struct correction correction;

	correction_init(&correction);
	for (uint64_t i = 0; i < 60; i++) {
		correction_processes(&correction, i + 1, SECOND / 10);
		correction_sample(&correction, SECOND, SECOND / 10, SECOND / 2, 0);
	}
	assert_near(correction.factor, 0.2, 0.05);
}

static void a_look_is_about_what_came_since_the_one_before(void **state)
{
	const struct correction_gpu gpu = {.of_gpu = 60, .of_all = 60, .named = 2};
	struct correction_look look = {.now_ns = SECOND, .started_ns = 5 * SECOND, .who = 7, .percent = 40};
	struct correction_seen seen;
	struct correction correction;

	correction_init(&correction);
	assert_false(correction_look(&correction, &look, &gpu, &seen));
	assert_int_equal(seen.used_ns, 0);
	look.now_ns += SECOND / 2;
	look.started_ns += SECOND / 4;
	assert_true(correction_look(&correction, &look, &gpu, &seen));
	assert_int_equal(seen.elapsed_ns, SECOND / 2);
	assert_int_equal(seen.started_ns, SECOND / 4);
	assert_int_equal(seen.used_ns, SECOND / 5);
	/* The count of another file: what was used is known, what was started is not. */
	look.now_ns += SECOND;
	look.started_ns = SECOND;
	assert_false(correction_look(&correction, &look, &gpu, &seen));
	assert_int_equal(seen.started_ns, 0);
	assert_int_equal(seen.used_ns, SECOND / 5 * 2);
	look.now_ns += SECOND;
	assert_true(correction_look(&correction, &look, &gpu, &seen));
	assert_int_equal(seen.started_ns, 0);
}

static void a_set_of_processes_is_told_from_others(void **state)
{
	assert_int_not_equal(correction_who(1), 0);
	assert_int_not_equal(
		correction_who(100) + correction_who(103), correction_who(101) + correction_who(102));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_used_becomes_the_share_however_wrong_the_estimate),
		cmocka_unit_test(what_is_far_off_is_corrected_within_seconds),
		cmocka_unit_test(what_was_charged_far_too_high_is_known_at_the_second_look),
		cmocka_unit_test(what_slices_of_others_made_too_long_is_known_within_a_second),
		cmocka_unit_test(single_kernels_of_who_is_alone_are_chance),
		cmocka_unit_test(what_is_still_on_its_way_is_no_error),
		cmocka_unit_test(the_driver_is_asked_more_often_at_the_beginning),
		cmocka_unit_test(noise_and_delay_do_not_make_the_rate_swing),
		cmocka_unit_test(an_idle_container_does_not_wind_up),
		cmocka_unit_test(who_uses_less_than_its_share_is_not_given_more),
		cmocka_unit_test(bursts_teach_nothing_wrong),
		cmocka_unit_test(too_little_work_to_tell_teaches_nothing),
		cmocka_unit_test(a_driver_that_was_silent_for_long_teaches_nothing),
		cmocka_unit_test(no_number_leads_out_of_the_bounds),
		cmocka_unit_test(a_new_keeper_goes_on_where_the_last_one_was),
		cmocka_unit_test(what_the_processes_are_said_to_use_is_scaled_to_the_gpu),
		cmocka_unit_test(a_new_keeper_takes_work_that_was_under_way_for_no_error),
		cmocka_unit_test(what_the_dead_had_started_is_no_error),
		cmocka_unit_test(who_lives_for_less_than_a_look_is_not_given_more),
		cmocka_unit_test(chance_is_not_taken_for_too_little_where_processes_come_and_go),
		cmocka_unit_test(who_comes_and_goes_is_corrected_downwards_still),
		cmocka_unit_test(a_look_is_about_what_came_since_the_one_before),
		cmocka_unit_test(a_set_of_processes_is_told_from_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
