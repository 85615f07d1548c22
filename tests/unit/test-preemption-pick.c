/* Whom budgets have places for: compared with all subsets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>

#include "core/preemption/budget.h"
#include "core/preemption/preemption-pick.h"
#include "core/preemption/preemption-work.h"

#define BUDGETS 3
#define CANDIDATES 9

static const struct budget budgets[BUDGETS];

static uint64_t draw(uint64_t *random, uint64_t below)
{
	uint64_t z = *random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % below;
}

static struct candidate candidate(uint32_t units, uint32_t core, size_t budget)
{
	return (struct candidate){
		.units = units, .core = core, .n_budgets = 1, .budgets = {&budgets[budget]}};
}

static bool reaches(const struct pick *pick, unsigned set)
{
	int64_t units = 0, core = 0;
	size_t used[BUDGETS] = {0};

	for (size_t i = 0; i < pick->n; i++) {
		if (!(set & 1U << i))
			continue;
		units += pick->from[i]->units;
		core += pick->from[i]->core;
		if (++used[pick->from[i]->budgets[0] - budgets] > pick->places[i])
			return false;
	}
	return units >= pick->units && core >= pick->core;
}

static bool any_subset_reaches(const struct pick *pick)
{
	for (unsigned set = 0; set < 1U << pick->n; set++)
		if (reaches(pick, set))
			return true;
	return false;
}

static unsigned chosen(const struct pick *pick)
{
	unsigned set = 0;

	for (size_t i = 0; i < pick->n; i++)
		set |= pick->chosen[i] ? 1U << i : 0;
	return set;
}

static void random_candidates_agree_with_all_subsets(void **state)
{
	uint64_t random = 5;
	size_t found = 0, n = 20000;

	for (size_t round = 0; round < n; round++) {
		struct candidate candidates[CANDIDATES];
		size_t count = 1 + draw(&random, CANDIDATES), places[BUDGETS];
		struct pick pick = {
			.units = (int64_t)draw(&random, 30) - 2, .core = (int64_t)draw(&random, 100) - 5};

		for (size_t b = 0; b < BUDGETS; b++)
			places[b] = 1 + draw(&random, 3);
		for (size_t i = 0; i < count; i++) {
			size_t b = draw(&random, BUDGETS);

			candidates[i] = candidate(
				1 + (uint32_t)draw(&random, 9), (uint32_t)draw(&random, 40), b);
			assert_int_equal(pick_add(&pick, &candidates[i], places[b]), 0);
		}
		if (pick_within(&pick)) {
			assert_true(reaches(&pick, chosen(&pick)));
			found++;
		} else {
			assert_false(any_subset_reaches(&pick));
		}
	}
	assert_in_range(found, n / 10, n - n / 10);
}

/* Neither by units nor by points nor by their sum is b among the two largest. */
static void neither_the_largest_in_one_nor_in_both_need_be_the_right_ones(void **state)
{
	struct candidate a = candidate(9, 10, 0), b = candidate(6, 30, 0), c = candidate(1, 60, 0);
	struct pick pick = {.units = 15, .core = 40};

	assert_int_equal(pick_add(&pick, &a, 2), 0);
	assert_int_equal(pick_add(&pick, &c, 2), 0);
	assert_int_equal(pick_add(&pick, &b, 2), 0);
	assert_true(pick_within(&pick));
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pick.chosen[i], pick.from[i] != &c);
	pick.units = 16;
	assert_false(pick_within(&pick));
}

static void what_is_beyond_the_limits_is_not_chosen(void **state)
{
	struct candidate a = candidate(UINT32_MAX, UINT32_MAX, 0);
	struct pick pick = {.units = 1, .core = PICK_CORE_MAX + 1};

	assert_false(pick_within(&(struct pick){.units = 1, .core = 1}));
	for (size_t i = 0; i < PICK_MAX; i++)
		assert_int_equal(pick_add(&pick, &a, 1), 0);
	assert_int_equal(pick_add(&pick, &a, 1), -E2BIG);
	assert_false(pick_within(&pick));
	pick.core = PICK_CORE_MAX;
	assert_true(pick_within(&pick));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_candidates_agree_with_all_subsets),
		cmocka_unit_test(neither_the_largest_in_one_nor_in_both_need_be_the_right_ones),
		cmocka_unit_test(what_is_beyond_the_limits_is_not_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
