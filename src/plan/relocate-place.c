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

void relocate_forget(struct relocate_search *search)
{
	while (search->n_bound)
		relocate_bound_release(&search->bound[--search->n_bound]);
}

int relocate_wait(struct relocate_search *search, struct json_object *object, struct pod_facts *facts,
	struct error *err)
{
	struct plan_world *world = search->world;
	struct plan_pod pod = {0};
	int r = plan_pod_read(object, ++search->number, &pod, err);

	if (r == 0 && core_see_pod(world->core, &pod.facts, 0, world->now_ns) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	if (r == 0 && facts) {
		pod_facts_release(facts);
		*facts = pod.facts;
		pod_facts_init(&pod.facts);
	}
	plan_pod_release(&pod);
	return r;
}

static bool is_mate(const struct relocate_waiter *a, const struct relocate_waiter *b)
{
	return a == b || (a->facts.gang && b->facts.gang && strcmp(a->facts.gang, b->facts.gang) == 0 &&
				 strcmp(a->facts.namespace_, b->facts.namespace_) == 0);
}

/* The waiter, and the pods of its gang that do not run: all leave before the first returns, so that the core
 * keeps nothing of the gang. */
static int wait_again(struct relocate_search *search, size_t waiter, struct error *err)
{
	struct plan_world *world = search->world;
	struct relocate_waiter *waiters = search->waiters;
	int r = 0;

	for (size_t i = 0; i < search->n_waiters; i++)
		if (!waiters[i].runs && is_mate(&waiters[i], &waiters[waiter]))
			core_pod_is_gone(world->core, waiters[i].facts.uid, true, world->now_ns);
	for (size_t i = 0; r == 0 && i < search->n_waiters; i++)
		if (!waiters[i].runs && is_mate(&waiters[i], &waiters[waiter]))
			r = relocate_wait(search, waiters[i].object, &waiters[i].facts, err);
	return r;
}

int relocate_undo(struct relocate_search *search, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < search->n_bound; i++) {
		struct relocate_bound *bound = &search->bound[i];

		relocate_remove(search, bound->uid, bound->node, &bound->requests);
		if (bound->waiter != SIZE_MAX)
			search->waiters[bound->waiter].runs = false;
	}
	for (size_t i = 0; r == 0 && i < search->n_bound; i++) {
		struct relocate_bound *bound = &search->bound[i];

		/* If it has another uid, it waits again already, with a pod of its gang. */
		if (bound->waiter != SIZE_MAX &&
			strcmp(search->waiters[bound->waiter].facts.uid, bound->uid) == 0)
			r = wait_again(search, bound->waiter, err);
	}
	relocate_forget(search);
	return r;
}

int relocate_place(
	struct relocate_search *search, struct json_object *object, size_t waiter, struct error *err)
{
	struct relocate_bound new = {.waiter = waiter};
	struct plan_pod pod = {0};
	int r;

	if (array_room(&search->bound, search->n_bound, sizeof(new)) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = plan_pod_read(object, 0, &pod, err);
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
	if (r == 1) {
		search->bound[search->n_bound++] = new;
		if (waiter != SIZE_MAX)
			search->waiters[waiter].runs = true;
		return 1;
	}
	relocate_bound_release(&new);
	return r == 0 && waiter != SIZE_MAX ? wait_again(search, waiter, err) : r;
}

/* ---- gangs ---- */

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

/* The pod of the gang was tried, and is bound. */
static int take_bound(struct relocate_search *search, struct plan_move *tried, size_t waiter)
{
	struct relocate_bound *new;

	if (array_room(&search->bound, search->n_bound, sizeof(*new)) < 0)
		return -ENOMEM;
	new = &search->bound[search->n_bound++];
	*new = (struct relocate_bound){.uid = strdup(search->waiters[waiter].facts.uid),
		.node = strdup(tried->outcome.node),
		.waiter = waiter,
		.outcome = tried->outcome};
	tried->outcome = (struct plan_outcome){0};
	search->waiters[waiter].runs = true;
	return new->uid &&new->node ? quantities_of_pod(tried->pod, &new->requests) : -ENOMEM;
}

static int place_gang(struct relocate_search *search, size_t waiter, struct error *err)
{
	struct relocate_waiter *waiters = search->waiters;
	struct plan_moves moves = {0};
	size_t n = 0, bound = search->n_bound;
	int r = 0;

	for (size_t i = waiter; r == 0 && i < search->n_waiters; i++)
		if (!waiters[i].runs && is_mate(&waiters[i], &waiters[waiter]) &&
			!plan_add_move(&moves, waiters[i].object))
			r = error_set(err, ENOMEM, "out of memory");
	if (r == 0)
		r = plan_try_moves(search->world, &moves, 0, err);
	for (size_t i = waiter; r == 0 && n < moves.n; i++) {
		if (waiters[i].object != moves.list[n].pod)
			continue;
		if (moves.list[n].fate == PLAN_RUNS && take_bound(search, &moves.list[n], i) < 0)
			r = error_set(err, ENOMEM, "out of memory");
		n++;
	}
	plan_moves_release(&moves);
	if (r == 0)
		r = wait_again(search, waiter, err);
	return r < 0 ? r : search->n_bound > bound;
}

int relocate_place_waiter(struct relocate_search *search, size_t waiter, struct error *err)
{
	return search->waiters[waiter].facts.gang
		       ? place_gang(search, waiter, err)
		       : relocate_place(search, search->waiters[waiter].object, waiter, err);
}
