/* relocate-internal.h - what relocate.c, relocate-pods.c and relocate-place.c share: the state of one search.
 */
#pragma once

#include "base/table.h"
#include "model/facts.h"
#include "plan/quantities.h"
#include "plan/relocate.h"

/* A pod that may be moved. */
struct relocate_mover {
	struct json_object *pod;
	struct pod_facts facts; /* with its present uid in the core, node and placement */
	struct quantities requests;
	bool moved;
	uint32_t used; /* of its fullest GPU, in MiB; for the order */
	uint64_t mib;  /* of its own */
};

/* A pod that waits. */
struct relocate_waiter {
	const struct plan_move *move;
	struct json_object *object; /* with its present uid in the core */
	struct pod_facts facts;	    /* the same */
	bool runs;
};

/* What one trial has bound. */
struct relocate_bound {
	char *uid, *node;
	struct quantities requests;
	size_t waiter; /* SIZE_MAX: it is the pod that is moved */
	struct plan_outcome outcome;
};

struct relocate_search {
	struct plan_world *world;
	struct relocate_mover *movers;
	struct relocate_waiter *waiters;
	struct plan_moves order; /* the pods that wait, in kube-scheduler's order */
	size_t n_movers, n_waiters, number;
	struct table spent;
	struct relocate_bound *bound;
	size_t n_bound;
	struct relocations *moves;
};

/* relocate_read_pods() - the pods that may be moved, and those that wait; those that run without a move are
 * bound. -ENOMEM; -EIO with a sentence. */
int relocate_read_pods(
	struct relocate_search *search, struct json_object *const *pods, size_t n, struct error *err);

/* relocate_wait() - the pod waits under a new uid, which its object gets, too. facts: NULL, or those of the
 * uid before. A pod that was tried or taken back waits under another uid each time, so that nothing that the
 * core remembers of a trial applies to the next. */
int relocate_wait(struct relocate_search *search, struct json_object *object, struct pod_facts *facts,
	struct error *err);

/* relocate_place() - tries one pod of no gang that waits; waiter: its number, or SIZE_MAX for the pod that is
 * moved. relocate_place_waiter() - tries the waiter, or all pods of its gang that do not run yet. Return 1 if
 * something is bound, 0 if not. */
int relocate_place(
	struct relocate_search *search, struct json_object *object, size_t waiter, struct error *err);
int relocate_place_waiter(struct relocate_search *search, size_t waiter, struct error *err);

/* relocate_is_next() - it does not run yet, and is the first of its gang of which that holds.
 * relocate_has_room() - the node has room for it, or for one of its gang that does not run yet. */
bool relocate_is_next(const struct relocate_search *search, size_t waiter);
bool relocate_has_room(const struct relocate_search *search, size_t waiter, const char *node);

/* relocate_forget() - forgets what this trial has bound. relocate_undo() - the pods are bound no more. */
void relocate_forget(struct relocate_search *search);
int relocate_undo(struct relocate_search *search, struct error *err);
void relocate_bound_release(struct relocate_bound *bound);

/* relocate_remove() - a pod leaves its node. relocate_set_uid() - a uid that no pod has. */
void relocate_remove(
	struct relocate_search *search, const char *uid, const char *node, const struct quantities *requests);
int relocate_set_uid(struct relocate_search *search, struct pod_facts *facts);
