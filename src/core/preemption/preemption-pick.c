#include "core/preemption/preemption-pick.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/preemption/preemption-work.h"

/* The candidates are processed one by one. most: the most units that can come together if k candidates of the
 * present budget are chosen, and at least c percent among all chosen. -1 means that this is impossible. */
struct sieve {
	struct pick *pick;
	size_t columns; /* 0 to pick->core percent */
	int64_t *most;	/* (n + 1) x columns */
	bool *taken;	/* n x (n + 1) x columns: the candidate is among those k */
	size_t *ended;	/* n x columns, at the last candidate of a budget: how many of the budget were best */
};

static int64_t *most_of(const struct sieve *sieve, size_t k, size_t c)
{
	return &sieve->most[k * sieve->columns + c];
}

static bool *taken_of(const struct sieve *sieve, size_t i, size_t k, size_t c)
{
	return &sieve->taken[(i * (sieve->pick->n + 1) + k) * sieve->columns + c];
}

static const struct budget *budget_of(const struct sieve *sieve, size_t i)
{
	return sieve->pick->from[i]->budgets[0];
}

static bool is_last_of_budget(const struct sieve *sieve, size_t i)
{
	return i + 1 == sieve->pick->n || budget_of(sieve, i + 1) != budget_of(sieve, i);
}

static size_t without(size_t c, uint32_t core)
{
	return c > core ? c - core : 0;
}

/* k falls, so that the value at k - 1 does not include this candidate yet. */
static void sieve_add(struct sieve *sieve, size_t i, size_t most_chosen)
{
	const struct candidate *candidate = sieve->pick->from[i];

	for (size_t k = most_chosen; k > 0; k--)
		for (size_t c = 0; c < sieve->columns; c++) {
			int64_t before = *most_of(sieve, k - 1, without(c, candidate->core));

			if (before < 0 || before + candidate->units <= *most_of(sieve, k, c))
				continue;
			*most_of(sieve, k, c) = before + candidate->units;
			*taken_of(sieve, i, k, c) = true;
		}
}

/* After this, the number of candidates that were chosen of this budget no longer matters. */
static void sieve_end_budget(struct sieve *sieve, size_t i, size_t most_chosen)
{
	for (size_t c = 0; c < sieve->columns; c++) {
		size_t best = 0;

		for (size_t k = 1; k <= most_chosen; k++) {
			if (*most_of(sieve, k, c) > *most_of(sieve, best, c))
				best = k;
		}
		sieve->ended[i * sieve->columns + c] = best;
		*most_of(sieve, 0, c) = *most_of(sieve, best, c);
		for (size_t k = 1; k <= most_chosen; k++)
			*most_of(sieve, k, c) = -1;
	}
}

static void sieve_run(struct sieve *sieve)
{
	size_t seen = 0;

	for (size_t k = 0; k <= sieve->pick->n; k++)
		for (size_t c = 0; c < sieve->columns; c++)
			*most_of(sieve, k, c) = k || c ? -1 : 0;
	for (size_t i = 0; i < sieve->pick->n; i++) {
		size_t places = sieve->pick->places[i];

		seen++;
		sieve_add(sieve, i, seen < places ? seen : places);
		if (!is_last_of_budget(sieve, i))
			continue;
		sieve_end_budget(sieve, i, seen < places ? seen : places);
		seen = 0;
	}
}

static void sieve_trace(const struct sieve *sieve)
{
	size_t k = 0, c = sieve->columns - 1;

	for (size_t i = sieve->pick->n; i-- > 0;) {
		if (is_last_of_budget(sieve, i))
			k = sieve->ended[i * sieve->columns + c];
		sieve->pick->chosen[i] = *taken_of(sieve, i, k, c);
		if (!sieve->pick->chosen[i])
			continue;
		k--;
		c = without(c, sieve->pick->from[i]->core);
	}
}

int pick_add(struct pick *pick, struct candidate *candidate, size_t places)
{
	size_t at = pick->n;

	if (pick->n == PICK_MAX)
		return -E2BIG;
	for (size_t i = 0; i < pick->n; i++)
		if (pick->from[i]->budgets[0] == candidate->budgets[0])
			at = i;
	memmove(&pick->from[at + 1], &pick->from[at], (pick->n - at) * sizeof(pick->from[0]));
	memmove(&pick->places[at + 1], &pick->places[at], (pick->n - at) * sizeof(pick->places[0]));
	pick->from[at] = candidate;
	pick->places[at] = places;
	pick->n++;
	return 0;
}

bool pick_within(struct pick *pick)
{
	_cleanup_free_ int64_t *most = NULL;
	_cleanup_free_ bool *taken = NULL;
	_cleanup_free_ size_t *ended = NULL;
	struct sieve sieve = {.pick = pick, .columns = pick->core > 0 ? (size_t)pick->core + 1 : 1};
	int64_t reached;

	if (!pick->n || pick->core > PICK_CORE_MAX)
		return false;
	sieve.most = most = calloc((pick->n + 1) * sieve.columns, sizeof(*most));
	sieve.taken = taken = calloc(pick->n * (pick->n + 1) * sieve.columns, sizeof(*taken));
	sieve.ended = ended = calloc(pick->n * sieve.columns, sizeof(*ended));
	if (!most || !taken || !ended)
		return false;
	sieve_run(&sieve);
	reached = *most_of(&sieve, 0, sieve.columns - 1);
	if (reached < 0 || reached < pick->units)
		return false;
	sieve_trace(&sieve);
	return true;
}
