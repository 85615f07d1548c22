/* What a container holds of a GPU and has not charged, from the driver's numbers and its usage file. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "grant/overhead.h"
#include "agent/gpu/watchdog.h"
#include "grant/reserve.h"

#define MIB UINT64_C(1048576)
#define NAMESPACE 0xf000001u

static struct overhead_process process(uint32_t pid, uint64_t mib)
{
	return (struct overhead_process){
		.owner = {.word = owner_word(pid, NAMESPACE), .start_ticks = 1000 + pid, .time_namespace = 7},
		.bytes = mib * MIB};
}

static uint64_t tag(uint64_t value, uint64_t generation)
{
	return value << OWNER_GENERATION_BITS | generation;
}

/* A slot of the first generation, signed. */
static struct usage_peek_slot slot(uint32_t pid, uint64_t held_mib)
{
	return (struct usage_peek_slot){
		.owner = UINT64_C(1) << OWNER_GENERATION_SHIFT | owner_word(pid, NAMESPACE),
		.start_ticks = tag(1000 + pid, 1),
		.time_namespace = tag(7, 1),
		.image = tag(0xabc, 1),
		.held_bytes = held_mib * MIB};
}

static struct usage_peek_slot sharing(
	uint32_t pid, uint64_t held_mib, uint64_t exported_mib, uint64_t imported_mib)
{
	struct usage_peek_slot found = slot(pid, held_mib);

	found.exported_bytes = exported_mib * MIB;
	found.imported_bytes = imported_mib * MIB;
	return found;
}

static void expect(struct overhead_process *p, size_t n, const struct usage_peek_slot *before,
	size_t n_before, const struct usage_peek_slot *after, size_t n_after, uint64_t used_mib,
	uint64_t overhead_mib)
{
	struct overhead found;

	overhead_compute(p, n, before, n_before, after, n_after, &found);
	assert_int_equal(found.used_bytes, used_mib * MIB);
	assert_int_equal(found.overhead_bytes, overhead_mib * MIB);
}

static void overhead_is_what_nobody_has_charged(void **state)
{
	struct overhead_process p[] = {process(7, 1300), process(8, 400)};
	struct usage_peek_slot s[] = {slot(7, 1000), slot(8, 100)};

	expect(p, 2, s, 2, s, 2, 1700, 600);
	expect(p, 2, NULL, 0, NULL, 0, 1700, 1700);
	expect(p, 0, s, 2, s, 2, 0, 0);
}

static void charges_of_the_dead_hide_no_overhead_of_the_living(void **state)
{
	struct overhead_process p[] = {process(8, 400)};
	struct usage_peek_slot s[] = {slot(7, 1000), slot(8, 100)};

	expect(p, 1, s, 2, s, 2, 400, 300);
}

static void a_charge_before_its_allocation_is_no_credit_for_another_process(void **state)
{
	/* 7 has charged a graph that has not run yet. */
	struct overhead_process p[] = {process(7, 300), process(8, 400)};
	struct usage_peek_slot s[] = {slot(7, 1000), slot(8, 100)};

	expect(p, 2, s, 2, s, 2, 700, 300);
}

static void memory_in_flight_is_no_overhead(void **state)
{
	struct overhead_process p[] = {process(7, 1300)};
	struct usage_peek_slot small[] = {slot(7, 500)}, large[] = {slot(7, 1000)};

	expect(p, 1, small, 1, large, 1, 1300, 300);
	expect(p, 1, large, 1, small, 1, 1300, 300);
	expect(p, 1, large, 1, NULL, 0, 1300, 300);
}

/* The same slot, counting calls. */
static struct usage_peek_slot moving(struct usage_peek_slot found, uint64_t begun, uint64_t under_way)
{
	found.moves = begun << 32 | under_way;
	return found;
}

static void what_a_quiet_sample_showed_stays_while_calls_come_and_go(void **state)
{
	struct overhead_process p[] = {process(7, 1300)};
	struct usage_peek_slot quiet[] = {moving(slot(7, 1000), 5, 0)};
	/* It had 200 when the driver answered, and 2000 before and after. */
	struct usage_peek_slot before[] = {moving(slot(7, 2000), 6, 1)};
	struct usage_peek_slot after[] = {moving(slot(7, 2000), 8, 1)};
	struct overhead found;

	expect(p, 1, quiet, 1, quiet, 1, 1300, 300);
	p[0].bytes = 500 * MIB;
	expect(p, 1, before, 1, after, 1, 500, 300);
	overhead_compute(p, 1, before, 1, after, 1, &found);
	assert_true(found.moved);
	assert_false(found.guessed);
	/* Nor is memory that is there only for a moment overhead. */
	p[0].bytes = 4000 * MIB;
	expect(p, 1, before, 1, after, 1, 4000, 300);
	/* Once it rests, it is known again, be it less or more. */
	p[0].bytes = 1100 * MIB;
	expect(p, 1, quiet, 1, quiet, 1, 1100, 100);
}

static void equal_numbers_of_equal_calls_are_not_nothing_happened(void **state)
{
	struct overhead_process p[] = {process(7, 1300)};
	struct usage_peek_slot before[] = {moving(slot(7, 1000), 5, 0)};
	struct usage_peek_slot after[] = {moving(slot(7, 1000), 6, 0)};

	expect(p, 1, before, 1, before, 1, 1300, 300);
	p[0].bytes = 1000 * MIB;
	expect(p, 1, before, 1, after, 1, 1000, 300);
	expect(p, 1, after, 1, after, 1, 1000, 0);
}

static void a_call_that_goes_on_may_hide_overhead_and_shows_no_less(void **state)
{
	struct overhead_process p[] = {process(7, 1300)};
	struct usage_peek_slot quiet[] = {moving(slot(7, 1000), 5, 0)};
	struct usage_peek_slot goes_on[] = {moving(slot(7, 1000), 6, 1)};
	struct overhead found;

	expect(p, 1, quiet, 1, quiet, 1, 1300, 300);
	p[0].bytes = 1200 * MIB; /* 100 of what is charged is not there yet */
	expect(p, 1, goes_on, 1, goes_on, 1, 1200, 300);
	p[0].bytes = 1700 * MIB; /* there are at least 400 more of overhead */
	overhead_compute(p, 1, goes_on, 1, goes_on, 1, &found);
	assert_int_equal(found.overhead_bytes, 700 * MIB);
	assert_false(found.moved);
	assert_true(found.doubtful); /* there may be more: whoever wants to know asks again */
}

static void what_is_not_known_yet_is_guessed_and_said_to_be(void **state)
{
	struct overhead_process p[] = {process(7, 1300)};
	struct usage_peek_slot before[] = {moving(slot(7, 500), 5, 0)};
	struct usage_peek_slot after[] = {moving(slot(7, 1000), 6, 0)};
	struct overhead found;

	overhead_compute(p, 1, before, 1, after, 1, &found);
	assert_int_equal(found.overhead_bytes, 300 * MIB);
	assert_true(found.moved && found.guessed);
	assert_true(overhead_wants_pause(&found, false, 10000000));
	assert_false(overhead_wants_pause(&found, true, 1000000));
	overhead_compute(p, 1, after, 1, after, 1, &found);
	assert_false(found.moved || found.guessed || overhead_wants_pause(&found, true, INT64_MAX));
	overhead_compute(p, 1, before, 1, after, 1, &found);
	assert_false(overhead_wants_pause(&found, false, 20000000));
	assert_true(overhead_wants_pause(&found, false, 1000000000));
	assert_false(overhead_wants_pause(&found, true, 5000000));
	assert_true(overhead_wants_pause(&found, true, 10000000));
}

/* A sum of what is charged and of overhead must not be less than what the driver has, whoever gives what
 * back. */
static void what_the_driver_may_not_have_taken_shows_no_less_overhead(void **state)
{
	struct overhead_process p[] = {process(7, 1300)};
	struct usage_peek_slot s[] = {moving(slot(7, 1100), 5, 0)};

	s[0].surplus_bytes = 100 * MIB;
	expect(p, 1, s, 1, s, 1, 1300, 300);
	s[0].surplus_bytes = 5000 * MIB; /* anybody may write anything */
	expect(p, 1, s, 1, s, 1, 1300, 1300);
}

static void calls_under_way_that_may_not_have_taken_their_surplus_show_what_is_certain(void **state)
{
	struct overhead_process p[] = {process(7, 1300)};
	struct usage_peek_slot s[] = {moving(slot(7, 1100), 5, 1)};
	struct overhead found;

	s[0].surplus_bytes = 100 * MIB;
	overhead_compute(p, 1, s, 1, s, 1, &found);
	assert_int_equal(found.overhead_bytes, 200 * MIB);
}

static void less_is_believed_the_second_time_of_who_has_pools(void **state)
{
	struct overhead_process p[] = {process(7, 1300)};
	struct usage_peek_slot s[] = {moving(slot(7, 1000), 5, USAGE_MOVES_LOOSE)};
	struct overhead found;

	expect(p, 1, s, 1, s, 1, 1300, 300);
	p[0].bytes = 1100 * MIB; /* a pool gave back what is still charged */
	overhead_compute(p, 1, s, 1, s, 1, &found);
	assert_int_equal(found.overhead_bytes, 300 * MIB);
	assert_true(found.doubtful);
	s[0].held_bytes = 800 * MIB;
	expect(p, 1, s, 1, s, 1, 1100, 300);
	p[0].bytes = 900 * MIB; /* a module was unloaded */
	expect(p, 1, s, 1, s, 1, 900, 300);
	overhead_compute(p, 1, s, 1, s, 1, &found);
	assert_int_equal(found.overhead_bytes, 100 * MIB);
	assert_false(found.doubtful);
}

static struct usage_peek_slot fresh(struct usage_peek_slot found, uint64_t paid_mib)
{
	found.fresh = true;
	found.fresh_bytes = paid_mib * MIB;
	return found;
}

static void what_a_context_takes_is_learnt_from_the_first_of_a_process(void **state)
{
	struct overhead_process p[] = {process(7, 1300), process(8, 350)};
	struct usage_peek_slot unpaid[] = {fresh(moving(slot(7, 1000), 5, 0), 0)};
	struct usage_peek_slot paid[] = {moving(slot(7, 1000), 5, 0), fresh(moving(slot(8, 400), 5, 0), 400)};
	struct usage_peek_slot busy[] = {fresh(moving(slot(7, 1000), 5, 1), 0)};
	struct overhead found;

	overhead_compute(p, 1, unpaid, 1, unpaid, 1, &found);
	assert_int_equal(found.context_bytes, 300 * MIB);
	/* It took less than was charged. */
	overhead_compute(p, 2, paid, 2, paid, 2, &found);
	assert_int_equal(found.context_bytes, 350 * MIB);
	overhead_compute(p, 1, busy, 1, busy, 1, &found);
	assert_int_equal(found.context_bytes, 0);
	overhead_compute(p, 1, unpaid, 1, busy, 1, &found);
	assert_int_equal(found.context_bytes, 0);
}

static void the_knowledge_is_of_a_process_and_not_of_its_number(void **state)
{
	struct overhead_process last[] = {process(7, 1300), process(8, 400)},
				p[] = {process(8, 1), process(7, 1)};

	last[0].pid = 107, last[1].pid = 108;
	p[0].pid = 108, p[1].pid = 107;
	last[0].known.bytes = 1, last[1].known.bytes = 2;
	overhead_recall(p, 2, last, 2);
	assert_int_equal(p[0].known.bytes, 2);
	assert_int_equal(p[1].known.bytes, 1);
	p[1].owner.start_ticks++;
	overhead_recall(p, 2, last, 2);
	assert_int_equal(p[1].known.bytes, 0);
	overhead_recall(p, 2, NULL, 0);
	assert_int_equal(p[0].known.bytes, 0);
}

static void what_two_processes_have_counts_once(void **state)
{
	/* 7 made 512 MiB and let 8 have them; both have a context of 300. */
	struct overhead_process p[] = {process(7, 812), process(8, 812)};
	struct usage_peek_slot s[] = {sharing(7, 512, 512, 0), sharing(8, 0, 0, 512)};

	expect(p, 2, s, 2, s, 2, 1112, 600);
}

static void what_came_from_a_process_that_has_ended_is_overhead(void **state)
{
	struct overhead_process p[] = {process(8, 812)};
	struct usage_peek_slot s[] = {sharing(7, 512, 512, 0), sharing(8, 0, 0, 512)};

	expect(p, 1, s, 2, s, 2, 812, 812);
}

static void nobody_imports_from_itself_or_more_than_there_is(void **state)
{
	struct overhead_process p[] = {process(7, 812)}, both[] = {process(7, 812), process(8, 812)};
	struct usage_peek_slot own[] = {sharing(7, 512, 512, 512)};
	struct usage_peek_slot lies[] = {sharing(7, 512, 4096, 0), sharing(8, 0, 0, 1 << 20)};

	expect(p, 1, own, 1, own, 1, 812, 300);
	expect(both, 2, lies, 2, lies, 2, 812 + 300, 300 + 300);
}

static void a_later_process_with_the_number_of_a_dead_one_has_charged_nothing(void **state)
{
	struct overhead_process p[] = {process(7, 300)};
	struct usage_peek_slot s[] = {slot(7, 1000)};

	p[0].owner.start_ticks += 5;
	expect(p, 1, s, 1, s, 1, 300, 300);
	/* In another time namespace the clock began elsewhere. */
	s[0].time_namespace = tag(8, 1);
	expect(p, 1, s, 1, s, 1, 300, 0);
}

static void signatures_of_a_former_owner_say_nothing(void **state)
{
	struct overhead_process p[] = {process(7, 300)};
	struct usage_peek_slot s[] = {slot(7, 100)};

	s[0].start_ticks = tag(5, 0);
	s[0].image = tag(5, 0);
	p[0].owner.image = 0xdef;
	expect(p, 1, s, 1, s, 1, 300, 200);
}

static void after_execve_only_the_new_programs_charge_counts(void **state)
{
	struct overhead_process p[] = {process(7, 400)};
	struct usage_peek_slot s[] = {slot(7, 1000), slot(7, 100)};

	assert_false(overhead_is_ambiguous(&p[0].owner, s, 1));
	assert_true(overhead_is_ambiguous(&p[0].owner, s, 2));
	s[1].image = tag(0xdef, 1);
	p[0].owner.image = 0xdef;
	assert_false(overhead_is_ambiguous(&p[0].owner, s, 2));
	expect(p, 1, s, 2, s, 2, 400, 300);
}

static void a_pid_of_another_namespace_is_another_process(void **state)
{
	struct overhead_process p[] = {process(7, 300)};
	struct usage_peek_slot s[] = {slot(7, 100)};

	s[0].owner = UINT64_C(1) << OWNER_GENERATION_SHIFT | owner_word(7, NAMESPACE + 1);
	expect(p, 1, s, 1, s, 1, 300, 300);
	p[0].owner.word = owner_word(7, 0);
	expect(p, 1, s, 1, s, 1, 300, 200);
}

static void a_pools_step_and_two_percent_are_no_bypass(void **state)
{
	/* 2000 + 40 + 32 */
	assert_false(watchdog_is_over(2072 * MIB, 2000 * MIB));
	assert_true(watchdog_is_over(2072 * MIB + 1, 2000 * MIB));
	assert_false(watchdog_is_over(0, 0));
}

/* ---- a usage file as anybody may have left it ---- */

static char path[64];
static int fd = -1;

static int set_up(void **state)
{
	const char *why;
	int temporary;

	strcpy(path, "/tmp/ration-overhead-XXXXXX");
	temporary = mkstemp(path);
	close(temporary);
	if (temporary < 0 || usage_file_create(path, 2, &why) < 0)
		return -1;
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	close(fd);
	return unlink(path);
}

static void put64(size_t at, uint64_t word)
{
	assert_int_equal(pwrite(fd, &word, sizeof(word), (off_t)at), sizeof(word));
}

static void put32(size_t at, uint32_t word)
{
	assert_int_equal(pwrite(fd, &word, sizeof(word), (off_t)at), sizeof(word));
}

#define SLOT(i, field)                                                                                       \
	(offsetof(struct usage_file, slots) + (i) * sizeof(struct usage_slot) +                              \
		offsetof(struct usage_slot, field))

static void a_usage_file_is_read_gpu_by_gpu(void **state)
{
	struct usage_peek_slot *slots = calloc(USAGE_FILE_SLOTS, sizeof(*slots));
	struct usage_peek peek;

	put32(offsetof(struct usage_file, slots_used), 20);
	put32(offsetof(struct usage_file, look_wanted), 3);
	put64(offsetof(struct usage_file, gpus) + 128 + offsetof(struct usage_gpu, refused), 4);
	put64(offsetof(struct usage_file, gpus) + 128 + offsetof(struct usage_gpu, refused_bytes), 5);
	put64(SLOT(19, owner), owner_word(7, 8));
	put64(SLOT(19, gpus[1]), UINT64_C(77) << 32 | 256);
	put64(SLOT(19, shared[1]), UINT64_C(128) << 32 | 64);
	put64(SLOT(3, owner), owner_word(9, 8) | OWNER_IS_HEIR);
	put64(SLOT(20, owner), owner_word(10, 8));

	assert_int_equal(usage_peek(fd, 2, &peek), 0);
	assert_int_equal(peek.gpu_count, 2);
	assert_int_equal(peek.slots_used, 20);
	assert_int_equal(peek.look_wanted, 3);
	assert_int_equal(peek.gpus[1].refused, 4);
	assert_int_equal(peek.gpus[1].refused_bytes, 5);
	assert_int_equal(peek.gpus[0].refused, 0);
	assert_int_equal(usage_peek(fd, 3, &peek), -EBADMSG);
	assert_int_equal(usage_peek_slots(fd, &peek, 1, slots), 1);
	assert_int_equal(slots[0].slot, 19);
	assert_int_equal(slots[0].held_bytes, MIB);
	assert_int_equal(slots[0].exported_bytes, MIB / 2);
	assert_int_equal(slots[0].imported_bytes, MIB / 4);
	assert_int_equal(usage_peek_slots(fd, &peek, 0, slots), 1);
	assert_int_equal(slots[0].held_bytes, 0);
	free(slots);
}

static void numbers_beyond_the_layout_are_bounded(void **state)
{
	struct usage_peek_slot *slots = calloc(USAGE_FILE_SLOTS, sizeof(*slots));
	struct usage_peek peek;

	put32(offsetof(struct usage_file, slots_used), UINT32_MAX);
	for (uint32_t i = 0; i < USAGE_FILE_SLOTS; i++)
		put64(SLOT(i, owner), owner_word(i + 1, 8));
	assert_int_equal(usage_peek(fd, 2, &peek), 0);
	assert_int_equal(peek.slots_used, USAGE_FILE_SLOTS);
	assert_int_equal(usage_peek_slots(fd, &peek, 0, slots), USAGE_FILE_SLOTS);
	put32(offsetof(struct usage_file, gpu_count), 65);
	assert_int_equal(usage_peek(fd, 2, &peek), -EBADMSG);
	free(slots);
}

static void a_file_that_is_cut_off_or_overwritten_is_no_usage_file(void **state)
{
	struct usage_peek_slot slots[USAGE_FILE_SLOTS];
	struct usage_peek peek = {.slots_used = USAGE_FILE_SLOTS};

	put32(offsetof(struct usage_file, slots_used), 1024);
	assert_int_equal(usage_peek(fd, 2, &peek), 0);
	for (off_t size = sizeof(struct usage_file) - 1; size > 0; size /= 3) {
		assert_int_equal(ftruncate(fd, size), 0);
		assert_int_equal(usage_peek_slots(fd, &peek, 0, slots), -EBADMSG);
	}
	assert_int_equal(ftruncate(fd, 16), 0);
	assert_int_equal(usage_peek(fd, 2, &peek), -EBADMSG);
	assert_int_equal(ftruncate(fd, sizeof(struct usage_file)), 0);
	put64(0, 0x4141414141414141);
	assert_int_equal(usage_peek(fd, 2, &peek), -EBADMSG);
}

int main(void)
{
#define IN_FILE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overhead_is_what_nobody_has_charged),
		cmocka_unit_test(charges_of_the_dead_hide_no_overhead_of_the_living),
		cmocka_unit_test(a_charge_before_its_allocation_is_no_credit_for_another_process),
		cmocka_unit_test(memory_in_flight_is_no_overhead),
		cmocka_unit_test(what_a_quiet_sample_showed_stays_while_calls_come_and_go),
		cmocka_unit_test(equal_numbers_of_equal_calls_are_not_nothing_happened),
		cmocka_unit_test(a_call_that_goes_on_may_hide_overhead_and_shows_no_less),
		cmocka_unit_test(what_is_not_known_yet_is_guessed_and_said_to_be),
		cmocka_unit_test(what_the_driver_may_not_have_taken_shows_no_less_overhead),
		cmocka_unit_test(calls_under_way_that_may_not_have_taken_their_surplus_show_what_is_certain),
		cmocka_unit_test(less_is_believed_the_second_time_of_who_has_pools),
		cmocka_unit_test(what_a_context_takes_is_learnt_from_the_first_of_a_process),
		cmocka_unit_test(the_knowledge_is_of_a_process_and_not_of_its_number),
		cmocka_unit_test(what_two_processes_have_counts_once),
		cmocka_unit_test(what_came_from_a_process_that_has_ended_is_overhead),
		cmocka_unit_test(nobody_imports_from_itself_or_more_than_there_is),
		cmocka_unit_test(a_later_process_with_the_number_of_a_dead_one_has_charged_nothing),
		cmocka_unit_test(signatures_of_a_former_owner_say_nothing),
		cmocka_unit_test(after_execve_only_the_new_programs_charge_counts),
		cmocka_unit_test(a_pid_of_another_namespace_is_another_process),
		cmocka_unit_test(a_pools_step_and_two_percent_are_no_bypass),
		IN_FILE(a_usage_file_is_read_gpu_by_gpu),
		IN_FILE(numbers_beyond_the_layout_are_bounded),
		IN_FILE(a_file_that_is_cut_off_or_overwritten_is_no_usage_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
