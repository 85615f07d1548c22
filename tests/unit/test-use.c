#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/use.h"

#define MIB (UINT64_C(1) << 20)
#define S INT64_C(1000000000)

static struct use_sample sample(int64_t seconds, uint64_t used_mib, uint64_t limit_mib)
{
	return (struct use_sample){.elapsed_ns = seconds * S,
		.used_bytes = used_mib * MIB,
		.limit_bytes = limit_mib * MIB,
		.physical_bytes = 16000 * MIB};
}

static void note(struct use_record *record, int64_t seconds, uint64_t used_mib, uint64_t limit_mib)
{
	struct use_sample one = sample(seconds, used_mib, limit_mib);

	use_note_memory(record, &one);
}

static void refuse(struct use_record *record, uint64_t count, uint64_t used_mib, uint64_t refused_bytes)
{
	struct use_sample one = sample(1, used_mib, 1000);

	one.refused = count;
	one.refused_bytes = refused_bytes;
	use_note_memory(record, &one);
}

static void the_peak_is_the_most_of_any_sample_the_first_one_too(void **state)
{
	struct use_record record = {0};

	note(&record, 0, 700, 1000);
	note(&record, 1, 100, 1000);
	note(&record, 1, 650, 1000);
	assert_int_equal(record.peak_bytes, 700 * MIB);
	assert_int_equal(record.seen_ns, 2 * S);
	assert_int_equal(record.wanted_bytes, 0);
}

static void memory_times_time_follows_a_grant_that_changes(void **state)
{
	struct use_record record = {0};

	note(&record, 10, 500, 1000);
	note(&record, 5, 100, 200);
	assert_int_equal(use_byte_seconds(record.granted_mib_us), (10 * 1000 + 5 * 200) * MIB);
	assert_int_equal(use_byte_seconds(record.used_mib_us), (10 * 500 + 5 * 100) * MIB);
}

static void time_is_counted_by_the_used_part_of_the_grant(void **state)
{
	struct use_record record = {0};
	uint64_t sum = 0;

	note(&record, 1, 0, 1600);
	note(&record, 2, 99, 1600);
	note(&record, 4, 100, 1600);
	note(&record, 8, 1600, 1600);
	note(&record, 16, 9999, 1600);
	assert_int_equal(record.memory_ns[0], 3 * S);
	assert_int_equal(record.memory_ns[1], 4 * S);
	assert_int_equal(record.memory_ns[15], 24 * S);
	for (int i = 0; i < USE_BUCKETS; i++)
		sum += record.memory_ns[i];
	assert_int_equal(sum, record.seen_ns);
}

static void a_container_that_does_not_run_is_granted_memory_and_not_sampled(void **state)
{
	struct use_record record = {0};
	struct use_sample one = sample(8, 0, 1000);

	one.idle = true;
	use_note_memory(&record, &one);
	assert_int_equal(record.seen_ns, 0);
	assert_int_equal(record.memory_ns[0], 0);
	assert_int_equal(use_byte_seconds(record.granted_mib_us), 8 * 1000 * MIB);
}

static void computing_power_is_counted_by_the_used_part_of_the_share(void **state)
{
	struct use_record record = {0};

	use_note_core(&record, 1 * S, 0, 250000);
	use_note_core(&record, 2 * S, S / 4, 250000); /* half of the share */
	use_note_core(&record, 4 * S, 4 * S, 250000);
	use_note_core(&record, 8 * S, 8 * S, 0);
	use_note_core(&record, 0, 0, 250000);
	assert_int_equal(record.core_ns[0], 1 * S);
	assert_int_equal(record.core_ns[8], 2 * S);
	assert_int_equal(record.core_ns[15], 4 * S);
}

static void what_a_refused_allocation_needs_is_remembered_once(void **state)
{
	struct use_record record = {0};

	refuse(&record, 3, 900, 400 * MIB);
	assert_int_equal(record.wanted_bytes, 1300 * MIB);
	refuse(&record, 3, 950, 400 * MIB); /* no further refusal */
	assert_int_equal(record.wanted_bytes, 1300 * MIB);
	refuse(&record, 4, 10, 500 * MIB); /* the program ended after it: it wanted more than its limit */
	assert_int_equal(record.wanted_bytes, 1300 * MIB);
	refuse(&record, 2, 10, 15000 * MIB); /* the count began anew */
	assert_int_equal(record.wanted_bytes, 1300 * MIB);
	refuse(&record, 3, 800, 700 * MIB);
	assert_int_equal(record.wanted_bytes, 1500 * MIB);
	assert_int_equal(record.peak_bytes, 950 * MIB);
}

static void a_refusal_wants_more_than_the_limit_and_at_most_the_gpu(void **state)
{
	struct use_record record = {0}, forged = {0};

	refuse(&record, 1, 0, 10 * MIB);
	assert_int_equal(record.wanted_bytes, 1000 * MIB + 1);
	refuse(&forged, UINT64_MAX, 900, UINT64_MAX);
	assert_int_equal(forged.wanted_bytes, 16000 * MIB);
}

static void numbers_that_no_gpu_has_do_no_harm(void **state)
{
	struct use_record record = {0};

	note(&record, -5, 700, 0);
	note(&record, 1, 700, 0);
	use_note_core(&record, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	assert_int_equal(record.seen_ns, 1 * S);
	assert_int_equal(record.granted_mib_us, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peak_is_the_most_of_any_sample_the_first_one_too),
		cmocka_unit_test(memory_times_time_follows_a_grant_that_changes),
		cmocka_unit_test(time_is_counted_by_the_used_part_of_the_grant),
		cmocka_unit_test(a_container_that_does_not_run_is_granted_memory_and_not_sampled),
		cmocka_unit_test(computing_power_is_counted_by_the_used_part_of_the_share),
		cmocka_unit_test(what_a_refused_allocation_needs_is_remembered_once),
		cmocka_unit_test(a_refusal_wants_more_than_the_limit_and_at_most_the_gpu),
		cmocka_unit_test(numbers_that_no_gpu_has_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
