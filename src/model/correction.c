#include "model/correction.h"

#include <math.h>

#include "model/shares.h"

/* The least work, and the least time, of one comparison. With less, three errors would be too large: one
 * kernel more or less, the rounding to whole percents, and work that was started and is not done yet. */
#define ENOUGH_NS 150e6
#define ENOUGH_TIME_NS 0.4e9
/* If it takes longer than this to collect, too little work is done to compare. */
#define LONGEST_NS 6e9
/* If the rate changes by more than this factor, a process has begun or ended in between. */
#define STEADY 1.6
#define MEMORY_NS 8e9
/* The initial factor weighs as much as what was used in this time. A factor on which samples agreed weighs
 * twice as much as the time that they took. */
#define PRIOR_NS 0.1e9
#define AGREED 2.0
/* Later on, this many samples in a row must be far off; each is compared with the one before it. */
#define FAR_LATER 3
/* The driver reports about the last second. What was started before that cannot be compared. */
#define SAMPLE_MOST_NS UINT64_C(3000000000)
/* The least that the driver does not report yet, and the mean of half of its period (nvml.h: a sixth of a
 * second). */
#define LATE_NS 30e6
#define HALF_PERIOD_NS (1e9 / 12)
/* How long the beginning lasts. Each of its seconds tells more about the present error of the shim than the
 * mean of ten seconds would. That information is larger than the error by chance of single kernels. */
#define EARLY_NS 4e9
#define EARLY_MEMORY_NS 3e9
#define EARLY_PRIOR_NS 10e6
#define UNDER_WAY_NS 10e6 /* work that was launched and that the GPU has not begun, on average */
#define EARLY_ENOUGH_NS 75e6
#define EARLY_LEAST 0.9
#define CHANCE_KEPT 0.8
#define CHANCE_LEAST_NS 3e6 /* the rounding to whole percents */
/* A deviation is believed if it is this many times the error by chance: EXPLAINED if time slices of other
 * processes can be the cause, else UNEXPLAINED. */
#define EXPLAINED 0.6
#define UNEXPLAINED 2
#define LOOK_NS UINT64_C(1000000000)
#define SOON_NS (LOOK_NS / 3)
#define SOON_LOOKS 12
#define TAIL_UNKNOWN (-1.0)
/* Stands for a process that began and ended between two samples. Others that began with it may still exist.
 */
#define UNSEEN UINT64_MAX

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

void correction_at_work(struct correction *correction)
{
	correction->early.tail = TAIL_UNKNOWN;
}

void correction_processes(struct correction *correction, uint64_t who, uint64_t started_ns)
{
	bool unseen = !who && started_ns;

	if ((correction->who && who != correction->who) || unseen)
		correction->lost = true;
	correction->who = unseen ? UNSEEN : who;
}

uint64_t correction_who(int64_t pid)
{
	uint64_t who = (uint64_t)pid * UINT64_C(0x9e3779b97f4a7c15);

	return (who ^ who >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

static bool is_steady(double last, double now)
{
	return now <= last * STEADY && last <= now * STEADY;
}

static bool is_far(double ratio, double factor)
{
	return ratio > factor * CORRECTION_FAR || ratio < factor / CORRECTION_FAR;
}

/* Learns from a part with enough work whose rates were those of the part before it. */
static void learn(struct correction *c, double elapsed, double started, double used)
{
	double ratio = started / used;
	double kept;

	c->far = is_far(ratio, c->factor) ? c->far + 1 : 0;
	if (c->far >= (c->used_ns == 0 ? 1 : FAR_LATER)) {
		c->far = 0;
		c->factor = bounded(ratio, CORRECTION_LEAST, CORRECTION_MOST);
		c->used_ns = AGREED * used;
		c->started_ns = c->used_ns * c->factor;
		return;
	}
	if (c->used_ns == 0) {
		c->used_ns = PRIOR_NS;
		c->started_ns = c->used_ns * c->factor;
	}
	kept = elapsed < MEMORY_NS ? 1 - elapsed / MEMORY_NS : 0;
	c->started_ns *= kept;
	c->used_ns *= kept;
	c->started_ns += started;
	c->used_ns += used;
	c->factor = bounded(c->started_ns / c->used_ns, CORRECTION_LEAST, CORRECTION_MOST);
}

/* What was started before the last report is done by now, unless less was used than is assumed. So this is
 * the least that was charged for what was used. */
static double least(struct correction *c, double started, double used)
{
	double found;

	c->all.used += used;
	found = c->all.used > 0 ? c->all.started / (c->all.used + LATE_NS) : 0;
	c->all.started += started;
	return found;
}

/* The events around a launch contain the slices of other processes and nothing else that is long. So the
 * charge is too high by no more than the others used the GPU. It is only a little too low, if the samples
 * without others are the shorter launches. An earlier estimate stays within these bounds. */
static double explained(const struct correction_early *e, double factor)
{
	double most = 1 + (e->others + CHANCE_LEAST_NS) / e->used;

	return bounded(e->started / e->used, factor < EARLY_LEAST ? factor : EARLY_LEAST,
		factor > most ? factor : most);
}

/* Raises the factor only by what chance cannot explain, because a factor that is too high takes time from the
 * other containers. */
static double early_factor(struct correction_early *e, double factor)
{
	double chance = e->off / e->looks, to = explained(e, factor), open;

	if (e->started < EARLY_ENOUGH_NS || e->used < EARLY_ENOUGH_NS / 2)
		return factor;
	open = (EXPLAINED * chance + CHANCE_LEAST_NS) / e->used;
	if (fabs(e->started - factor * e->used) > UNEXPLAINED * chance + CHANCE_LEAST_NS) {
		to = e->started / e->used;
		e->off = 0; /* the deviation was not by chance */
	}
	if (to > factor)
		open += UNDER_WAY_NS / e->used;
	if (fabs(to - factor) <= open)
		return factor;
	return to < factor ? to : to - open;
}

/* Learns in the beginning. Instead of waiting until both rates are steady, it compares the driver's answer
 * with just the part of the started work that the answer covers. */
static void early_learn(struct correction *c, double elapsed, double started, double used, double others)
{
	struct correction_early *e = &c->early;
	double kept = elapsed < EARLY_MEMORY_NS ? 1 - elapsed / EARLY_MEMORY_NS : 0;
	double tail = elapsed > HALF_PERIOD_NS ? started * HALF_PERIOD_NS / elapsed : started;
	double told = e->tail < 0 ? started : started - tail + e->tail, off = told - c->factor * used;
	double bound = least(c, started, used), rate = started / elapsed, before = e->rate;

	e->tail = tail;
	e->rate = before > 0 && rate > before * STEADY ? before * STEADY : rate;
	if (e->used == 0 && started > 0) {
		e->used = EARLY_PRIOR_NS;
		e->started = c->factor * EARLY_PRIOR_NS;
	}
	if (e->used == 0 || (told == 0 && used == 0))
		return;
	e->elapsed += elapsed;
	e->started = e->started * kept + told;
	e->used = e->used * kept + used;
	e->others = e->others * kept + others;
	e->off = e->off * CHANCE_KEPT + fabs(off);
	e->looks = e->looks * CHANCE_KEPT + 1;
	/* If more was started than before, the driver may not report it yet. */
	if (before == 0 || rate <= before * STEADY)
		c->factor = bounded(early_factor(e, c->factor), CORRECTION_LEAST, CORRECTION_MOST);
	if (bound > c->factor)
		c->factor = bounded(bound, CORRECTION_LEAST, CORRECTION_MOST);
	if (e->elapsed < EARLY_NS)
		return;
	c->used_ns = e->used;
	c->started_ns = e->used * c->factor;
}

static void part_ends(struct correction *c)
{
	const struct correction_part *last = &c->last, *now = &c->now;

	if (last->elapsed > 0 && is_steady(last->started / last->elapsed, now->started / now->elapsed) &&
		is_steady(last->used / last->elapsed, now->used / now->elapsed))
		learn(c, now->elapsed, now->started, now->used);
	c->last = c->now;
	c->now = (struct correction_part){0};
}

/* The count includes what dead processes had started, but the driver no longer reports what they used. That
 * can hide that too little was charged; it cannot pretend it. If the result is close, the sample is ignored,
 * because otherwise only the low ones would be learned. */
static bool is_without_the_dead(struct correction *c, double started, double used)
{
	bool lost = c->lost;

	c->lost = false;
	if (!lost || started * CORRECTION_FAR <= c->factor * used)
		return false;
	c->all = (struct correction_part){0};
	correction_at_work(c);
	return true;
}

void correction_sample(struct correction *correction, uint64_t elapsed_ns, uint64_t started_ns,
	uint64_t used_ns, uint64_t others_ns)
{
	struct correction *c = correction;

	if (elapsed_ns == 0)
		return;
	if (elapsed_ns > SAMPLE_MOST_NS || c->now.elapsed > LONGEST_NS)
		c->now = c->last = (struct correction_part){0};
	if (elapsed_ns > SAMPLE_MOST_NS) {
		c->early.tail = started_ns ? TAIL_UNKNOWN : 0;
		c->lost = false;
		return;
	}
	c->looks += started_ns > 0 && c->looks < SOON_LOOKS;
	if (is_without_the_dead(c, (double)started_ns, (double)used_ns))
		return;
	if (c->used_ns == 0) {
		early_learn(c, (double)elapsed_ns, (double)started_ns, (double)used_ns, (double)others_ns);
		return;
	}
	c->now.elapsed += (double)elapsed_ns;
	c->now.started += (double)started_ns;
	c->now.used += (double)used_ns;
	if (c->now.elapsed >= ENOUGH_TIME_NS && c->now.started >= ENOUGH_NS && c->now.used >= ENOUGH_NS / 2)
		part_ends(c);
}

uint64_t correction_look_ns(const struct correction *correction)
{
	return correction->looks < SOON_LOOKS ? SOON_NS : LOOK_NS;
}

uint64_t correction_rate(const struct correction *correction, uint32_t share)
{
	uint64_t rate = (uint64_t)((double)share * correction->factor + 0.5);

	return rate || !share ? rate : 1;
}

uint64_t correction_used_ns(uint64_t elapsed_ns, uint32_t percent, const struct correction_gpu *gpu)
{
	uint32_t of_gpu = gpu->of_gpu, most = gpu->of_all + gpu->named;

	/* The GPU's own number covers a whole second. */
	if (elapsed_ns < LOOK_NS / 2 && of_gpu < gpu->of_all)
		of_gpu = gpu->of_all < 100 ? gpu->of_all : 100;
	if (gpu->of_all == 0)
		return 0;
	return (uint64_t)((double)elapsed_ns * percent / 100 * (of_gpu < most ? of_gpu : most) / gpu->of_all);
}

uint64_t correction_others_ns(uint64_t elapsed_ns, uint32_t percent, const struct correction_gpu *gpu)
{
	uint32_t most = gpu->of_all > gpu->of_gpu ? gpu->of_all : gpu->of_gpu;

	return most > percent ? elapsed_ns / 100 * (most - percent) : 0;
}

bool correction_look(struct correction *correction, const struct correction_look *look,
	const struct correction_gpu *gpu, struct correction_seen *ret_seen)
{
	struct correction *c = correction;
	bool first = c->looked_ns == 0, known = !first && look->started_ns >= c->looked_started_ns;

	*ret_seen = (struct correction_seen){0};
	if (first && look->started_ns)
		correction_at_work(c);
	correction_processes(c, look->who, look->started_ns - c->looked_started_ns);
	if (!first) {
		ret_seen->elapsed_ns = (uint64_t)(look->now_ns - c->looked_ns);
		ret_seen->used_ns = correction_used_ns(ret_seen->elapsed_ns, look->percent, gpu);
	}
	if (known) {
		ret_seen->started_ns = look->started_ns - c->looked_started_ns;
		correction_sample(c, ret_seen->elapsed_ns, ret_seen->started_ns, ret_seen->used_ns,
			correction_others_ns(ret_seen->elapsed_ns, look->percent, gpu));
	}
	c->looked_ns = look->now_ns;
	c->looked_started_ns = look->started_ns;
	return known;
}
