/* gangs.h - tries pods that may belong to gangs. As in the scheduler, the pods of a gang are bound when
 * enough of them have places; until then their GPUs are held. Pure. */
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

/* plan_expect() - the pod has been created and waits. Call it for all pods before the first of them is tried,
 * because a gang counts its pods. The back-off of its gang is over. -ENOMEM. */
int plan_expect(struct plan_world *world, struct plan_pod *pod);

/* plan_try() - like plan_place(), also for pods of gangs. If the pod's GPU is only held, *pod is taken over,
 * and *ret_outcome must stay valid until plan_gangs_end(), which may still change it. */
int plan_try(struct plan_world *world, struct plan_gangs *gangs, struct plan_pod *pod,
	struct plan_outcome *ret_outcome, struct error *err);

/* plan_gangs_end() - call it when all pods were tried: the held pods whose gang lacks others wait. Frees
 * gangs in any case. -ENOMEM. */
int plan_gangs_end(struct plan_world *world, struct plan_gangs *gangs);
