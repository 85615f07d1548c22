/* moves-internal.h - what moves.c, change.c and relocate-place.c share: creating pods and trying them, one
 * after the other. */
#pragma once

#include "plan/gangs.h"
#include "plan/moves.h"

/* The pods of one plan. */
struct plan_trial {
	struct plan_world *world;
	struct plan_moves *moves;
	struct plan_pod *pods; /* one for each move */
	struct plan_gangs gangs;
};

/* plan_trial_create() - creates the pod of this move from this object; number: as in plan_pod_read().
 * plan_trial_try() - kube-scheduler tries it; nothing happens if it asks for no GPU. plan_trial_end() - sets
 * the fates, and returns r, or an error of its own; the caller's r is negative if something failed before. */
int plan_trial_begin(struct plan_trial *trial, struct plan_world *world, struct plan_moves *moves);
int plan_trial_create(
	struct plan_trial *trial, size_t i, struct json_object *object, size_t number, struct error *err);
int plan_trial_try(struct plan_trial *trial, size_t i, struct error *err);
int plan_trial_end(struct plan_trial *trial, int r, struct error *err);

/* plan_add_move() - NULL: out of memory. plan_compare_names() - for qsort(): by priority, namespace and name.
 * plan_has_ended() - the Pod object's phase. plan_end_pod() - the pod's containers have ended, and it is
 * deleted. -ENOMEM. */
struct plan_move *plan_add_move(struct plan_moves *moves, struct json_object *pod);
int plan_compare_names(const void *a, const void *b);
bool plan_has_ended(struct json_object *pod);
int plan_end_pod(struct plan_world *world, struct json_object *pod);
