/* power-gpu.h - one container's part of one GPU's computing power: what it may ask for, what it was given,
 * what was seen of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "grant/peek.h"
#include "model/activity.h"
#include "model/correction.h"
#include "model/endless.h"

#define POWER_LOOKS 3

struct power_gpu {
	/* As its pod says, kept when the pod is gone from the API server and the container is not. */
	uint32_t percent, weight;
	bool known;   /* the pod was seen */
	bool counted; /* it may run now: it has not ended, nor waits for the pod's init containers */

	/* What is in the grant. */
	uint64_t share, rate, policy;
	struct correction correction;

	struct activity activity;
	unsigned looks; /* at its activity, up to POWER_LOOKS: before, nobody knows whether it has work */
	bool busy;

	/* What the driver said last, and what came of all of it. */
	unsigned used_percent; /* by the driver's count, its processes together */
	uint64_t who;	       /* its processes there, as correction_processes() wants them */
	uint64_t used_ns;      /* of all samples */
	struct endless endless;
	uint64_t unpaid_ns; /* used past the share while nothing was started, of all samples */
};
