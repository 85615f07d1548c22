#include "shim/pacing-cost.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "grant/private.h"
#include "shim/pacing-constants.h"

#define SETS 512 /* a power of two */
#define WAYS 4
#define SPREAD_ONE 1024

struct cost {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint64_t ns;
	_Atomic uint64_t guess_ns; /* used while ns is 0; 0: there is no guess */
	_Atomic uint32_t started;  /* before there was a sample */
	_Atomic uint32_t asked;	   /* time of the last lookup */
	_Atomic uint16_t version;
	/* Protected by the lock. */
	uint8_t taken[COST_HOWS], next[COST_HOWS], failures, above;
	uint16_t cleans;	  /* how many samples clean_ns is the mean of */
	uint16_t last[COST_HOWS]; /* when the last sample of a kind came */
	uint16_t spread;	  /* mean distance of these samples from clean_ns, in parts of SPREAD_ONE */
	uint32_t samples[COST_HOWS][SAMPLES];
	uint32_t low_ns;   /* of a long launch: the shortest sample */
	uint32_t clean_ns; /* of a long launch: the cost without other containers' work, as far as it is
			      known; 0: not known */
};

_Static_assert(sizeof(struct cost) == 128, "two cache lines");

struct costs {
	_Atomic int lock;
	struct cost sets[SETS][WAYS] __attribute__((aligned(128)));
};

/* Cleared in a child of fork(). */
static void *costs; /* struct costs */

static struct costs *costs_get(void)
{
	return private_map_once(&costs, sizeof(struct costs));
}

static struct cost *find(struct cost *set, uint64_t key)
{
	for (unsigned i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&set[i].key, memory_order_relaxed) == key)
			return &set[i];
	return NULL;
}

static void forget_samples(struct cost *cost)
{
	memset(cost->taken, 0, sizeof(cost->taken));
	memset(cost->next, 0, sizeof(cost->next));
	cost->failures = 0;
	cost->above = 0;
	cost->low_ns = cost->clean_ns = 0;
}

/* Called under the lock. A free place counts as looked up at time 0, before all others. */
static struct cost *replace(struct cost *set, uint64_t key, uint32_t now)
{
	struct cost *oldest = find(set, key);

	if (oldest)
		return oldest;
	oldest = &set[0];
	for (unsigned i = 1; i < WAYS; i++)
		if ((int32_t)(atomic_load(&set[i].asked) - atomic_load(&oldest->asked)) < 0)
			oldest = &set[i];
	atomic_store(&oldest->ns, 0);
	atomic_store(&oldest->guess_ns, 0);
	atomic_store(&oldest->started, 0);
	forget_samples(oldest);
	atomic_store(&oldest->asked, now);
	atomic_store(&oldest->key, key);
	return oldest;
}

struct cost *cost_find(uint64_t key, uint32_t now)
{
	struct costs *all = costs_get();
	struct cost *set, *cost;

	if (!all)
		return NULL;
	set = all->sets[(key >> 40) % SETS];
	cost = find(set, key);
	if (!cost) {
		private_lock(&all->lock);
		cost = replace(set, key, now);
		private_unlock(&all->lock);
	}
	if (atomic_load_explicit(&cost->asked, memory_order_relaxed) != now)
		atomic_store_explicit(&cost->asked, now, memory_order_relaxed);
	return cost;
}

uint64_t cost_ns(const struct cost *cost)
{
	return atomic_load_explicit(&cost->ns, memory_order_relaxed);
}

static uint64_t guess_of(const struct cost *cost)
{
	uint64_t guess = atomic_load(&cost->guess_ns);

	return guess ? guess : COST_GUESS_NS;
}

uint64_t cost_start(struct cost *cost, uint32_t count, uint32_t *ret_unknown)
{
	uint32_t before = atomic_fetch_add(&cost->started, count);

	*ret_unknown = atomic_load(&cost->guess_ns) ? 0 : before;
	return guess_of(cost);
}

#ifdef CHARGE_ELAPSED

/* This variant also charges the work of others between the events. A test uses it to show the difference. */
static uint64_t estimate(const uint32_t *samples, uint32_t count)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += samples[i];
	return sum / count;
}

static uint64_t least(const struct cost *cost)
{
	enum cost_how how = cost->taken[COST_ALONE] ? COST_ALONE : COST_IN_A_ROW;

	return estimate(cost->samples[how], cost->taken[how]);
}

#else

static void sort(uint32_t *values, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		uint32_t value = values[i], at = i;

		for (; at > 0 && values[at - 1] > value; at--)
			values[at] = values[at - 1];
		values[at] = value;
	}
}

/* Returns the mean of the lowest samples that are close together. A duration varies a little, whereas the
 * work of another container adds at least a time slice. */
static uint64_t estimate(const uint32_t *samples, uint32_t count)
{
	uint32_t sorted[SAMPLES], same = 1;
	uint64_t sum;

	memcpy(sorted, samples, count * sizeof(sorted[0]));
	sort(sorted, count);
	sum = sorted[0];
	while (same < count && sorted[same] <= sorted[same - 1] + sorted[same - 1] / GAP_PART &&
		sorted[same] <= sorted[0] + sorted[0] / 2)
		sum += sorted[same++];
	return sum / same;
}

/* Both ways of measuring give too much, so the lower result is better. */
static uint64_t least(const struct cost *cost)
{
	uint64_t lowest = UINT64_MAX;

	for (unsigned how = 0; how < COST_HOWS; how++) {
		uint64_t found = cost->taken[how] ? estimate(cost->samples[how], cost->taken[how])
						  : UINT64_MAX;

		if (how == COST_ALONE && found != UINT64_MAX)
			found += RESOLUTION_NS;
		lowest = found < lowest ? found : lowest;
	}
	return lowest;
}

#endif

/* The cost moves slowly. If other containers always use the GPU, good samples come by chance, and the keeper
 * cannot correct an estimate that jumps. The first samples are used at once, because there are no others. */
static uint64_t follow(const struct cost *cost, uint64_t ns, uint64_t found)
{
	if (ns == 0 || cost->taken[COST_ALONE] + cost->taken[COST_IN_A_ROW] <= FIRST_SAMPLES)
		return found;
	return found < ns ? ns - (ns - found + 7) / 8 : ns + (found - ns + 7) / 8;
}

static bool is_long(const struct cost *cost, enum cost_how how, uint64_t ns)
{
#ifdef CHARGE_ELAPSED
	return false;
#else
	return how == COST_ALONE && ns >= COST_LONG_NS;
#endif
}

/* A clean sample is as long as the shortest one, if the duration varies by 20 % to both sides. As soon as the
 * variation is known, it must be within it. (For an even distribution the ends are twice the mean distance
 * away.) */
static bool is_clean(const struct cost *cost, uint64_t took)
{
	uint64_t mean = cost->clean_ns;

	if (took > cost->low_ns + cost->low_ns / 2)
		return false;
	return cost->cleans < SURE_SAMPLES ||
	       took <= mean + mean / SPREAD_LEAST + mean * cost->spread / SPREAD_ONE * 5 / 2;
}

static void mean_moves(struct cost *cost, uint64_t took)
{
	int64_t moves, off;

	if (cost->cleans < CLEAN_MOST)
		cost->cleans++;
	moves = ((int64_t)took - (int64_t)cost->clean_ns) / cost->cleans;
	off = llabs((int64_t)took - (int64_t)cost->clean_ns) * SPREAD_ONE / cost->clean_ns;
	cost->clean_ns = (uint32_t)(cost->clean_ns + moves);
	cost->spread = (uint16_t)(cost->spread + (off - cost->spread) / cost->cleans);
}

/* All samples are longer than the best one: either other containers always use the GPU, or the launch does
 * more than before. Only the driver knows, and through it the keeper, which then sees more use than was
 * charged. */
static bool may_rise(uint32_t factor)
{
	return factor == COST_FACTOR_ONE || factor < COST_FACTOR_ONE - COST_FACTOR_ONE / 10;
}

/* A lower sample had the GPU for itself. The keeper may already have corrected a charge that was too high. So
 * the charge may fall no faster than the keeper sees it. */
static uint64_t fall(struct cost *cost, uint64_t ns, uint64_t took, uint32_t factor)
{
	double by = factor > COST_FACTOR_ONE ? (double)factor / COST_FACTOR_ONE : 1;
	uint64_t corrected = (uint64_t)((double)took * by);

	cost->low_ns = cost->clean_ns = (uint32_t)took;
	cost->cleans = 1;
	cost->spread = 0;
	return corrected < ns ? corrected : ns;
}

/* For a launch that may be longer than a time slice. */
static uint64_t follow_long(struct cost *cost, uint64_t ns, uint64_t took, uint32_t factor)
{
	uint32_t before;

	took = took < UINT32_MAX ? took : UINT32_MAX;
	if (cost->low_ns == 0) {
		cost->low_ns = cost->clean_ns = (uint32_t)(ns < UINT32_MAX ? ns : UINT32_MAX);
		cost->cleans = 1;
		cost->spread = 0;
	}
	if (took < cost->low_ns - cost->low_ns / 3)
		return fall(cost, ns, took, factor);
	if (took < cost->low_ns)
		cost->low_ns = (uint32_t)took;
	if (!is_clean(cost, took)) {
		if (cost->above < LONG_MEMORY)
			cost->above++;
		else if (may_rise(factor)) {
			cost->low_ns += cost->low_ns / CLEAN_MOST;
			cost->spread = 2 * SPREAD_ONE; /* the variation must be measured anew */
		}
		return ns;
	}
	cost->above = 0;
	before = cost->clean_ns;
	mean_moves(cost, took);
	ns = ns + cost->clean_ns - before;
	if (ns < cost->clean_ns)
		return cost->clean_ns;
	return ns - (uint64_t)((double)(ns - cost->clean_ns) * (double)took / (double)DRIFT_NS);
}

uint64_t cost_of(const struct cost *cost, uint64_t took_ns)
{
	uint64_t ns = cost_ns(cost), clean = cost->clean_ns;

	if (ns < COST_LONG_NS || clean == 0 || !is_clean(cost, took_ns))
		return 0;
	return (uint64_t)((double)took_ns * (double)ns / (double)clean);
}

bool cost_is_unsure(const struct cost *cost)
{
	return cost_ns(cost) >= COST_LONG_NS && cost->taken[COST_ALONE] < SURE_SAMPLES;
}

static void keep(struct cost *cost, enum cost_how how, uint64_t ns)
{
	enum cost_how other = how == COST_ALONE ? COST_IN_A_ROW : COST_ALONE;

	cost->last[how] = (uint16_t)atomic_load(&cost->asked);
	if ((uint16_t)(cost->last[how] - cost->last[other]) > STALE_DRAWS)
		cost->taken[other] = cost->next[other] = 0;
	cost->samples[how][cost->next[how]] = ns < 1 ? 1 : ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
	cost->next[how] = (uint8_t)((cost->next[how] + 1) % SAMPLES);
	if (cost->taken[how] < SAMPLES)
		cost->taken[how]++;
}

void cost_unstart(struct cost *cost, uint32_t count)
{
	uint32_t started = atomic_load(&cost->started);

	/* A sample that came meanwhile has counted them; then they are in no sum. */
	while (started >= count && !atomic_compare_exchange_weak(&cost->started, &started, started - count))
		continue;
}

uint16_t cost_version(const struct cost *cost)
{
	return atomic_load(&cost->version);
}

int64_t cost_sample(
	struct cost *cost, uint64_t key, uint16_t version, enum cost_how how, uint64_t ns, uint32_t factor)
{
	struct costs *all = costs_get();
	int64_t due = 0;
	uint64_t found, before, now;

	private_lock(&all->lock);
	if (atomic_load(&cost->key) == key && atomic_load(&cost->version) == version) {
		keep(cost, how, ns);
		found = least(cost);
		before = atomic_load(&cost->ns);
		now = before && is_long(cost, how, before) ? follow_long(cost, before, ns, factor)
							   : follow(cost, before, found);
		atomic_store(&cost->ns, now);
		if (!before)
			before = guess_of(cost);
		else if (now >= before - before / 4)
			now = before;
		due = ((int64_t)now - (int64_t)before) * atomic_load(&cost->started);
		if (now < before || !cost_is_unsure(cost))
			atomic_store(&cost->started, 0);
	}
	private_unlock(&all->lock);
	return due;
}

void cost_failed(struct cost *cost, uint64_t key)
{
	struct costs *all = costs_get();

	private_lock(&all->lock);
	if (atomic_load(&cost->key) == key && ++cost->failures >= FAILURES_MAX &&
		atomic_load(&cost->ns) == 0) {
		atomic_store(&cost->ns, guess_of(cost));
		atomic_store(&cost->started, 0);
	}
	private_unlock(&all->lock);
}

void cost_renew(uint64_t key)
{
	struct costs *all = costs_get();
	struct cost *cost;

	if (!all)
		return;
	private_lock(&all->lock);
	cost = find(all->sets[(key >> 40) % SETS], key);
	if (cost && atomic_load(&cost->ns) != 0) {
		forget_samples(cost);
		atomic_fetch_add(&cost->version, 1);
		atomic_store(&cost->guess_ns, atomic_load(&cost->ns));
		atomic_store(&cost->ns, 0);
		atomic_store(&cost->started, 0);
	}
	private_unlock(&all->lock);
}
