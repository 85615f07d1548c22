/* admission.h - whether one more run fits on its GPUs. */
#pragma once

#include "run/registry.h"

/* admission_check() - against the limits of all runs that live, with the registry locked. -ENOSPC and who has
 * the rest of a GPU. */
int admission_check(struct registry *registry, const struct grant_file *grant, const char labels[][16],
	struct error *err);
