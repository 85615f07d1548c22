/* pacing.h - keeps a container to its share of a GPU's time. Hooks call it around every call that starts
 * work.
 *
 * docs/internals/computing-power.md. A thread waits before the driver is called, and holds no lock meanwhile.
 * A hook calls pacing_is_on() first; if computing power is not limited, nothing else is done.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "shim/pacing-sample.h"

/* Which engine of the GPU the work uses. */
enum pace_kind { PACE_CORE, PACE_TO_GPU, PACE_FROM_GPU, PACE_KINDS };

/* One call of the driver. */
struct pace {
	struct started started;
	uint64_t paid_ns;
	bool paced;
};

/* pacing_is_on() - whether the computing power of any GPU of this process is limited now, and the driver is
 * started. Only then may a hook read what its arguments point to. */
bool pacing_is_on(void);

/* pacing_begin() - waits until the work may be started: `count` times what `key` (cost_key()) stands for.
 * Stream 0 is the legacy default stream. pacing_end() with the driver's answer must follow. errno is
 * preserved. */
void pacing_begin(struct pace *pace, enum pace_kind kind, uint64_t key, uint32_t count, CUstream stream);
void pacing_end(struct pace *pace, CUresult result);

/* pacing_pay() - waits until work of this cost may be started: fixed_ns, and `part`/65,536 of the cost of
 * `key`, as far as it is known. Nothing is measured, and nothing is given back if the driver refuses the
 * work. */
void pacing_pay(enum pace_kind kind, uint64_t key, uint64_t fixed_ns, uint32_t part, CUstream stream);

/* pacing_renew() - the work with this key has changed. */
void pacing_renew(uint64_t key);

/* pacing_charge() - charges ns more (or fewer) for work that was started already, to the container's token
 * bucket at once. The bucket is limited in both directions. */
void pacing_charge(uint32_t gpu, uint32_t kind, int64_t ns);

/* pacing_factor() - the factor by which the keeper has corrected the share. */
uint32_t pacing_factor(uint32_t gpu);

/* pacing_drawn_ns() - the credit that this process has ever drawn for kernels on the GPU. */
uint64_t pacing_drawn_ns(uint32_t gpu);

/* pacing_own_stream() - the stream for an entry for which 0 means the calling thread's default stream. */
static inline CUstream pacing_own_stream(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

/* An executable graph costs what its last launch cost, until it is changed. */
/* graph_key() - the key for pacing_begin(). */
uint64_t graph_key(CUgraphExec exec);
