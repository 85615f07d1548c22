#include "grant/token-bucket.h"

/* 36 signed bits of credit are 34 seconds. 28 bits of steps wrap around after 3.7 hours. */
#define CREDIT_BITS 36
#define CREDIT_MASK ((UINT64_C(1) << CREDIT_BITS) - 1)
#define STEPS_MASK ((UINT64_C(1) << (64 - CREDIT_BITS)) - 1)
#define STEPS_PER_MS (1000000 / TOKEN_BUCKET_STEP_NS)
/* A thread reads its clock before it changes the word, so its time may be older than the time in the word. A
 * larger difference means that the step counter wrapped during a long rest, or that the word is damaged. */
#define AHEAD_MAX (UINT64_C(1000) * STEPS_PER_MS)

static uint64_t pack(int64_t credit, uint64_t steps)
{
	return ((uint64_t)credit & CREDIT_MASK) | steps << CREDIT_BITS;
}

static int64_t credit_of(uint64_t word)
{
	return (int64_t)(word << (64 - CREDIT_BITS)) >> (64 - CREDIT_BITS);
}

static int64_t per_step(uint64_t rate)
{
	uint64_t bounded = rate < TOKEN_BUCKET_RATE_MAX ? rate : TOKEN_BUCKET_RATE_MAX;

	return bounded < STEPS_PER_MS ? 1 : (int64_t)(bounded / STEPS_PER_MS);
}

static int64_t bounded(int64_t credit, int64_t most)
{
	if (credit > most)
		return most;
	return credit < -TOKEN_BUCKET_DEBT_MAX_NS ? -TOKEN_BUCKET_DEBT_MAX_NS : credit;
}

uint64_t token_bucket_burst_ns(uint64_t rate)
{
	return (uint64_t)per_step(rate) * TOKEN_BUCKET_BURST_STEPS;
}

static int64_t most_of(uint64_t rate, uint64_t save_ns)
{
	uint64_t burst = token_bucket_burst_ns(rate);

	if (save_ns > (uint64_t)TOKEN_BUCKET_DEBT_MAX_NS)
		save_ns = TOKEN_BUCKET_DEBT_MAX_NS;
	return (int64_t)(save_ns > burst ? save_ns : burst);
}

/* Returns the word as it is at now_ns. */
static uint64_t refill(uint64_t word, uint64_t now_ns, uint64_t rate, uint64_t save_ns)
{
	uint64_t now = (now_ns / TOKEN_BUCKET_STEP_NS) & STEPS_MASK, then = word >> CREDIT_BITS;
	uint64_t passed = (now - then) & STEPS_MASK;
	int64_t most = most_of(rate, save_ns);
	int64_t credit = bounded(credit_of(word), most);

	if (passed > STEPS_MASK - AHEAD_MAX)
		return pack(credit, then);
	return pack(bounded(credit + (int64_t)passed * per_step(rate), most), now);
}

/* The time from now_ns until the step whose refill makes the credit positive. */
static uint64_t wait_of(uint64_t word, uint64_t now_ns, uint64_t rate)
{
	uint64_t now = (now_ns / TOKEN_BUCKET_STEP_NS) & STEPS_MASK;
	uint64_t ahead = ((word >> CREDIT_BITS) - now) & STEPS_MASK;
	uint64_t steps = ahead + (uint64_t)(-credit_of(word) / per_step(rate)) + 1;

	return steps * TOKEN_BUCKET_STEP_NS - now_ns % TOKEN_BUCKET_STEP_NS;
}

uint64_t token_bucket_draw_saving(
	_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, uint64_t want_ns, uint64_t save_ns)
{
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed), full, left;
	int64_t want = want_ns < (uint64_t)TOKEN_BUCKET_DEBT_MAX_NS ? (int64_t)want_ns
								    : TOKEN_BUCKET_DEBT_MAX_NS;

	do {
		full = refill(old, now_ns, rate, save_ns);
		left = full;
		if (credit_of(full) > 0)
			left = pack(bounded(credit_of(full) - want, INT64_MAX), full >> CREDIT_BITS);
		/* The refill is stored even if nothing is taken, so that time that has passed counts at the
		 * rate of that time and not at a later one. */
	} while (left != old && !atomic_compare_exchange_weak_explicit(
					word, &old, left, memory_order_relaxed, memory_order_relaxed));
	return credit_of(full) > 0 ? 0 : wait_of(full, now_ns, rate);
}

uint64_t token_bucket_draw(_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, uint64_t want_ns)
{
	return token_bucket_draw_saving(word, now_ns, rate, want_ns, 0);
}

void token_bucket_change(_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, int64_t ns, uint64_t save_ns)
{
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed), full, changed;
	int64_t change = bounded(ns, TOKEN_BUCKET_DEBT_MAX_NS);

	do {
		full = refill(old, now_ns, rate, save_ns);
		changed = pack(
			bounded(credit_of(full) + change, most_of(rate, save_ns)), full >> CREDIT_BITS);
	} while (!atomic_compare_exchange_weak_explicit(
		word, &old, changed, memory_order_relaxed, memory_order_relaxed));
}

int64_t token_bucket_left_ns(uint64_t word, uint64_t now_ns, uint64_t rate)
{
	return credit_of(refill(word, now_ns, rate, 0));
}
