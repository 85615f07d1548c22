/* correction.h - from the share that a container is to have of a GPU to the rate at which its shim may start
 * work. Pure.
 *
 * The shim counts what it estimates; the driver tells, in whole percents of the last second or so, what was
 * used. Their quotient, over some ten seconds in which there was work, is by how much the estimate is wrong,
 * and does not depend on the rate itself: it is measured, not steered, so there is nothing to oscillate and
 * nothing to wind up while a container is idle, and in the long run what was used is the share. tests/shares
 * plays it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CORRECTION_LEAST 0.03125
#define CORRECTION_MOST 32.0
#define CORRECTION_FAR 1.5 /* so far off: the first that agree, or later some more, are believed at once */

struct correction_part {
	double elapsed, started, used; /* ns */
};

/* The first seconds of work, in sums that forget within some three of them. */
struct correction_early {
	double elapsed;		      /* all of it */
	double started, used, others; /* ns; `others`: used by all others of the GPU */
	double off, looks;	      /* what single looks are off by: how much of it is chance */
	double rate;		      /* at which work was started, following slowly upwards */
	double tail; /* started after what the driver's last answer was about; < 0: not known */
};

struct correction {
	double factor;			  /* of the share: the rate */
	double started_ns, used_ns;	  /* sums that forget */
	struct correction_part last, now; /* what is compared at a time */
	struct correction_part all;	  /* since the beginning; its started ends one sample earlier */
	struct correction_early early;
	unsigned looks;		    /* at which something had been started, up to some */
	unsigned far;		    /* so many samples in a row were far off */
	uint64_t who;		    /* processes at the last look */
	bool lost;		    /* the next sample may lack what who has ended used */
	int64_t looked_ns;	    /* when correction_look() was last; 0: never */
	uint64_t looked_started_ns; /* what had been started by then */
};

/* What the driver says at one look about a GPU, in whole percents of its time. */
struct correction_gpu {
	uint32_t of_gpu; /* in which anybody used it, of the last second */
	uint32_t of_all; /* sum over the processes that it names */
	uint32_t named;	 /* how many these are */
};

/* What a keeper sees at one look, and what came of it since the one before. */
struct correction_look {
	int64_t now_ns;
	uint64_t started_ns; /* all that was ever started, by the shims' count */
	uint64_t who;	     /* sum of correction_who() over the processes; 0: nobody */
	uint32_t percent;    /* that the driver says of them */
};

struct correction_seen {
	uint64_t elapsed_ns, started_ns, used_ns;
};

/* correction_init() - with nothing to correct yet; correction_resume() - going on from a share and a rate
 * that a keeper before us set. */
void correction_init(struct correction *correction);
void correction_resume(struct correction *correction, uint64_t share, uint64_t rate);

/* correction_look() - all that a look means, by the functions below. False: nothing can be compared with what
 * was before, as at the first one, or where the count is another one; *ret_seen then has what was used, if
 * that can be said. */
bool correction_look(struct correction *correction, const struct correction_look *look,
	const struct correction_gpu *gpu, struct correction_seen *ret_seen);

/* correction_at_work() - what the next sample is about was under way before it: what was started before
 * counts as used in it. Else nothing was.
 *
 * correction_processes() - before a sample: who there is, as a sum of correction_who(), 0 for nobody, and
 * what was started since the last one. Where these are not those of the last look, one may have ended: the
 * driver tells nothing of it any more, and the count keeps what it had started. Such a sample may show that
 * far too little was charged, and nothing else. Who comes and goes between two looks is not noticed. */
void correction_at_work(struct correction *correction);
void correction_processes(struct correction *correction, uint64_t who, uint64_t started_ns);
uint64_t correction_who(int64_t pid);

/* correction_sample() - in elapsed_ns, some second, this was started by the shims' count and used by the
 * driver's, and that by all others of the GPU. Too little to tell, or just begun or ended (the driver's
 * answer lags), teaches nothing. */
void correction_sample(struct correction *correction, uint64_t elapsed_ns, uint64_t started_ns,
	uint64_t used_ns, uint64_t others_ns);

/* correction_look_ns() - after how long the driver is to be asked again: sooner at the beginning. Multiples
 * of its own period of a sixth of a second (nvml.h), so that what it tells is of the same time. */
uint64_t correction_look_ns(const struct correction *correction);

/* correction_rate() - exclusive nanoseconds, as the shims count, in a millisecond
 * (grant_file_live.core_rate), for a share in millionths. At least 1 for any share. */
uint64_t correction_rate(const struct correction *correction, uint32_t share);

/* correction_used_ns() - what the driver's whole percents of one process (or container) make of elapsed_ns.
 * Processes whose time slices interleave can together be said to use more than the GPU does (windows
 * differ), and rounding hides less than a percent of each: all are scaled so that their sum is the GPU's,
 * which is of the last second: where elapsed is less, it counts only where they would be more than a GPU.
 * What more is missing was used by somebody who is not named, as one who has ended: it is nobody's. */
uint64_t correction_used_ns(uint64_t elapsed_ns, uint32_t percent, const struct correction_gpu *gpu);

/* correction_others_ns() - what all others used in that time, whether the driver names them or not. */
uint64_t correction_others_ns(uint64_t elapsed_ns, uint32_t percent, const struct correction_gpu *gpu);
