#include "shim/pacing-cost.h"

#include <stdatomic.h>
#include <string.h>

#include "grant/private.h"

#define SETS 512 /* a power of two */
#define WAYS 4
#define SAMPLES 22
#define FAILURES_MAX 4
/* Samples this close to the lowest are the same duration, measured with another error. */
#define SAME_NUMERATOR 9
#define SAME_DENOMINATOR 8

struct cost {
	_Atomic uint64_t key; /* 0: free */
	_Atomic uint64_t ns;
	_Atomic uint32_t started; /* before there was a sample */
	_Atomic uint32_t asked;	  /* when last */
	/* Under the lock. */
	uint32_t taken; /* samples, ever; the last SAMPLES are kept */
	uint32_t failures;
	uint32_t samples[SAMPLES];
};

_Static_assert(sizeof(struct cost) == 120 || sizeof(struct cost) == 128, "two lines of a processor's cache");

struct costs {
	_Atomic int lock;
	struct cost sets[SETS][WAYS] __attribute__((aligned(128)));
};

/* Cleared in a child. */
static struct costs *costs;

static struct costs *costs_get(void)
{
	struct costs *made = __atomic_load_n(&costs, __ATOMIC_ACQUIRE), *expected = NULL;
	bool cleared;

	if (made)
		return made;
	made = private_map(sizeof(*made), &cleared);
	if (!made || __atomic_compare_exchange_n(
			     &costs, &expected, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	private_unmap(made, sizeof(*made));
	return expected;
}

static struct cost *find(struct cost *set, uint64_t key)
{
	for (unsigned i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&set[i].key, memory_order_relaxed) == key)
			return &set[i];
	return NULL;
}

/* Under the lock. A free place was asked for at 0, before all others. */
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
	atomic_store(&oldest->started, 0);
	oldest->taken = oldest->failures = 0;
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

uint32_t cost_started(struct cost *cost, uint32_t count)
{
	return atomic_fetch_add(&cost->started, count) + count;
}

#ifdef CHARGE_ELAPSED

/* What others do in between is charged too: how not to do it, so that a test can see the difference. */
static uint64_t estimate(const uint32_t *samples, uint32_t count)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += samples[i];
	return sum / count;
}

#else

/* The mean of those that are as good as the lowest but one: a single sample may be too short by an error of
 * the clock. */
static uint64_t estimate(const uint32_t *samples, uint32_t count)
{
	uint64_t lowest = UINT32_MAX, second = UINT32_MAX, sum = 0, same = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (samples[i] < lowest) {
			second = lowest;
			lowest = samples[i];
		} else if (samples[i] < second) {
			second = samples[i];
		}
	}
	if (count < 3)
		return lowest;
	for (uint32_t i = 0; i < count; i++) {
		if ((uint64_t)samples[i] * SAME_DENOMINATOR > second * SAME_NUMERATOR)
			continue;
		sum += samples[i];
		same++;
	}
	return sum / same;
}

#endif

/* Down at once, up slowly: when others are always there, most samples are too long, and an estimate that
 * jumps between them and the good ones cannot be corrected by anybody. */
static uint64_t follow(uint64_t ns, uint64_t found)
{
	return ns == 0 || found <= ns ? found : ns + (found - ns + 7) / 8;
}

int64_t cost_sample(struct cost *cost, uint64_t key, uint64_t ns)
{
	struct costs *all = costs_get();
	int64_t due = 0;
	uint64_t old, found;

	private_lock(&all->lock);
	if (atomic_load(&cost->key) == key) {
		cost->samples[cost->taken++ % SAMPLES] = ns < 1		   ? 1
							 : ns < UINT32_MAX ? (uint32_t)ns
									   : UINT32_MAX;
		found = estimate(cost->samples, cost->taken < SAMPLES ? cost->taken : SAMPLES);
		old = atomic_load(&cost->ns);
		atomic_store(&cost->ns, follow(cost->taken == 1 ? 0 : old, found));
		due = ((int64_t)found - (int64_t)COST_GUESS_NS) * atomic_exchange(&cost->started, 0);
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
		atomic_store(&cost->ns, COST_GUESS_NS);
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
	if (cost)
		cost->taken = cost->failures = 0;
	private_unlock(&all->lock);
}
