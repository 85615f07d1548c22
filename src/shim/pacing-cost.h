/* pacing-cost.h - what it costs to start something: how long it has the GPU for itself, as measured before.
 *
 * A table of limited size, keyed by what is started (function and shape, a graph, 64 KiB of a copy). A new
 * key replaces the one that was looked up least recently. A sample is the time that the work took together
 * with whatever else the GPU did meanwhile. It is too short only by chance, so the estimate is the mean of
 * the low ones among the last samples.
 *
 * Empty in a child of fork(). Any thread may call. The place of a cost may be given to another key at any
 * time; the stored key shows it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cost;

#define COST_KEY_WORDS 7

/* cost_key() - the hash of what identifies the work, at most COST_KEY_WORDS words; never 0. It runs at each
 * launch, so its multiplications do not depend on each other. */
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

/* cost_find() - the place of a key, new if it was not there. NULL: out of memory. `now` increases from time
 * to time and decides which key was looked up least recently. */
struct cost *cost_find(uint64_t key, uint32_t now);

/* cost_ns() - the cost of one; 0: it must be measured. */
uint64_t cost_ns(const struct cost *cost);

/* cost_is_unsure() - for a launch that may be longer than a time slice: there are too few samples to assume
 * that the lowest ones contain no work of other containers. */
bool cost_is_unsure(const struct cost *cost);

/* cost_start() - notes that `count` are started before there is a sample. Returns the charge of each until
 * then. *ret_unknown: how many were started before, if nothing is known of them. */
uint64_t cost_start(struct cost *cost, uint32_t count, uint32_t *ret_unknown);

/* cost_unstart() - takes cost_start() back, because the driver refused them. */
void cost_unstart(struct cost *cost, uint32_t count);

/* How it was measured, which decides what makes a sample too long. Alone: the latency of a launch. In a row:
 * the pauses between launches. */
enum cost_how { COST_ALONE, COST_IN_A_ROW, COST_HOWS };

/* cost_version() - incremented by each cost_renew(). A sample belongs to the version at its start. */
uint16_t cost_version(const struct cost *cost);

/* cost_sample() - reports that one took ns, or less. Returns what is still to be charged for launches that
 * were started before this first sample; it may be negative. 0 if the place or the version has changed
 * meanwhile. */
#define COST_FACTOR_ONE 1000000
int64_t cost_sample(
	struct cost *cost, uint64_t key, uint16_t version, enum cost_how how, uint64_t ns, uint32_t factor);

/* cost_of() - the charge for a long launch that took this long, measured by itself; 0: other containers were
 * at work too. */
uint64_t cost_of(const struct cost *cost, uint64_t took_ns);

/* cost_failed() - it could not be measured. After several failures the guess becomes the cost. */
void cost_failed(struct cost *cost, uint64_t key);

/* cost_renew() - the work with this key has changed. It must be measured again, and is charged as before
 * until then. */
void cost_renew(uint64_t key);
