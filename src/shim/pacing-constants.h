/* pacing-constants.h - the times and counts that control the pacing of computing power.
 *
 * They were found on the simulated GPU (tests/shares) and may have to be different on a real one. Change them
 * here, and check build/tests/shares/share-loop and `bench/bench shares`. docs/internals/computing-power.md
 * explains pacing; its section "Numbers" says what each constant protects. The most that an idle container
 * saves up is TOKEN_BUCKET_BURST_STEPS in grant/token-bucket.h, which the keeper uses as well.
 */
#pragma once

#include <stdint.h>

/* ---- drawing credit and waiting for it ------------------------------------------------------------------
 */

/* A process draws this much credit beyond what it needs, so that most launches touch only its own memory. A
 * process that is killed takes at most this much with it. */
#define SLICE_NS INT64_C(1000000)
/* A container saves at most this much credit for a launch that costs more than a burst. */
#define SAVED_MAX_NS UINT64_C(50000000)
/* A waiting thread wakes this often to notice a new rate or sample, and to keep its "waiting" counter moving.
 */
#define WAIT_STEP_NS UINT64_C(10000000)

/* A process may have this much work queued behind the launch that the GPU executes. It is enough that the GPU
 * never runs dry before the next check, and little enough that another container gets its share within 100
 * ms. After UNDER_WAY_LOOKS checks in vain the thread goes on: the queued work may wait for what the program
 * does next. */
#define UNDER_WAY_NS UINT64_C(30000000)
#define UNDER_WAY_STEP_NS UINT64_C(1000000)
#define UNDER_WAY_LOOKS 100

/* ---- a launch that was never measured -------------------------------------------------------------------
 */

/* Such a launch is charged this much; its first sample charges the rest. */
#define COST_GUESS_NS UINT64_C(5000)
/* After UNKNOWN_MAX launches of one shape a thread waits for the first sample, at most UNKNOWN_LOOKS times
 * one step: the duration must be known before many more launches are queued. */
#define UNKNOWN_MAX 4
#define UNKNOWN_LOOKS 100
#define UNKNOWN_STEP_NS UINT64_C(1000000)
/* A launch whose measurement fails this often is charged COST_GUESS_NS from then on. */
#define FAILURES_MAX 4

/* ---- taking samples -------------------------------------------------------------------------------------
 */

/* One pair of events spans at most this many launches in a row: the events' own cost is divided by their
 * number, and the sample still comes soon. */
#define ROW_NS UINT64_C(1000000)
#define ROW_LAUNCHES 1000
/* Once the cost is known, every fourth draw takes a sample, so that the estimate follows a change. */
#define DRAWS_PER_SAMPLE 4
/* cuEventElapsedTime, CUDA Driver API reference: "a resolution of around 0.5 microseconds". In a row many
 * launches share it. */
#define RESOLUTION_NS 500

/* ---- from samples to a cost -----------------------------------------------------------------------------
 */

/* The last SAMPLES samples of each kind are kept. Fewer may all contain other containers' work; more follow a
 * real change too late. The first FIRST_SAMPLES set the cost at once, later ones move it slowly. */
#define SAMPLES 9
#define FIRST_SAMPLES 4
/* Samples less than a fifth apart belong to the same duration, which may vary by 20 % to both sides. */
#define GAP_PART 5
/* Samples of one kind are dropped after this many draws that brought only the other kind. */
#define STALE_DRAWS 64

/* ---- launches that may be longer than a time slice ------------------------------------------------------
 */

/* A launch of this length or more is measured by itself: compared with it, the events cost nothing. */
#define COST_LONG_NS UINT64_C(600000)
/* With fewer than SURE_SAMPLES samples the cost is unsure: the first ones may be several times too long. Such
 * a container may launch with UNSURE_DEBT_NS of debt, so that it starts within 100 ms, and waits
 * UNSURE_WAIT_NS at most. Afterwards the permitted debt shrinks by a 25th of the time that passes: if the
 * container paid at once, it would have no share until then. The debt is the container's, so all its
 * processes and launches may owe it. */
#define SURE_SAMPLES 9
#define UNSURE_DEBT_NS INT64_C(45000000)
#define UNSURE_WAIT_NS UINT64_C(2000000000)
#define FADES_PART 25
/* A single launch this long visibly distorts the container's share in that second. Its container may owe
 * less, and the permitted debt shrinks more slowly. */
#define FELT_COST_NS UINT64_C(20000000)
#define FELT_DEBT_NS INT64_C(35000000)
#define FELT_FADES_PART 250
/* The cost is the mean of the last CLEAN_MOST samples that contain no time slice of another container. */
#define CLEAN_MOST 32
/* Such a sample may exceed the usual variation by this part of the mean. */
#define SPREAD_LEAST 16
/* After this many longer samples in a row the cost rises, if the keeper also measures more use than was
 * charged. */
#define LONG_MEMORY 60
/* A charge that was too high falls to the mean within this much work, which the keeper can follow. */
#define DRIFT_NS UINT64_C(8000000000)

/* ---- copies and fills -----------------------------------------------------------------------------------
 */

/* A sample is the cost of 2^PART_SHIFT bytes. Smaller fills and copies within the GPU are measured as kernels
 * of their own. A smaller copy between host and GPU takes less time than the call, so events would measure
 * themselves: it is charged its bytes, and SMALL_COPY_NS for what the copy engine needs between two copies.
 * No document says how much that is; the call alone takes the host 5 to 7 us (arXiv 2602.21548, 5.2,
 * measured). So a thread that copies small pieces without a pause is charged a fifth of the engine at most
 * beside its bytes. */
#define PART_SHIFT 16
#define SMALL_COPY_NS 1000
