#include "model/correction.h"

#include <stdbool.h>

#include "model/shares.h"

/* Less than this part of a second is noise in a number of whole percents. */
#define SIGNAL 0.015
/* A sample that differs more than so from the one before has begun or ended within its second. */
#define STEADY 1.6
#define FORGET (15.0 / 16.0) /* with each sample: the last 16 s count */
/* What is believed of the shim before the driver has said anything weighs as much as so many samples. */
#define PRIOR 6.0
/* What two samples agree on weighs as much. */
#define AGREED 2.0
/* Each of so many is compared with the one before it; a kernel of 50 ms makes chance ones. */
#define FAR_LATER 3
/* The driver tells of about the last second: what was started before it cannot be compared. */
#define SAMPLE_MOST_NS UINT64_C(3000000000)
/* Processes that the driver does not name leave a sum below the card's; they are not blamed on the others. */
#define SCALE_MOST 1.25

void correction_init(struct correction *correction)
{
	*correction = (struct correction){.factor = 1};
}

static double bounded(double value, double least, double most)
{
	if (!(value > least))
		return least;
	return value < most ? value : most;
}

void correction_resume(struct correction *correction, uint64_t share, uint64_t rate)
{
	correction_init(correction);
	if (share && rate)
		correction->factor = bounded((double)rate / (double)share, CORRECTION_LEAST, CORRECTION_MOST);
}

static bool is_steady(double last, double now)
{
	return last >= SIGNAL && now >= SIGNAL && now <= last * STEADY && last <= now * STEADY;
}

static bool is_far(double ratio, double factor)
{
	return ratio > factor * CORRECTION_FAR || ratio < factor / CORRECTION_FAR;
}

void correction_sample(
	struct correction *correction, uint64_t elapsed_ns, uint64_t started_ns, uint64_t used_ns)
{
	struct correction *c = correction;
	double started, used, wanted, ratio;
	bool steady;

	if (elapsed_ns == 0)
		return;
	if (elapsed_ns > SAMPLE_MOST_NS) {
		c->last_started = c->last_used = 0;
		return;
	}
	started = (double)started_ns / (double)elapsed_ns;
	used = (double)used_ns / (double)elapsed_ns;
	steady = is_steady(c->last_started, started) && is_steady(c->last_used, used);
	ratio = steady ? (c->last_started + started) / (c->last_used + used) : c->factor;
	c->last_started = started;
	c->last_used = used;
	if (!steady)
		return;
	c->far = is_far(ratio, c->factor) ? c->far + 1 : 0;
	if (c->far >= (c->used_ns == 0 ? 1 : FAR_LATER)) {
		c->far = 0;
		c->factor = bounded(ratio, CORRECTION_LEAST, CORRECTION_MOST);
		c->used_ns = AGREED * (double)used_ns;
		c->started_ns = c->used_ns * c->factor;
		return;
	}
	if (c->used_ns == 0) {
		c->used_ns = PRIOR * (double)used_ns;
		c->started_ns = c->used_ns * c->factor;
	}
	c->started_ns = c->started_ns * FORGET + (double)started_ns;
	c->used_ns = c->used_ns * FORGET + (double)used_ns;
	wanted = bounded(
		c->started_ns / c->used_ns, c->factor / CORRECTION_STEP, c->factor * CORRECTION_STEP);
	c->factor = bounded(wanted, CORRECTION_LEAST, CORRECTION_MOST);
}

uint64_t correction_rate(const struct correction *correction, uint32_t share)
{
	uint64_t rate = (uint64_t)((double)share * correction->factor + 0.5);

	return rate || !share ? rate : 1;
}

uint64_t correction_used_ns(uint64_t elapsed_ns, uint32_t percent, uint32_t of_all, uint32_t of_card)
{
	double scale = of_all ? bounded((double)of_card / of_all, 0, SCALE_MOST) : 1;

	return (uint64_t)((double)elapsed_ns * percent / 100 * scale);
}
