/* moves.h - what becomes of the pods of drained nodes, and of pods that wait. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"

enum plan_fate {
	PLAN_RUNS,	/* it gets the GPU in outcome */
	PLAN_WAITS,	/* outcome has the reasons */
	PLAN_LOST,	/* no controller creates it again */
	PLAN_STAYS,	/* a drain leaves it where it is */
	PLAN_FORBIDDEN, /* it is not evicted: a PodDisruptionBudget forbids it now */
	PLAN_NO_GPU,	/* it asks for no GPU, so kube-scheduler alone decides */
	PLAN_FATE_MAX,
};

struct plan_move {
	struct json_object *pod; /* borrowed */
	const char *namespace_, *name;
	const char *from; /* its node; "": it waits */
	enum plan_fate fate;
	char text[160]; /* why, for PLAN_LOST, PLAN_STAYS and PLAN_FORBIDDEN */
	int32_t priority;
	const char *created; /* creationTimestamp */
	struct plan_outcome outcome;
};

struct plan_moves {
	struct plan_move *list; /* in the order in which kube-scheduler tries the pods */
	size_t n;
};
void plan_moves_release(struct plan_moves *moves);

/* plan_drain() - the nodes are cordoned, and their pods are evicted as `kubectl drain` does. Then
 * kube-scheduler tries the pods that their controllers create, by priority and then by namespace and name.
 * one_by_one: each new pod is tried before the next pod is evicted, so that its gang still has running pods.
 * pods: all Pod objects on these nodes; others in the list are ignored. -ENOENT with a sentence: there is no
 * such node; -ENOMEM. */
int plan_drain(struct plan_world *world, struct json_object *const *pods, size_t n, const char *const *nodes,
	bool one_by_one, struct plan_moves *moves, struct error *err);

/* plan_add_node() - adds a node like this object, with this name, without faults. -EINVAL with a sentence;
 * -ENOMEM. */
int plan_add_node(struct plan_world *world, struct json_object *node, const char *name, struct error *err);

/* plan_list_waiting() - the pods of the list that are not bound and that this scheduler serves, by priority
 * and then by age. -ENOMEM. */
int plan_list_waiting(struct json_object *const *pods, size_t n, struct plan_moves *moves);

/* plan_waiting() - kube-scheduler tries the pods of the list that are not bound, by priority and then by age.
 */
int plan_waiting(struct plan_world *world, struct json_object *const *pods, size_t n,
	struct plan_moves *moves, struct error *err);

/* ---- for change.c and relocate-place.c: pods are created, and tried one after the other ---- */

/* plan_try_moves() - creates the pods of these moves, and then tries them in this order. number: of the first
 * pod, as in plan_pod_read(); 0: pods that have a uid keep it. */
int plan_try_moves(struct plan_world *world, struct plan_moves *moves, size_t number, struct error *err);

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
int plan_trial_begin(
	struct plan_trial *trial, struct plan_world *world, struct plan_moves *moves, struct error *err);
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
