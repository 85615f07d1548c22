/* relocate-pods.c - the pods of a search for moves: those that may be moved, and those that wait. */
#include "plan/relocate-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "core/core.h"
#include "core/events.h"
#include "core/policies.h"
#include "kube/json.h"

static bool is_considered(const struct plan_world *world, const struct pod_facts *facts)
{
	return !facts->request.group && !core_policy_space(world->core, facts->namespace_);
}

static int add_mover(struct relocate_search *search, struct json_object *pod)
{
	const char *uid = json_member_string(json_member(pod, "metadata"), "uid"),
		   *phase = json_member_string(json_member(pod, "status"), "phase");
	const struct ledger_pod *held = uid ? ledger_pod(&search->world->core->ledger, uid) : NULL;
	struct relocate_mover *mover = &search->movers[search->n_movers];

	if (!held || held->occupancy != OCCUPANCY_BOUND || !held->has_placement || held->resize ||
		held->facts.deleting || !phase || strcmp(phase, "Running") != 0 || held->facts.gang ||
		!is_considered(search->world, &held->facts) ||
		json_member(json_member(pod, "spec"), "resourceClaims"))
		return 0;
	mover->pod = pod;
	pod_facts_init(&mover->facts);
	search->n_movers++;
	if (pod_facts_copy(&held->facts, &mover->facts) < 0)
		return -ENOMEM;
	placement_release(&mover->facts.placement);
	if (placement_copy(&held->placement, &mover->facts.placement) < 0)
		return -ENOMEM;
	mover->facts.has_placement = true;
	return quantities_of_pod(pod, &mover->requests);
}

static int add_waiter(struct relocate_search *search, const struct plan_move *move, struct error *err)
{
	const char *uid = json_member_string(json_member(move->pod, "metadata"), "uid");
	const struct ledger_pod *known = uid ? ledger_pod(&search->world->core->ledger, uid) : NULL;
	struct relocate_waiter *waiter = &search->waiters[search->n_waiters];
	struct plan_pod pod = {0};
	struct error ignored;
	int r;

	waiter->object = plan_replacement(move->pod);
	/* Of the gangs, the oldest comes first. */
	if (!waiter->object || (*move->created && json_set_text(json_member(waiter->object, "metadata"),
							  "creationTimestamp", move->created) < 0))
		return error_set(err, ENOMEM, "out of memory");
	r = plan_pod_read(waiter->object, ++search->number, &pod, &ignored);
	if (r < 0 || !is_considered(search->world, &pod.facts) ||
		(known && (known->occupancy != OCCUPANCY_WAITING || known->nomination))) {
		search->moves->unconsidered++;
		search->moves->waited++;
	} else if (!request_is_empty(&pod.facts.request)) {
		waiter->move = move;
		pod_facts_init(&waiter->facts);
		search->n_waiters++;
		plan_pod_release(&pod);
		if (uid)
			core_pod_is_gone(search->world->core, uid, true, search->world->now_ns);
		return relocate_wait(search, waiter->object, &waiter->facts, err);
	}
	json_object_put(waiter->object);
	plan_pod_release(&pod);
	return 0;
}

/* The pods are tried as they are; kube-scheduler would do that without a move, too. */
static int place_all(struct relocate_search *search, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < search->n_waiters; i++)
		if (relocate_is_next(search, i))
			r = relocate_place_waiter(search, i, err);
	return r;
}

int relocate_read_pods(
	struct relocate_search *search, struct json_object *const *pods, size_t n, struct error *err)
{
	int r = 0;

	search->movers = calloc(n + 1, sizeof(*search->movers));
	search->waiters = calloc(n + 1, sizeof(*search->waiters));
	if (!search->movers || !search->waiters)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (add_mover(search, pods[i]) < 0)
			return error_set(err, ENOMEM, "out of memory");
	r = plan_list_waiting(pods, n, &search->order);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r >= 0 && i < search->order.n; i++)
		r = add_waiter(search, &search->order.list[i], err);
	if (r >= 0)
		r = place_all(search, err);
	search->moves->fits_now = search->n_bound;
	search->moves->waited += search->n_waiters - search->n_bound;
	relocate_forget(search);
	return r < 0 ? r : 0;
}
