/* correction.h - from the share that a container is to have of a card to the rate at which its shim may start
 * work. Pure.
 *
 * The shim counts what it estimates; the driver tells, in whole percents of the last second or so, what was
 * used. Their quotient, over some ten seconds in which there was work, is by how much the estimate is wrong,
 * and does not depend on the rate itself: it is measured, not steered, so there is nothing to oscillate and
 * nothing to wind up while a container is idle, and in the long run what was used is the share.
 */
#pragma once

#include <stdint.h>

#define CORRECTION_LEAST 0.03125
#define CORRECTION_MOST 32.0
#define CORRECTION_STEP 1.1 /* at most, from one sample to the next, unless it is far off */
#define CORRECTION_FAR 1.5  /* this much: the first two samples, or later some more, are believed at once */

struct correction {
	double factor;			/* of the share: the rate */
	double started_ns, used_ns;	/* sums that forget */
	double last_started, last_used; /* of the last sample, as parts of its time */
	unsigned far;			/* so many samples in a row were far off */
};

/* correction_init() - with nothing to correct yet; correction_resume() - going on from a share and a rate
 * that a keeper before us set. */
void correction_init(struct correction *correction);
void correction_resume(struct correction *correction, uint64_t share, uint64_t rate);

/* correction_sample() - in elapsed_ns, some second, this was started by the shims' count and used by the
 * driver's. Too little to tell, or just begun or ended (the driver's answer lags), teaches nothing. */
void correction_sample(
	struct correction *correction, uint64_t elapsed_ns, uint64_t started_ns, uint64_t used_ns);

/* correction_rate() - exclusive nanoseconds, as the shims count, in a millisecond
 * (grant_file_live.core_rate), for a share in millionths. At least 1 for any share. */
uint64_t correction_rate(const struct correction *correction, uint32_t share);

/* correction_used_ns() - what the driver's whole percents of one process (or container) make of elapsed_ns.
 * Processes whose time slices interleave can together be said to use more than the card does (windows
 * differ): all are scaled so that their sum, of_all, is the card's. */
uint64_t correction_used_ns(uint64_t elapsed_ns, uint32_t percent, uint32_t of_all, uint32_t of_card);
