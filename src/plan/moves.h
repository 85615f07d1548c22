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
