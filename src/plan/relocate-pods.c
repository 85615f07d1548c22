/* relocate-pods.c - the pods of a search for moves: those that may be moved, and those that wait. */
#include "plan/relocate-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/core.h"
#include "core/events.h"
#include "core/policies.h"
#include "kube/json.h"
#include "kube/names.h"

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

/* Whether the pod's gang has started, so that kube-scheduler schedules each new pod of it by itself. The core
 * forgets that when the gang's last pod is removed, and every waiter is removed once. */
static bool has_started(const struct plan_world *world, const char *uid)
{
	struct core *core = world->core;
	struct gang_view view;

	return gangs_find(&core->gangs, &core->ledger, uid, world->now_ns, &view) && view.started;
}

static void leave_gang(struct json_object *pod)
{
	static const char *const names[] = {LABEL_GANG, LABEL_GANG_MIN, LABEL_POD_GROUP};
	struct json_object *labels = json_member(json_member(pod, "metadata"), "labels");

	for (size_t i = 0; labels && i < ARRAY_SIZE(names); i++)
		json_object_object_del(labels, names[i]);
}

/* Of the gangs, the oldest comes first, so the object keeps the pod's age. */
static struct json_object *make_waiter(
	const struct plan_world *world, const struct plan_move *move, const char *uid)
{
	_cleanup_json_ struct json_object *object = plan_replacement(move->pod);

	if (!object || (*move->created && json_set_text(json_member(object, "metadata"), "creationTimestamp",
						  move->created) < 0))
		return NULL;
	if (uid && has_started(world, uid))
		leave_gang(object);
	return TAKE_PTR(object);
}

static int add_waiter(struct relocate_search *search, const struct plan_move *move, struct error *err)
{
	struct plan_world *world = search->world;
	const char *uid = json_member_string(json_member(move->pod, "metadata"), "uid");
	const struct ledger_pod *known = uid ? ledger_pod(&world->core->ledger, uid) : NULL;
	_cleanup_json_ struct json_object *object = make_waiter(world, move, uid);
	struct relocate_waiter *waiter = &search->waiters[search->n_waiters];
	struct plan_pod pod = {0};
	struct error ignored;
	int r = object ? plan_pod_read(object, ++search->number, &pod, &ignored) : -ENOMEM;
	bool is_empty = r == 0 && request_is_empty(&pod.facts.request),
	     considered = r == 0 && is_considered(world, &pod.facts) &&
			  (!known || (known->occupancy == OCCUPANCY_WAITING && !known->nomination));

	plan_pod_release(&pod);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (!considered) {
		search->moves->unconsidered++;
		search->moves->waited++;
		return 0;
	}
	if (is_empty)
		return 0;
	*waiter = (struct relocate_waiter){.move = move, .object = TAKE_PTR(object)};
	pod_facts_init(&waiter->facts);
	search->n_waiters++;
	if (uid)
		core_pod_is_gone(world->core, uid, true, world->now_ns);
	return relocate_wait(search, waiter->object, &waiter->facts, err);
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
