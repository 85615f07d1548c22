/* credit.h - a bucket of computing power in one word that all processes of a container change.
 *
 * The word holds a credit in exclusive nanoseconds, which may be negative, and the time up to which it was
 * refilled. Each change is one compare-and-swap, so a process that is killed at any instruction leaves it
 * whole; no thread refills it: whoever asks does, by the clock. docs/internals/computing-power.md.
 *
 * Pure: no clock, no sleep. now_ns is CLOCK_MONOTONIC; rate is in exclusive nanoseconds per millisecond.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Time is counted in steps: what a step refills is a whole number of nanoseconds, so that nothing is lost to
 * rounding but less than one nanosecond in a step (0.04 % at 5 % of a GPU). */
#define CREDIT_STEP_NS UINT64_C(50000)
#define CREDIT_BURST_STEPS 400			/* 20 ms: what may be saved up, at the present rate */
#define CREDIT_DEBT_MAX_NS INT64_C(10000000000) /* of one kernel, or of a word that somebody wrote */
#define CREDIT_RATE_MAX UINT64_C(1000000000)	/* a thousand GPUs; more is no rate */

/* credit_burst_ns() - the most that a bucket holds at this rate, however long nobody drew from it. */
uint64_t credit_burst_ns(uint64_t rate);

/* credit_draw() - take want_ns, if there is any credit at all: it may go into debt by that. Returns 0, or in
 * how many nanoseconds there will be credit at this rate if nobody else takes it: nothing was taken then. A
 * rate of 0 is taken for the least there is. Whatever the word holds, the answer is at most what
 * CREDIT_DEBT_MAX_NS takes at this rate. */
uint64_t credit_draw(_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, uint64_t want_ns);

/* credit_draw_saving() - the same from a bucket that holds save_ns, if that is more than a burst. */
uint64_t credit_draw_saving(
	_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, uint64_t want_ns, uint64_t save_ns);

/* credit_change() - ns more, up to save_ns or a burst, or fewer, whatever the credit. */
void credit_change(_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, int64_t ns, uint64_t save_ns);

/* credit_left_ns() - what there is now; for people and tests. */
int64_t credit_left_ns(uint64_t word, uint64_t now_ns, uint64_t rate);
