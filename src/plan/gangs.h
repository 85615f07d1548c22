/* gangs.h - many pods, one after the other, some of them of gangs. As in the scheduler, a gang's pods are
 * bound when enough of them have places; until then their GPUs are held. Pure. */
#pragma once

#include <stddef.h>

#include "plan/place.h"

/* The pods whose GPUs are held. */
struct plan_gangs {
	struct plan_gang_pod {
		struct plan_pod pod;
		struct plan_outcome *outcome; /* the caller's */
	} * list;
	size_t n;
};

/* plan_expect() - the pod has been created and waits. Call it for all pods that are there before the first of
 * them is tried: a gang counts its pods. The back-off of its gang is over. -ENOMEM. */
int plan_expect(struct plan_world *world, struct plan_pod *pod);

/* plan_try() - plan_place(), for pods of gangs, too. If the pod's GPU is only held, plan_gangs_end() may
 * still change *ret_outcome, so it stays where it is. The pod may be taken over. */
int plan_try(struct plan_world *world, struct plan_gangs *gangs, struct plan_pod *pod,
	struct plan_outcome *ret_outcome, struct error *err);

/* plan_gangs_end() - all pods were tried: those whose gang lacks others wait. Frees gangs in any case.
 * -ENOMEM. */
int plan_gangs_end(struct plan_world *world, struct plan_gangs *gangs);
