/* pacing-cost.h - what starting something costs: how long it has the card for itself, as measured before.
 *
 * A table with a limit, by what is started (function and shape, a graph, 64 KiB of a copy); who comes new
 * takes the place of who was not asked for longest. A sample is how long it took with whatever else the card
 * did in between, so it is never too short: the estimate follows the lowest of the last samples. Empty in a
 * child of fork(). Any thread; the place of a cost may become another's at any time, which a key tells.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cost;

/* cost_key() - of what identifies it; never 0. */
static inline uint64_t cost_key(const uint64_t *words, size_t count)
{
	uint64_t h = UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < count; i++) {
		h = (h ^ words[i]) * UINT64_C(0xd6e8feb86659fd93);
		h ^= h >> 32;
	}
	return h | 1;
}

/* cost_find() - its place, new if it was not there. NULL: no memory. `now` counts up from time to time: by it
 * is judged who was not asked for longest. */
struct cost *cost_find(uint64_t key, uint32_t now);

/* cost_ns() - of one; 0: it was never measured. */
uint64_t cost_ns(const struct cost *cost);

/* cost_started() - `count` more were started before there was a sample, each charged COST_GUESS_NS. Returns
 * how many now. */
#define COST_GUESS_NS UINT64_C(5000)
uint32_t cost_started(struct cost *cost, uint32_t count);

/* cost_sample() - one took ns, or less. Returns what is still to be charged for those that were started
 * before this first sample: may be negative. Nothing where the place is another's by now. */
int64_t cost_sample(struct cost *cost, uint64_t key, uint64_t ns);

/* cost_failed() - it could not be measured. After some of these the guess is taken for the cost. */
void cost_failed(struct cost *cost, uint64_t key);

/* cost_renew() - what has this key is not what it was: the next sample counts alone, and the old cost until
 * then. */
void cost_renew(uint64_t key);
