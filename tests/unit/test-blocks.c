/* The blocks that small allocations share. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shim/memory-blocks.h"
#include "shim/memory.h"
#include "shim/objects.h"

#define GRAIN 256
#define BLOCKS 3
#define PLACES ((unsigned)(BLOCKS * MEMORY_BLOCK / GRAIN))
#define BASE (UINT64_C(0x7f) << 32)

/* What the blocks point to is in a table that lives as long as the process. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:make_room\nleak:begin_block";
}

static const struct memory_here here = {.index = 1, .stamp = 1};
static int rooms; /* blocks that the context knows */

struct memory_here context_of(const struct object *object)
{
	return (struct memory_here){object->index, object->gpu, object->stamp};
}

void context_block_changed(const struct memory_here *ignored, int from_free, int to_free)
{
	rooms += (to_free >= 0) - (from_free >= 0);
}

static uint64_t address_of(unsigned place)
{
	return BASE + (uint64_t)place * GRAIN;
}

/* Allocates; true if the block is charged already. */
static bool join(const struct memory_here *where, uint64_t address, uint64_t size)
{
	bool paid;

	assert_true(block_holds(address, size));
	assert_int_equal(block_join(where, address, size, &paid), 0);
	return paid;
}

static void join_and_pay(const struct memory_here *where, uint64_t address, uint64_t size)
{
	if (!join(where, address, size))
		assert_true(block_pay(where, address));
}

/* Frees; true if the block's charge is to be given back. */
static bool leave(uint64_t address)
{
	struct memory_here where;
	uint64_t size;

	assert_true(block_take(address, &where, &size));
	assert_false(block_find(address, &where, &size));
	return block_leave(&where, address, size);
}

static void which_requests_share_blocks(void **state)
{
	assert_true(block_holds(BASE, 1));
	assert_true(block_holds(BASE, MEMORY_SMALL_MAX));
	assert_true(block_holds(BASE + MEMORY_BLOCK - GRAIN, GRAIN));
	assert_false(block_holds(BASE, 0));
	assert_false(block_holds(BASE, MEMORY_SMALL_MAX + 1));
	assert_false(block_holds(BASE + MEMORY_BLOCK - GRAIN, GRAIN + 1));
	assert_false(block_holds(BASE + 1, 1));
}

static void a_block_is_charged_from_its_first_allocation_to_its_last(void **state)
{
	assert_false(join(&here, BASE, 1));
	assert_true(block_pay(&here, BASE));
	assert_true(join(&here, BASE + 512, MEMORY_SMALL_MAX));
	assert_int_equal(rooms, 1);
	assert_false(leave(BASE));
	assert_true(leave(BASE + 512));
	assert_int_equal(rooms, 0);
	assert_false(join(&here, BASE, 1));
	assert_false(leave(BASE));
}

/* Two threads get the same new block, and only one charge succeeds. */
static void whoever_can_pay_a_block_pays_it_once(void **state)
{
	assert_false(join(&here, BASE, 4096));
	assert_false(join(&here, BASE + 4096, 4096));
	assert_false(leave(BASE)); /* refused: not charged, so nothing to give back */
	assert_true(block_pay(&here, BASE + 4096));
	assert_true(join(&here, BASE, 4096));
	assert_false(block_pay(&here, BASE));
	assert_false(leave(BASE + 4096));
	assert_true(leave(BASE));
}

static void a_block_that_nobody_could_pay_gives_nothing_back(void **state)
{
	assert_false(join(&here, BASE, 4096));
	assert_false(join(&here, BASE + 4096, 4096));
	assert_false(leave(BASE));
	assert_false(leave(BASE + 4096));
	assert_int_equal(rooms, 0);
}

static void what_the_driver_did_not_free_is_found_again(void **state)
{
	struct memory_here where;
	uint64_t size;

	join_and_pay(&here, BASE + 2 * GRAIN, 5 * GRAIN - 1);
	assert_true(block_take(BASE + 2 * GRAIN, &where, &size));
	block_restore(&where, BASE + 2 * GRAIN, size);
	assert_true(block_find(BASE + 2 * GRAIN, &where, &size));
	assert_int_equal(size, 5 * GRAIN);
	assert_true(leave(BASE + 2 * GRAIN));
}

static void allocations_of_a_context_that_has_ended_are_nothing(void **state)
{
	static const struct memory_here next = {.index = 1, .stamp = 2};
	struct memory_here where;
	uint64_t size;

	join_and_pay(&here, BASE, 4096);
	join_and_pay(&here, BASE + 8192, 4096);
	join_and_pay(&here, BASE + 16384, 4096);
	assert_true(block_take(BASE + 16384, &where, &size));
	assert_false(join(&next, BASE + 8192, 512)); /* of the new one; the block is not charged for it */
	assert_true(block_pay(&next, BASE));
	assert_false(block_find(BASE, &where, &size));
	assert_false(block_leave(&here, BASE, 4096));
	block_restore(&here, BASE + 16384, 4096);
	assert_false(block_find(BASE + 16384, &where, &size));
	assert_true(leave(BASE + 8192));
	rooms = 0; /* the end of a context forgets them */
}

/* What holds, place by place: the size of the allocation that begins there. Some are freed in a way that no
 * hook sees, and the driver gives their addresses again. */
static uint64_t sizes[PLACES];
static int used[BLOCKS];

static bool is_free(unsigned place, uint64_t size)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (sizes[i] && i < place + (size + GRAIN - 1) / GRAIN &&
			place < i + (sizes[i] + GRAIN - 1) / GRAIN)
			return false;
	return true;
}

static void check(unsigned place)
{
	struct memory_here where;
	uint64_t size;

	assert_int_equal(block_find(address_of(place), &where, &size), sizes[place] != 0);
	if (sizes[place])
		assert_int_equal(size, (sizes[place] + GRAIN - 1) / GRAIN * GRAIN);
}

static void a_random_history_stays_exact(void **state)
{
	srandom(7);
	memset(sizes, 0, sizeof(sizes));
	for (unsigned i = 0; i < 30000; i++) {
		unsigned place = (unsigned)random() % 400 * 61 % PLACES, block = place / (PLACES / BLOCKS);
		uint64_t size = 1 + (uint64_t)random() % (random() % 8 ? 8 * GRAIN : 300 * GRAIN);

		if (sizes[place]) {
			check(place);
			assert_int_equal(leave(address_of(place)), --used[block] == 0);
			sizes[place] = 0;
		} else if (block_holds(address_of(place), size) && is_free(place, size)) {
			assert_int_equal(join(&here, address_of(place), size), used[block]++ > 0);
			block_pay(&here, address_of(place));
			sizes[place] = size;
		}
		check(place);
	}
	for (unsigned i = 0; i < PLACES; i++)
		check(i);
	for (unsigned i = 0; i < PLACES; i++)
		if (sizes[i])
			assert_int_equal(leave(address_of(i)), --used[i / (PLACES / BLOCKS)] == 0);
	assert_int_equal(rooms, 0);
}

static void an_address_that_was_freed_unseen_is_that_of_the_new_allocation(void **state)
{
	struct memory_here where;
	uint64_t size;

	join_and_pay(&here, BASE, 100 * GRAIN);
	join_and_pay(&here, BASE + 100 * GRAIN, 100 * GRAIN);
	join_and_pay(&here, BASE + 50 * GRAIN, 100 * GRAIN); /* both were freed unseen */
	assert_true(block_find(BASE + 50 * GRAIN, &where, &size));
	assert_int_equal(size, 100 * GRAIN);
	assert_false(block_find(BASE + 100 * GRAIN, &where, &size));
	join_and_pay(&here, BASE, 10 * GRAIN);
	assert_true(block_find(BASE, &where, &size));
	assert_int_equal(size, 10 * GRAIN);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_requests_share_blocks),
		cmocka_unit_test(a_block_is_charged_from_its_first_allocation_to_its_last),
		cmocka_unit_test(whoever_can_pay_a_block_pays_it_once),
		cmocka_unit_test(a_block_that_nobody_could_pay_gives_nothing_back),
		cmocka_unit_test(what_the_driver_did_not_free_is_found_again),
		cmocka_unit_test(allocations_of_a_context_that_has_ended_are_nothing),
		cmocka_unit_test(a_random_history_stays_exact),
		cmocka_unit_test(an_address_that_was_freed_unseen_is_that_of_the_new_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
