/* pacing.h - a container keeps to its share of a GPU's time: what hooks call around whatever starts work.
 *
 * docs/internals/computing-power.md. Waiting happens before the driver is entered, under no lock of anybody.
 * A hook asks pacing_is_on() first, which is all that is done where computing power is not controlled.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "shim/pacing-sample.h"

/* Whose time of the GPU it takes. */
enum pace_kind { PACE_CORE, PACE_TO_GPU, PACE_FROM_GPU, PACE_KINDS };

/* Around one call of the driver. */
struct pace {
	struct started started;
	uint64_t paid_ns;
	bool paced;
};

/* pacing_is_on() - whether any GPU of this process is controlled now, and the driver is started: only then
 * may a hook read what its arguments point to. */
bool pacing_is_on(void);

/* pacing_begin() - waits until it may be started: `count` times what `key` (cost_key()) stands for, in a
 * stream that 0 means the legacy default one in. pacing_end() with the driver's answer must follow. errno is
 * kept. */
void pacing_begin(struct pace *pace, enum pace_kind kind, uint64_t key, uint32_t count, CUstream stream);
void pacing_end(struct pace *pace, CUresult result);

/* pacing_pay() - waits until what costs so much may be started: fixed_ns, and `part` of the 65,536 of what
 * `key` stands for, as far as that is known. Nothing is measured, and nothing given back where the driver
 * refuses. */
void pacing_pay(enum pace_kind kind, uint64_t key, uint64_t fixed_ns, uint32_t part, CUstream stream);

/* pacing_renew() - what this key stands for is not what it was. */
void pacing_renew(uint64_t key);

/* pacing_charge() - ns more (or fewer) for what was started already: to the container's bucket at once, which
 * has a limit both ways. */
void pacing_charge(uint32_t gpu, uint32_t kind, int64_t ns);

/* pacing_factor() - by what the keeper has corrected the share. */
uint32_t pacing_factor(uint32_t gpu);

/* pacing_drawn_ns() - what this process has ever drawn for kernels on the GPU. */
uint64_t pacing_drawn_ns(uint32_t gpu);

/* pacing_own_stream() - of an entry that takes 0 for the calling thread's default stream. */
static inline CUstream pacing_own_stream(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}
