/* pace.h - how the GPUs of a tree pace work, as numbers that people give: in gpus.json, to `up` and to
 * `set`. */
#pragma once

#include "base/error.h"
#include "sim/state/layout.h"

struct pace_key {
	const char *option, *json; /* "slice-us", "sliceUs" */
	size_t offset;		   /* in struct sim_pace */
	uint32_t min, max;
};

#define PACE_KEYS 4
extern const struct pace_key pace_keys[PACE_KEYS];

static inline _Atomic uint32_t *pace_value(struct sim_pace *pace, const struct pace_key *key)
{
	return (_Atomic uint32_t *)((char *)pace + key->offset);
}

/* pace_set() - errors name the option. */
int pace_set(struct sim_pace *pace, const struct pace_key *key, const char *text, struct error *err);
