/* division.h - how the runs of this machine divide the computing power of a GPU: what each asked for, and
 * whether one more fits. power.h handles the changes while they run. */
#pragma once

#include "model/shares.h"
#include "run/registry.h"

/* What the arguments of a run ask for; 0 and -1: not set. */
struct division_wish {
	uint32_t percent, weight;
	int policy;
};

/* division_admit() - call it with the registry locked. It writes the run's policy into ret_power, and the
 * share with which the run begins into the grant. All runs on a GPU have the same policy: that of the first.
 * -ENOSPC with a list of the holders if the percentages exceed a GPU; -EBUSY if the runs on it have another
 * policy than the requested one. */
int division_admit(struct registry *registry, const struct division_wish *wish, struct grant_file *grant,
	const char labels[][16], struct run_power *ret_power, struct error *err);
