/* pacing-constants.h - the times and counts by which computing power is paced.
 *
 * They were found on the simulated GPU (tests/shares) and may have to be others on a real one: change them
 * here, and look at build/tests/shares/share-loop and `bench/bench shares`. docs/internals/computing-power.md
 * says how pacing works; its section "Numbers" has what each protects. What is saved up at most by a
 * container that does nothing is CREDIT_BURST_STEPS in grant/credit.h, which the keeper uses, too.
 */
#pragma once

#include <stdint.h>

/* ---- drawing credit and waiting for it ------------------------------------------------------------------
 */

/* What a process draws beyond what it needs, so that most launches touch its own memory only. A process that
 * is killed takes so much with it. */
#define SLICE_NS INT64_C(1000000)
/* What is saved up for a launch that costs more than a burst, at most. */
#define SAVED_MAX_NS UINT64_C(50000000)
/* A thread that waits looks this often: for another rate, for a sample, and to be seen waiting. */
#define WAIT_STEP_NS UINT64_C(10000000)

/* What may be under way, and with it one launch that the GPU is at: enough that it never runs dry before we
 * look again, little enough that another container has its share within 100 ms. A thread that asked so often
 * whether the GPU has got there takes what is under way for work that waits for what comes next. */
#define UNDER_WAY_NS UINT64_C(30000000)
#define UNDER_WAY_STEP_NS UINT64_C(1000000)
#define UNDER_WAY_LOOKS 100

/* ---- a launch that was never measured -------------------------------------------------------------------
 */

/* It is charged this much until its first sample charges the rest. */
#define COST_GUESS_NS UINT64_C(5000)
/* So many of a shape are started before a sample is waited for, so often and so long each time: how long it
 * takes is to be known before many more are on their way. */
#define UNKNOWN_MAX 4
#define UNKNOWN_LOOKS 100
#define UNKNOWN_STEP_NS UINT64_C(1000000)
/* A launch that fails to be measured this often costs the guess. */
#define FAILURES_MAX 4

/* ---- taking samples -------------------------------------------------------------------------------------
 */

/* What is measured in a row: the events' own cost is divided by many, and the answer comes soon. */
#define ROW_NS UINT64_C(1000000)
#define ROW_LAUNCHES 1000
/* When enough is known, each fourth draw takes a sample: the estimate keeps up with change. */
#define DRAWS_PER_SAMPLE 4
/* cuEventElapsedTime, CUDA Driver API reference: "a resolution of around 0.5 microseconds". In a row it is
 * shared by many. */
#define RESOLUTION_NS 500

/* ---- from samples to a cost -----------------------------------------------------------------------------
 */

/* Of each kind so many are kept: fewer hold no clean one among containers that are always busy; more follow a
 * real change too late. The first ones are believed at once. */
#define SAMPLES 9
#define FIRST_SAMPLES 4
/* Samples less than a fifth apart are of the same duration, which may vary by 20 % to both sides. */
#define GAP_PART 5
/* A kind of sample that has not come for so many draws while the other kind did tells of what was. */
#define STALE_DRAWS 64

/* ---- launches that may be longer than a time slice ------------------------------------------------------
 */

/* From here on each launch is measured by itself: what the events cost is nothing to it. */
#define COST_LONG_NS UINT64_C(600000)
/* With fewer samples it is not sure what one takes. The first may be several times too long, and a start is
 * to be had within 100 ms: so a container may be in this much debt and go on all the same, and waits this
 * long at most. From then on the debt is paid little by little, by a 25th of the time: paid at once, there
 * would be no share for so long. Whoever launches in the container may owe it: the bucket is theirs, too. */
#define SURE_SAMPLES 9
#define UNSURE_DEBT_NS INT64_C(45000000)
#define UNSURE_WAIT_NS UINT64_C(2000000000)
#define FADES_PART 25
/* Of launches so long each is felt in the second in which it is owed: less debt, which fades more slowly. */
#define FELT_COST_NS UINT64_C(20000000)
#define FELT_DEBT_NS INT64_C(35000000)
#define FELT_FADES_PART 250
/* The cost is the mean of so many samples that are no longer than others' slices make them. */
#define CLEAN_MOST 32
/* Such a sample may be this part of the mean further off than samples vary. */
#define SPREAD_LEAST 16
/* So many longer ones in a row say that the launch does more than it did, if the keeper finds that, too. */
#define LONG_MEMORY 60
/* Within so much work a charge that was too high falls to the mean: the keeper can follow that. */
#define DRIFT_NS UINT64_C(8000000000)

/* ---- copies and fills -----------------------------------------------------------------------------------
 */

/* A sample is the cost of a part of this size. Smaller fills and copies within the GPU are kernels of their
 * own. A smaller copy to or from it takes less time than the call, so events would measure themselves: it is
 * charged its bytes and a microsecond for what its engine needs between two. No document says how much that
 * is; the call alone takes the host 5 to 7 us (arXiv 2602.21548, 5.2, measured). So a thread that copies
 * small pieces without a pause is charged a fifth of the engine at most beside its bytes. */
#define PART_SHIFT 16
#define SMALL_COPY_NS 1000
