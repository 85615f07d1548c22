/* pacing-sample.h - how long what was started took: pairs of events around a window of launches.
 *
 * The events go into the launches' own stream, right before or right after one of them, and are asked for at
 * later calls, never waited for. Nothing is recorded or asked while a stream of this process captures. One
 * thread at a time; who finds another one here goes on without. Empty in a child of fork().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "shim/pacing-cost.h"

/* Something that is started. */
struct started {
	CUstream stream;
	uint32_t gpu, kind; /* whose credit pays: enum pace_kind */
	uint64_t key;
	struct cost *cost;
	uint32_t count;	  /* of what the cost is the cost of */
	uint64_t cost_ns; /* of all; 0: never measured */
	bool alone;	  /* measured by itself */
};

/* sample_begin() - before it is started; sample_end() - after, with whether it was. `last`: what follows will
 * have to wait first. */
void sample_begin(struct started *started);
void sample_end(struct started *started, bool ok, bool last);

/* sample_due() - it is time for another sample: at each draw. Returns how many draws there were. */
uint32_t sample_due(void);
uint32_t sample_draws(void);

/* sample_ask() - about what is measured in the current context; who waits calls it too. */
void sample_ask(void);

/* sample_is_behind() - of drawn_ns, more than most_ns were drawn after something that the GPU has still to
 * do, and was not asked about too often. */
bool sample_is_behind(uint32_t gpu, uint64_t drawn_ns, uint64_t most_ns);

/* sample_hide() - before the driver may end a context, and its events with it; sample_unhide() - after, with
 * whether it did. NULL: nothing. */
void sample_hide(CUcontext context);
void sample_unhide(CUcontext context, bool ended);

/* sample_capture() - a stream begins (+1) or has ended (-1) to capture. */
void sample_capture(int change);

/* sample_captures() - whether this stream captures: what is launched there runs later, with its graph. */
bool sample_captures(CUstream stream);
