/* Pods that may belong to gangs are tried: those of a gang are bound when enough of them have places. */
#include "plan/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/core.h"
#include "core/events.h"

#define LACKS_OTHERS "waits for the other pods of its gang"

/* A pod that does not exist yet counts as the youngest. */
int plan_expect(struct plan_world *world, struct plan_pod *pod)
{
	struct pod_facts *facts = &pod->facts;
	struct gang_member *member;

	if (!facts->created)
		facts->created = INT64_MAX;
	if (core_see_pod(world->core, facts, 0, world->now_ns) < 0)
		return -ENOMEM;
	member = table_get(&world->core->gangs.by_uid, facts->uid);
	if (member)
		member->gang->backoff.not_before_ns = 0;
	return 0;
}

static bool is_held(const struct plan_world *world, const struct plan_gang_pod *one)
{
	const struct ledger_pod *known = ledger_pod(&world->core->ledger, one->pod.facts.uid);

	return known && known->occupancy == OCCUPANCY_TENTATIVE;
}

static void forget(struct plan_gangs *gangs, size_t i)
{
	plan_pod_release(&gangs->list[i].pod);
	gangs->list[i] = gangs->list[--gangs->n];
}

/* Binds the last pod and the held pods of its gang if the gang has enough pods. */
static int bind_mates(struct plan_world *world, struct plan_gangs *gangs, struct error *err)
{
	_cleanup_free_ char *uid = strdup(gangs->list[gangs->n - 1].pod.facts.uid);
	struct core *core = world->core;
	struct gang_view view;
	size_t n = 0;
	int r = 0;

	if (!uid)
		return error_set(err, ENOMEM, "out of memory");
	if (!gangs_find(&core->gangs, &core->ledger, uid, world->now_ns, &view))
		return 0;
	for (size_t i = 0; i < gangs->n; i++)
		n += gangs_are_mates(&core->gangs, gangs->list[i].pod.facts.uid, uid) &&
		     is_held(world, &gangs->list[i]);
	if (view.n_placed + n < view.min)
		return 0;
	for (size_t i = gangs->n; r == 0 && i-- > 0;) {
		struct plan_gang_pod *one = &gangs->list[i];

		if (!gangs_are_mates(&core->gangs, one->pod.facts.uid, uid) || !is_held(world, one))
			continue;
		r = plan_show_bound(world, &one->pod, one->outcome->node);
		if (r == 0)
			forget(gangs, i);
	}
	return r < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

int plan_try(struct plan_world *world, struct plan_gangs *gangs, struct plan_pod *pod,
	struct plan_outcome *ret_outcome, struct error *err)
{
	int r = plan_place(world, pod, ret_outcome, err);

	if (r < 0 || !ret_outcome->held)
		return r;
	if (array_room(&gangs->list, gangs->n, sizeof(*gangs->list)) < 0)
		return error_set(err, ENOMEM, "out of memory");
	gangs->list[gangs->n++] = (struct plan_gang_pod){.pod = *pod, .outcome = ret_outcome};
	*pod = (struct plan_pod){0};
	return bind_mates(world, gangs, err);
}

/* Releases what is held for the pod, and sets the reason why it waits. */
static int turn_away(struct plan_world *world, struct plan_gang_pod *one)
{
	struct core *core = world->core;
	struct gang_view view;
	const char *text = LACKS_OTHERS;

	if (world->kube)
		kube_nodes_remove(world->kube, one->outcome->node, &one->pod.requests);
	core_drop_hold(core, one->pod.facts.uid);
	plan_outcome_release(one->outcome);
	if (gangs_find(&core->gangs, &core->ledger, one->pod.facts.uid, world->now_ns, &view) && view.text)
		text = view.text;
	one->outcome->text = strdup(text);
	return one->outcome->text ? 0 : -ENOMEM;
}

int plan_gangs_end(struct plan_world *world, struct plan_gangs *gangs)
{
	int r = 0;

	while (gangs->n) {
		if (r == 0)
			r = turn_away(world, &gangs->list[gangs->n - 1]);
		forget(gangs, gangs->n - 1);
	}
	free(gangs->list);
	*gangs = (struct plan_gangs){0};
	return r;
}
