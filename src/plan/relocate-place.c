/* relocate-place.c - one trial of relocate.c: a pod is tried, or a gang that waits, and what was bound is
 * taken back. */
#include "plan/relocate-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "core/core.h"
#include "core/events.h"
#include "plan/moves.h"

void relocate_bound_release(struct relocate_bound *bound)
{
	free(bound->uid);
	free(bound->node);
	quantities_release(&bound->requests);
	plan_outcome_release(&bound->outcome);
}

int relocate_set_uid(struct relocate_search *search, struct pod_facts *facts)
{
	char uid[40];

	snprintf(uid, sizeof(uid), "plan-%zu", ++search->number);
	free(facts->uid);
	facts->uid = strdup(uid);
	return facts->uid ? 0 : -ENOMEM;
}

void relocate_remove(
	struct relocate_search *search, const char *uid, const char *node, const struct quantities *requests)
{
	struct plan_world *world = search->world;

	core_pod_is_gone(world->core, uid, true, world->now_ns);
	if (world->kube)
		kube_nodes_remove(world->kube, node, requests);
}

void relocate_forget(struct relocate_search *search, bool undo)
{
	while (search->n_bound) {
		struct relocate_bound *bound = &search->bound[--search->n_bound];

		if (undo) {
			relocate_remove(search, bound->uid, bound->node, &bound->requests);
			if (bound->waiter != SIZE_MAX)
				search->waiters[bound->waiter].runs = false;
		}
		relocate_bound_release(bound);
	}
}

/* Tries one pod. Returns 1 if it is bound, 0 if not. */
int relocate_place(
	struct relocate_search *search, struct json_object *object, size_t waiter, struct error *err)
{
	struct relocate_bound new = {.waiter = waiter};
	struct plan_pod pod = {0};
	int r;

	if (array_room(&search->bound, search->n_bound, sizeof(new)) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = plan_pod_read(object, ++search->number, &pod, err);
	if (r == 0)
		r = plan_place(search->world, &pod, &new.outcome, err);
	if (r == 0 && new.outcome.placed) {
		new.uid = strdup(pod.facts.uid);
		new.node = strdup(new.outcome.node);
		new.requests = pod.requests;
		pod.requests = (struct quantities){0};
		r = new.uid &&new.node ? 1 : error_set(err, ENOMEM, "out of memory");
	}
	plan_pod_release(&pod);
	if (r <= 0) {
		relocate_bound_release(&new);
		return r;
	}
	search->bound[search->n_bound++] = new;
	if (waiter != SIZE_MAX)
		search->waiters[waiter].runs = true;
	return 1;
}

/* ---- gangs ---- */

static bool is_mate(const struct relocate_waiter *a, const struct relocate_waiter *b)
{
	return a == b || (a->facts.gang && b->facts.gang && strcmp(a->facts.gang, b->facts.gang) == 0 &&
				 strcmp(a->facts.namespace_, b->facts.namespace_) == 0);
}

bool relocate_is_next(const struct relocate_search *search, size_t waiter)
{
	const struct relocate_waiter *one = &search->waiters[waiter];

	for (size_t i = 0; one->facts.gang && i < waiter; i++)
		if (!search->waiters[i].runs && is_mate(&search->waiters[i], one))
			return false;
	return !one->runs;
}

bool relocate_has_room(const struct relocate_search *search, size_t waiter, const char *node)
{
	for (size_t i = waiter; i < search->n_waiters; i++) {
		const struct relocate_waiter *one = &search->waiters[i];

		if (!one->runs && is_mate(one, &search->waiters[waiter]) &&
			ledger_choose(&search->world->core->ledger, node, &one->facts, NULL) == FITS)
			return true;
		if (!one->facts.gang && i == waiter)
			return false;
	}
	return false;
}

/* One pod of the gang was tried under the uid with this number. It is bound, or it is as if it had never
 * been. */
static int take_result(struct relocate_search *search, struct plan_move *tried, size_t waiter, size_t number)
{
	struct relocate_bound *new;
	char uid[40];

	snprintf(uid, sizeof(uid), "plan-%zu", number);
	if (array_room(&search->bound, search->n_bound, sizeof(*new)) < 0)
		return -ENOMEM;
	if (tried->fate != PLAN_RUNS) {
		core_pod_is_gone(search->world->core, uid, true, search->world->now_ns);
		return 0;
	}
	new = &search->bound[search->n_bound++];
	*new = (struct relocate_bound){.uid = strdup(uid),
		.node = strdup(tried->outcome.node),
		.waiter = waiter,
		.outcome = tried->outcome};
	tried->outcome = (struct plan_outcome){0};
	search->waiters[waiter].runs = true;
	return new->uid &&new->node &&quantities_of_pod(tried->pod, &new->requests) == 0 ? 1 : -ENOMEM;
}

static int place_gang(struct relocate_search *search, size_t waiter, struct error *err)
{
	const size_t number = search->number + 1;
	struct plan_moves moves = {0};
	size_t n = 0, bound = search->n_bound;
	int r = 0;

	for (size_t i = waiter; r == 0 && i < search->n_waiters; i++)
		if (!search->waiters[i].runs && is_mate(&search->waiters[i], &search->waiters[waiter]))
			r = plan_add_move(&moves, search->waiters[i].object)
				    ? 0
				    : error_set(err, ENOMEM, "out of memory");
	search->number += moves.n;
	if (r == 0)
		r = plan_try_moves(search->world, &moves, number, err);
	for (size_t i = waiter; r >= 0 && n < moves.n; i++) {
		struct relocate_waiter *one = &search->waiters[i];

		if (one->object != moves.list[n].pod)
			continue;
		r = take_result(search, &moves.list[n], i, number + n);
		n++;
	}
	plan_moves_release(&moves);
	if (r < 0)
		return err->text[0] ? r : error_set(err, ENOMEM, "out of memory");
	return search->n_bound > bound;
}

int relocate_place_waiter(struct relocate_search *search, size_t waiter, struct error *err)
{
	return search->waiters[waiter].facts.gang
		       ? place_gang(search, waiter, err)
		       : relocate_place(search, search->waiters[waiter].object, waiter, err);
}
