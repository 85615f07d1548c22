/* plant.h - programs that share a simulated GPU in virtual time: the GPU is sim/state/engine.c, what paces
 * them is src/shim/pacing*.c and src/grant/token-bucket.c, what corrects them src/model/correction.c. Played
 * here are the driver's few functions that the shim calls, bench/tenant.c, and the keeper's part of
 * src/run/power.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENANTS_MAX 20
#define WINDOWS_MAX 64

struct row {
	unsigned percent[TENANTS_MAX]; /* ends with 0, or there are as many */
	uint32_t kernel_ns, depth;
	uint32_t also_ns;   /* each second kernel; 0: all are alike */
	uint32_t rest_ms;   /* all but the first rest as long as they work, in turns; 0: they never do */
	uint32_t graph;	    /* kernels of a graph; 0: none */
	uint32_t processes; /* of each tenant; 0: one */
	uint32_t slice_us, latency_ns, jitter_percent;
	uint32_t seed;
	bool no_keepers;
	bool told; /* no shim: who paces is told beforehand what each launch takes */
};

struct outcome {
	size_t tenants;
	double got[TENANTS_MAX][WINDOWS_MAX]; /* percent of the GPU in each second since the last one began */
	double start_ms; /* until the first one, which begins last, has nine tenths of its share in 100 ms */
};

/* plant_play() - so many seconds. */
void plant_play(const struct row *row, unsigned seconds, struct outcome *ret_outcome);
