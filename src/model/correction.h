/* correction.h - converts the share of a GPU that a container should have into the rate at which its shim may
 * start work. Pure.
 *
 * The shim counts what it estimates. The driver reports, in whole percents of about the last second, what was
 * used. The quotient of both, over some ten seconds with work, is the error of the estimate. It does not
 * depend on the rate itself: it is measured, not steered. So nothing oscillates, nothing winds up while a
 * container is idle, and in the long run the used time equals the share. tests/shares simulates it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CORRECTION_LEAST 0.03125
#define CORRECTION_MOST 32.0
/* If the error is this large, the first sample that shows it is believed; later, several in a row must show
 * it. */
#define CORRECTION_FAR 1.5

struct correction_part {
	double elapsed, started, used; /* ns */
};

/* The first seconds of work, in sums in which samples fade within about three seconds. */
struct correction_early {
	double elapsed;		      /* the total */
	double started, used, others; /* ns; `others`: used by all other processes on the GPU */
	double off, looks;	      /* the errors of single samples, as a measure of chance */
	double rate;		      /* at which work was started; it rises only slowly */
	double tail;		      /* started after the period of the driver's last answer; < 0: unknown */
};

struct correction {
	double factor;			  /* the rate is the share times this factor */
	double started_ns, used_ns;	  /* sums in which old samples fade */
	struct correction_part last, now; /* the two parts of time that are compared */
	struct correction_part all;	  /* since the beginning; its `started` ends one sample earlier */
	struct correction_early early;
	unsigned looks;		    /* samples with started work, counted up to a maximum */
	unsigned far;		    /* how many samples in a row were far off */
	uint64_t who;		    /* the processes at the last sample */
	bool lost;		    /* the next sample may lack what an ended process used */
	int64_t looked_ns;	    /* when correction_look() was last called; 0: never */
	uint64_t looked_started_ns; /* what had been started at that time */
};

/* What the driver reports of a GPU in one sample, in whole percents of the GPU's time. */
struct correction_gpu {
	uint32_t of_gpu; /* how much of the last second any process used it */
	uint32_t of_all; /* sum over the processes that the driver names */
	uint32_t named;	 /* the number of these processes */
};

/* What the run monitor sees in one sample, and what was used since the sample before. */
struct correction_look {
	int64_t now_ns;
	uint64_t started_ns; /* all that was ever started, by the shims' count */
	uint64_t who;	     /* sum of correction_who() over the processes; 0: none */
	uint32_t percent;    /* what the driver reports of them */
};

struct correction_seen {
	uint64_t elapsed_ns, started_ns, used_ns;
};

/* correction_init() - starts without a correction. correction_resume() - continues with a share and a rate
 * that an earlier process set. */
void correction_init(struct correction *correction);
void correction_resume(struct correction *correction, uint64_t share, uint64_t rate);

/* correction_look() - processes one sample by the functions below. False: the sample cannot be compared,
 * because it is the first, or because the count was reset. Then *ret_seen has what was used, if that is
 * known. */
bool correction_look(struct correction *correction, const struct correction_look *look,
	const struct correction_gpu *gpu, struct correction_seen *ret_seen);

/* correction_at_work() - work was under way before the next sample: what was started before it counts as used
 * in it. Without this call, the sample assumes that nothing was under way.
 *
 * correction_processes() - call before a sample. who: a sum of correction_who() over the processes, 0 for
 * none; and what was started since the last sample. If the processes differ from those of the last sample,
 * one may have ended. The driver no longer reports what it used, while the count still includes what it had
 * started. Such a sample may only show that far too little was charged. A process that begins and ends
 * between two samples is not noticed. */
void correction_at_work(struct correction *correction);
void correction_processes(struct correction *correction, uint64_t who, uint64_t started_ns);
uint64_t correction_who(int64_t pid);

/* correction_sample() - in elapsed_ns, about a second, this was started by the shims' count, this was used by
 * the driver's report, and others_ns was used by all other processes on the GPU. A sample with too little
 * work teaches nothing. Neither does work that has just begun or ended, because the driver's answer lags. */
void correction_sample(struct correction *correction, uint64_t elapsed_ns, uint64_t started_ns,
	uint64_t used_ns, uint64_t others_ns);

/* correction_look_ns() - when to ask the driver again: sooner at the beginning. The result is a multiple of
 * the driver's period of a sixth of a second (nvml.h), so that its report covers the same time. */
uint64_t correction_look_ns(const struct correction *correction);

/* correction_rate() - the rate for a share in millionths: exclusive nanoseconds, by the shims' count, per
 * millisecond (grant_file_live.core_rate). At least 1 for any share. */
uint64_t correction_rate(const struct correction *correction, uint32_t share);

/* correction_used_ns() - converts the driver's whole percents of one process (or container) into nanoseconds
 * of elapsed_ns. The sum over processes whose time slices interleave can exceed what the GPU did, because
 * their windows differ. Rounding hides less than a percent of each. So all are scaled to make their sum the
 * GPU's number. That number covers the last second: for a shorter elapsed_ns it is used only if the sum would
 * be more than a whole GPU. Any further missing time was used by a process that is not named, such as one
 * that has ended. It counts for no process. */
uint64_t correction_used_ns(uint64_t elapsed_ns, uint32_t percent, const struct correction_gpu *gpu);

/* correction_others_ns() - what all other processes used in that time, whether or not the driver names them.
 */
uint64_t correction_others_ns(uint64_t elapsed_ns, uint32_t percent, const struct correction_gpu *gpu);
