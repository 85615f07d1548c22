/* endless.h - detects a container that uses a GPU beyond its share and starts nothing: it runs a kernel that
 * does not end and that cannot be interrupted. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ENDLESS_NS UINT64_C(10000000000) /* no sample lags this long, and few kernels take this long */
#define ENDLESS_MARGIN 50000		 /* millionths of the GPU: the driver counts in whole percents */

struct endless {
	uint64_t for_ns;
	bool told;
};

/* endless_sample() - in elapsed_ns this was started, by the shims' count, and this was used, by the driver's;
 * share in millionths of the GPU. Returns true once for each such kernel; the caller then reports it. */
bool endless_sample(
	struct endless *endless, uint64_t elapsed_ns, uint64_t started_ns, uint64_t used_ns, uint32_t share);
