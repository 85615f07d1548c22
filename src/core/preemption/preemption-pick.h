/* preemption-pick.h - chooses victims within their budgets when a GPU is short of memory and of computing
 * power. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct candidate;

#define PICK_MAX 64	  /* candidates */
#define PICK_CORE_MAX 400 /* percent */

struct pick {
	int64_t units, core; /* what the chosen candidates must free together */
	struct candidate *from[PICK_MAX];
	size_t places[PICK_MAX]; /* how many more pods the budget of each candidate lets go */
	size_t n;
	bool chosen[PICK_MAX];
};

/* pick_add() - adds a candidate of exactly one budget, which has this many places. -E2BIG beyond PICK_MAX. */
int pick_add(struct pick *pick, struct candidate *candidate, size_t places);

/* pick_within() - chooses at most as many of each budget as it has places, so that both sums are reached. It
 * finds a choice if one exists, in n^2 x core steps. False if no choice exists, if more than PICK_CORE_MAX is
 * missing, or if memory runs out; pick->chosen is undefined then. */
bool pick_within(struct pick *pick);
