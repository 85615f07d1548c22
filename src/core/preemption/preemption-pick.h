/* preemption-pick.h - whom a budget has places for, where a GPU is short of memory and computing power. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct candidate;

#define PICK_MAX 64	  /* candidates */
#define PICK_CORE_MAX 400 /* percent */

struct pick {
	int64_t units, core; /* what has to come together */
	struct candidate *from[PICK_MAX];
	size_t places[PICK_MAX]; /* of each one's budget */
	size_t n;
	bool chosen[PICK_MAX];
};

/* pick_add() - a candidate of exactly one budget, which has so many places. -E2BIG beyond PICK_MAX. */
int pick_add(struct pick *pick, struct candidate *candidate, size_t places);

/* pick_within() - of each budget at most as many as it has places for, so that both sums are reached, however
 * that is done: all is tried, in n^2 x core steps. False if nothing does, if more than PICK_CORE_MAX is
 * missing, or without memory; pick->chosen is undefined then. */
bool pick_within(struct pick *pick);
