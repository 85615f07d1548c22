/* pacing-cost.h - what starting something costs: how long it has the GPU for itself, as measured before.
 *
 * A table with a limit, by what is started (function and shape, a graph, 64 KiB of a copy); who comes new
 * takes the place of who was not asked for longest. A sample is how long it took with whatever else the GPU
 * did in between, so it is too short by chance only: the estimate is the mean of the low ones among the last.
 * Empty in a child of fork(). Any thread; the place of a cost may become another's at any time, which a key
 * tells.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cost;

#define COST_KEY_WORDS 7

/* cost_key() - of what identifies it, at most COST_KEY_WORDS; never 0. At each launch: of the multiplications
 * none waits for another. */
static inline uint64_t cost_key(const uint64_t *words, size_t count)
{
	static const uint64_t odd[COST_KEY_WORDS] = {UINT64_C(0xd6e8feb86659fd93),
		UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbf58476d1ce4e5b9), UINT64_C(0x94d049bb133111eb),
		UINT64_C(0xff51afd7ed558ccd), UINT64_C(0xc4ceb9fe1a85ec53), UINT64_C(0x2545f4914f6cdd1d)};
	uint64_t h = count;

	for (size_t i = 0; i < count; i++)
		h += words[i] * odd[i];
	h = (h ^ h >> 32) * odd[0];
	return (h ^ h >> 32) | 1;
}

/* cost_find() - its place, new if it was not there. NULL: no memory. `now` counts up from time to time: by it
 * is judged who was not asked for longest. */
struct cost *cost_find(uint64_t key, uint32_t now);

/* cost_ns() - of one; 0: it is to be measured. */
uint64_t cost_ns(const struct cost *cost);

/* cost_is_unsure() - of a launch that may be longer than a time slice: too few samples to believe that nobody
 * else was at work in the lowest of them. */
bool cost_is_unsure(const struct cost *cost);

/* cost_start() - `count` are started before there is a sample. Returns what each is charged until then;
 * *ret_unknown: how many there were before, if nothing at all is known of them. */
uint64_t cost_start(struct cost *cost, uint32_t count, uint32_t *ret_unknown);

/* cost_unstart() - the driver refused them. */
void cost_unstart(struct cost *cost, uint32_t count);

/* How it was measured, which decides what a sample has too much: by itself, with what a launch takes on its
 * way; in a row with others, with the pauses between them. */
enum cost_how { COST_ALONE, COST_IN_A_ROW, COST_HOWS };

/* cost_version() - one more with each cost_renew(): a sample is of the version that was there at the start.
 */
uint16_t cost_version(const struct cost *cost);

/* cost_sample() - one took ns, or less. Returns what is still to be charged for those that were started
 * before this first sample: may be negative. Nothing where the place, or the version, is another by now. */
#define COST_FACTOR_ONE 1000000
int64_t cost_sample(
	struct cost *cost, uint64_t key, uint16_t version, enum cost_how how, uint64_t ns, uint32_t factor);

/* cost_of() - what is to be charged for a long launch that took so long, measured by itself; 0: others were
 * at work too. */
uint64_t cost_of(const struct cost *cost, uint64_t took_ns);

/* cost_failed() - it could not be measured. After some of these the guess is taken for the cost. */
void cost_failed(struct cost *cost, uint64_t key);

/* cost_renew() - what has this key is not what it was: it is to be measured, and charged as before until
 * then. */
void cost_renew(uint64_t key);
