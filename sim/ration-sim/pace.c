#include "sim/ration-sim/pace.h"

#include <errno.h>

#include "base/parse.h"

const struct pace_key pace_keys[PACE_KEYS] = {
	{"slice-us", "sliceUs", offsetof(struct sim_pace, slice_us), 1, 1000000},
	{"latency-ns", "latencyNs", offsetof(struct sim_pace, latency_ns), 0, 1000000000},
	{"jitter-percent", "jitterPercent", offsetof(struct sim_pace, jitter_percent), 0, 90},
	{"seed", "seed", offsetof(struct sim_pace, seed), 0, UINT32_MAX},
};

int pace_set(struct sim_pace *pace, const struct pace_key *key, const char *text, struct error *err)
{
	uint32_t number;

	if (parse_u32(text, key->max, &number) < 0 || number < key->min)
		return error_set(err, EINVAL, "--%s must be %u to %u", key->option, key->min, key->max);
	atomic_store(pace_value(pace, key), number);
	return 0;
}
