/* cases.h - histories with a name: the sequences that break naive device plugins (Kubernetes 1.36.3), and
 * each race that the simulation or the lab has found. */
#pragma once

#include <stddef.h>

#include "sim.h"

struct sim_case {
	const char *name;
	const char *why; /* what happens in it, or why it does not concern the simulation */
	void (*plan)(struct plan *plan);
	int (*check)(
		const struct sim *sim, const struct statistics *statistics); /* 0: as expected; or NULL */
};

const struct sim_case *case_list(size_t *ret_n);
void case_plan(const struct sim_case *c, struct plan *ret_plan);
int case_check(const struct sim_case *c, const struct sim *sim, const struct statistics *statistics);
void case_print_list(void);
