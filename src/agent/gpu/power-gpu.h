/* power-gpu.h - the computing power of one container on one GPU: its request, its share, and its measured
 * use. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "grant/peek.h"
#include "model/activity.h"
#include "model/correction.h"

#define POWER_LOOKS 3

struct power_gpu {
	/* From the pod's spec. Kept when the pod is gone from the API server but the container still runs. */
	uint32_t percent, weight;
	bool known;   /* the pod was seen */
	bool counted; /* it may run now: it has not ended and does not wait for init containers */

	/* The values in the grant. */
	uint64_t share, rate, policy;
	struct correction correction;

	struct activity activity;
	unsigned looks; /* samples of its activity, up to POWER_LOOKS; with fewer, `busy` is not known */
	bool busy;

	/* The driver's last sample, and sums over all samples. */
	unsigned used_percent; /* of all its processes, by the driver's count */
	uint64_t who;	       /* identifies the set of its processes (correction_who()) */
	uint64_t used_ns;      /* sum over all samples */
	struct endless endless;
	uint64_t unpaid_ns; /* sum of the use past the share while nothing was started */
};
