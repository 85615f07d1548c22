/* random.h - splitmix64: one stream per object of the simulation, so that taking one pod out of a history
 * leaves the delays of the others as they were. */
#pragma once

#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline void random_seed(struct random *random, uint64_t seed, uint64_t stream)
{
	random->state = seed * UINT64_C(0xd1342543de82ef95) + stream * UINT64_C(0xaf251af3b0f025b5);
	random_next(random);
}

/* 0 <= result < n; n > 0 */
static inline uint32_t random_below(struct random *random, uint32_t n)
{
	return (uint32_t)(((random_next(random) >> 32) * n) >> 32);
}

/* from <= result <= to */
static inline int64_t random_between(struct random *random, int64_t from, int64_t to)
{
	return from + (int64_t)(random_next(random) % (uint64_t)(to - from + 1));
}

/* One in n. */
static inline int random_one_in(struct random *random, uint32_t n)
{
	return random_below(random, n) == 0;
}
