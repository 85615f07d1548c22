/* relocate.h - which pods to move so that waiting pods run, or whole GPUs become free. Pure.
 *
 * The rule is greedy. The best plan is a packing problem for which no fast method is known; a person can
 * follow and check moves that each have a gain of their own. A move evicts one pod. Its GPUs are cordoned
 * until its new pod is bound; otherwise the new pod often came beside the old one, and nothing was won. Its
 * controller makes the new pod at once, and kube-scheduler tries it while the old pod still has its GPU; only
 * a StatefulSet makes it when the old pod has ended, and a pod that found no room is tried again then. When
 * the new pod is bound, the GPUs are uncordoned, and kube-scheduler tries the pods that wait, by priority and
 * then by age. The scheduler alone decides where they go, so a move is tried in the core, measured, and taken
 * back if it gains nothing. For each move these gains are searched for in this order:
 *
 * 1. more pods run that wait now. Only pods are tried whose end would make room for one that waits.
 * 2. more whole GPUs are free. Only pods are tried that are alone on one of their GPUs.
 * 3. free memory is less scattered: the sum of the squares of the GPUs' free memory grows. This empties the
 *    GPU with the least used memory further, so that a later move has the gain 1 or 2. Such moves
 *    at the end of the plan are dropped; one in the middle may stay although no later move needs it.
 *
 * A move that has an earlier gain may lose later ones, but not the reverse. The pods that are on the GPU with
 * the least used memory are tried first, and among these the smallest. The first move with a gain is kept,
 * and RELOCATE_TRIES pods at most are tried for each of the three gains, so that the time is bounded in a
 * large cluster. The plan ends when no move gains anything.
 *
 * Where the new pod waits for the end of the old one, the plan assumes that kube-scheduler tries a pod that
 * waits before the new one of the same priority. A pod that is in kube-scheduler's back-off at that moment
 * may come later, and find its place taken.
 *
 * A pod that is moved runs again in the same step, or the move is taken back: at no time do more pods wait
 * than before. So the priority of a pod does not protect it, as it does not in a drain; it only decides which
 * pod kube-scheduler tries first. Each pod is moved at most once. Each PodDisruptionBudget sees at most as
 * many evictions as it allows now: the plan does not count on it to allow more when the new pods are ready.
 *
 * These pods are not moved: those without a controller, of a DaemonSet, static, not running, being resized,
 * of a gang or a job with whole GPUs, in a namespace with ResourcePolicies, or with resource claims. Pods
 * that wait in a job with whole GPUs, in a namespace with ResourcePolicies, or for which others are evicted
 * already, are not tried. All pods of a gang that wait are tried together: enough of them have places, or all
 * of them wait. A gang that needs several moves is found only if each move has a gain of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/moves.h"

#define RELOCATE_TRIES 200 /* for each kind of gain of one move */

struct relocation {
	struct json_object *pod; /* borrowed */
	const char *namespace_, *name;
	struct plan_outcome from, to; /* where the pod is, and where its new pod goes */
	struct plan_moves runs;	      /* the waiting pods that run after the move */
	int64_t whole;		      /* how many more whole GPUs are free */
	bool holds;		      /* its GPUs are cordoned until the new pod is bound */
};

struct relocations {
	struct relocation *list; /* in the order in which they are carried out */
	size_t n;
	size_t waited, waits;	     /* pods that wait before the first move, and after the last */
	size_t fits_now;	     /* pods that have not been tried yet and run without a move */
	size_t unconsidered;	     /* pods that wait and are not tried */
	int64_t whole_before, whole; /* whole GPUs that are free, before and after */
	size_t tried;
	size_t dropped; /* moves at the end that were removed from the list, because no later move needs them
			 */
	bool tries_ended; /* a search has ended at RELOCATE_TRIES: there may be more moves */
};
void relocations_release(struct relocations *moves);

/* plan_relocate() - finds at most `max` moves. pods: all Pod objects that wait or are on a node. Afterwards
 * the world contains all moves, also the dropped ones, and the pods that run without a move. progress: NULL,
 * or called before each move is searched for. -ENOMEM; -EIO with a sentence. */
int plan_relocate(struct plan_world *world, struct json_object *const *pods, size_t n, size_t max,
	void (*progress)(void *userdata, size_t found), void *userdata, struct relocations *ret_moves,
	struct error *err);

/* plan_whole_free() - how many healthy GPUs no pod uses. */
int64_t plan_whole_free(const struct plan_world *world);
