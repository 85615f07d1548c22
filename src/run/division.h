/* division.h - how the runs of this machine divide the computing power of a GPU: what each asked for, and
 * whether one more fits. What follows from it while they run is power.h. */
#pragma once

#include "model/shares.h"
#include "run/registry.h"

/* What the arguments of a run say of it; 0 and -1: nothing. */
struct division_wish {
	uint32_t percent, weight;
	int policy;
};

/* division_admit() - with the registry locked: which policy the run is under, into ret_power, and the share
 * that it begins with, into the grant. All runs of a GPU are under one policy: that of the first. -ENOSPC
 * and who has what, if the percentages come to more than a GPU; -EBUSY: the runs on it are under another
 * policy than is asked for. */
int division_admit(struct registry *registry, const struct division_wish *wish, struct grant_file *grant,
	const char labels[][16], struct run_power *ret_power, struct error *err);
