/* pacing-sample.h - measures how long started work took, with a pair of events around a window of launches.
 *
 * The events go into the launches' own stream, right before or after a launch. Later calls query them; no
 * call waits for them. While a stream of this process captures, no event is recorded or queried. One thread
 * at a time may measure; a thread that finds another one here goes on without measuring. Empty in a child of
 * fork().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"
#include "shim/pacing-cost.h"

/* Work that is started. */
struct started {
	CUstream stream;
	uint32_t gpu, kind; /* whose credit pays: enum pace_kind */
	uint64_t key;
	struct cost *cost;
	uint32_t count;	  /* how many times the work that `cost` describes */
	uint64_t cost_ns; /* of all; 0: never measured */
	bool alone;	  /* measured by itself */
};

/* sample_begin() - called before it is started. sample_end() - called afterwards, with whether it was
 * started. `last`: the next launch will have to wait first. */
void sample_begin(struct started *started);
void sample_end(struct started *started, bool ok, bool last);

/* sample_due() - called at each draw: another sample is due. Returns how many draws there were. */
uint32_t sample_due(void);
uint32_t sample_draws(void);

/* sample_ask() - queries the windows of the current context. Waiting threads call it too. */
void sample_ask(void);

/* sample_is_behind() - whether more than most_ns of drawn_ns were drawn after work that the GPU has not
 * finished, and which was not queried too often. */
bool sample_is_behind(uint32_t gpu, uint64_t drawn_ns, uint64_t most_ns);

/* sample_hide() - called before the driver may end a context together with its events. sample_unhide() -
 * called afterwards, with whether it ended. NULL: no context. */
void sample_hide(CUcontext context);
void sample_unhide(CUcontext context, bool ended);

/* sample_capture() - a stream begins (+1) or has ended (-1) a capture. */
void sample_capture(int change);

/* sample_captures() - whether this stream captures: work launched there runs later, with its graph. */
bool sample_captures(CUstream stream);
