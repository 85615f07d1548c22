/* token-bucket.h - a token bucket of computing power in one word that all processes of a container change.
 *
 * The word holds a credit in exclusive nanoseconds, which may be negative, and the time of its last refill.
 * Each change is one compare-and-swap, so a process that is killed at any instruction leaves the word valid.
 * No thread refills the bucket: each caller refills it by the clock. docs/internals/computing-power.md.
 *
 * Pure: no clock, no sleep. now_ns is CLOCK_MONOTONIC; rate is in exclusive nanoseconds per millisecond.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Time is counted in steps. A step refills a whole number of nanoseconds, so rounding loses less than one
 * nanosecond per step (0.04 % at 5 % of a GPU). */
#define TOKEN_BUCKET_STEP_NS UINT64_C(50000)
#define TOKEN_BUCKET_BURST_STEPS 400 /* 20 ms: the most that can be saved up, at the present rate */
#define TOKEN_BUCKET_DEBT_MAX_NS                                                                             \
	INT64_C(10000000000) /* the debt of one long kernel; bounds the effect of a damaged word */
#define TOKEN_BUCKET_RATE_MAX UINT64_C(1000000000) /* a thousand GPUs; a higher rate is invalid */

/* token_bucket_burst_ns() - the most that a bucket holds at this rate, however long no process has drawn from
 * it. */
uint64_t token_bucket_burst_ns(uint64_t rate);

/* token_bucket_draw() - takes want_ns if the credit is positive; the credit may become negative by that.
 * Returns 0 if it was taken. Otherwise returns after how many nanoseconds the credit becomes positive at this
 * rate if no other process draws. A rate of 0 counts as the lowest rate. Whatever the word holds, the answer
 * is at most the time that TOKEN_BUCKET_DEBT_MAX_NS takes at this rate. */
uint64_t token_bucket_draw(_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, uint64_t want_ns);

/* token_bucket_draw_saving() - token_bucket_draw() from a bucket that holds save_ns, if that is more than a
 * burst. */
uint64_t token_bucket_draw_saving(
	_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, uint64_t want_ns, uint64_t save_ns);

/* token_bucket_change() - adds ns to the credit, up to save_ns or a burst, or subtracts them, whatever the
 * credit is. */
void token_bucket_change(
	_Atomic uint64_t *word, uint64_t now_ns, uint64_t rate, int64_t ns, uint64_t save_ns);

/* token_bucket_left_ns() - the present credit; for status displays and tests. */
int64_t token_bucket_left_ns(uint64_t word, uint64_t now_ns, uint64_t rate);
