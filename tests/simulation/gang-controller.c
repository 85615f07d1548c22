/* ration-scheduler's part for pods that are placed all or none: what gangs.c and gang-groups.c do around the
 * real state machine (core/gang/gang.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/gang/gang.h"
#include "core/registry/nomination.h"
#include "sim.h"

void controller_start(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct random *random = &sim->watchers[pair_watcher(pair, W_RATION_NODES)].random;

	requeue_list_init(&ration->no_requeues);
	if (sim->broken == BREAK_GANG_NO_REQUEUE)
		ration->core.gangs.requeues = &ration->no_requeues;
	if (!sim->plan->n_gangs)
		return;
	core_set_groups_known(&ration->core, false, sim->now_ns);
	sim_after(sim, sim_delay(random, 5000, 5000000), EVENT_GANG_GROUPS, ration->epoch, pair, 0, 0);
}

/* When core_look_at_gangs() is due. */
static void arm(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	int64_t due_ns = ration->core.gangs_look_ns;

	if (!due_ns || (ration->gang_look_ns && ration->gang_look_ns <= due_ns))
		return;
	ration->gang_look_ns = due_ns;
	ration->gang_look_serial = (ration->gang_look_serial + 1) & 0x7fff;
	sim_after(sim, due_ns > sim->now_ns ? due_ns - sim->now_ns : 0, EVENT_GANG_LOOK, ration->epoch, pair,
		ration->gang_look_serial, 0);
}

/* Its Binding is on its way, or in doubt. */
static bool is_sent(const struct ration *ration, const char *uid)
{
	const struct list *lists[] = {&ration->core.binds.in_flight, &ration->core.binds.doubtful};

	for (int i = 0; i < 2; i++)
		list_for_each (item, lists[i]) {
			const struct bind *bind = list_entry(item, struct bind, item);

			if (!bind->order_item.next && bind->order != BIND_LIST_NODE &&
				bind->order != BIND_READ_POD && strcmp(bind->what.uid, uid) == 0)
				return true;
		}
	return false;
}

/* Of a pod that is bound or on its way: what its Binding records, and not what the product makes of it. */
int controller_gang_of(const struct sim *sim, int pair, int pod)
{
	const struct ration *ration = &sim->rations[pair];
	const struct ledger_pod *known = ledger_pod(&ration->core.ledger, sim->pods[pod].uid_text);
	const struct pod_facts *facts = known ? &known->facts : NULL;

	if (sim->pods[pod].state.placed)
		return sim->pods[pod].bound_gang;
	if (is_sent(ration, sim->pods[pod].uid_text))
		return ration->sent_gang[pod];
	return facts && facts->gang ? facts->gang[1] - '0' : 0;
}

void controller_check_sent(struct sim *sim, int pair, int pod)
{
	struct ration *ration = &sim->rations[pair];
	int g = controller_gang_of(sim, pair, pod);
	const struct pod_facts *facts = gangs_facts(&ration->core.gangs, sim->pods[pod].uid_text);
	uint32_t have = 0;

	if (!g)
		return;
	for (int i = 0; i < sim->n_pods; i++) {
		const struct ledger_pod *known = ledger_pod(&ration->core.ledger, sim->pods[i].uid_text);

		have += known && controller_gang_of(sim, pair, i) == g &&
			(known->occupancy == OCCUPANCY_RESERVED || known->occupancy == OCCUPANCY_BOUND);
	}
	if (have < gang_need_at_least(sim, &sim->gangs[g]) && facts &&
		gangs_rules_out(&ration->core.gangs, facts))
		sim_violate(sim, "no Binding leaves before enough of the gang have their cards",
			"gang %d: %u of %u", g, have, sim->gangs[g].min);
}

static void carry_out_one(struct sim *sim, int pair, const struct gang_order *order)
{
	struct ration *ration = &sim->rations[pair];
	int pod = atoi(order->uid + 1);
	struct random *random = &sim->pods[pod].random;

	switch (order->kind) {
	case GANG_GO: /* the core does */
	case GANG_TURN_AWAY:
		break;
	case GANG_EVICT:
		/* What is not known by the watch may not be so. */
		if (sim->broken != BREAK_GANG_NO_EVICTION &&
			sim->watchers[pair_watcher(pair, W_RATION_PODS)].connected)
			sim_after(sim, sim_delay(random, 1000, 20000), EVENT_GANG_EVICT, 0, pod, pair, 0);
		break;
	case GANG_UNMARK:
		sim_after(sim, sim_delay(random, 1000, 20000), EVENT_GANG_UNMARK, 0, pod, 0, 0);
		break;
	case GANG_RECALL:
		sim_after(
			sim, sim_delay(random, 1000, 20000), EVENT_GANG_RECALL, ration->epoch, pair, pod, 0);
		break;
	}
}

/* What one was promised that went by itself goes into the next plan of its gang, once that has to be planned
 * as a whole again. */
static void forget_promises(struct sim *sim, struct ration *ration)
{
	for (int i = 0; i < sim->n_pods; i++)
		if (ration->held[i] >= 0) {
			const struct pod_facts *facts = gangs_facts(
				&ration->core.gangs, sim->pods[i].uid_text);

			if (facts && gangs_rules_out(&ration->core.gangs, facts))
				ration->held[i] = -1;
		}
}

void controller_carry_out(struct sim *sim, int pair)
{
	struct gang_order *order;

	forget_promises(sim, &sim->rations[pair]);
	while ((order = core_next_gang_order(&sim->rations[pair].core))) {
		carry_out_one(sim, pair, order);
		gang_order_free(order);
	}
	arm(sim, pair);
}

/* Once for each change. */
static void say_kept(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];

	for (int i = 0; sim->trace && i < sim->n_pods; i++) {
		const struct ledger_pod *known = ledger_pod(&ration->core.ledger, sim->pods[i].uid_text);
		const struct nomination *kept = known ? known->nomination : NULL;
		int n = kept ? kept->node->facts.name[1] - '0' : -1;
		int what = kept ? n << 8 | api_gpus(sim, n, &kept->shadow.placement) : -1;

		if (what != ration->kept[i] - 1)
			say(sim,
				kept ? "ration %d keeps for u%d cards %#x of n%d"
				     : "ration %d keeps for u%d nothing any more",
				pair, i, what & 0xff, n);
		ration->kept[i] = (int16_t)(what + 1);
	}
}

static void look(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct core *core = ration_core(sim, pair);
	struct gpus_seen before;

	ration->gang_look_ns = 0;
	gpus_look(sim, pair, &before);
	core_look_at_gangs(core, sim->now_ns);
	gpus_check_plans(sim, pair, &before);
	say_kept(sim, pair);
	ration_carry_out(sim, pair);
}

static void take_group(struct sim *sim, int pair, int g, uint32_t min)
{
	struct gang_group group = {.min = min, .timeout_ns = sim->plan->gangs[g].timeout_s * NS_PER_S};
	char key[16];

	snprintf(key, sizeof(key), "default/g%d", g);
	if (core_see_group(ration_core(sim, pair), key, &group, sim->now_ns) < 0)
		sim->truncated = "out of memory";
}

static void remove_group(struct sim *sim, int pair, int g)
{
	char key[16];

	snprintf(key, sizeof(key), "default/g%d", g);
	core_group_is_gone(ration_core(sim, pair), key, sim->now_ns);
}

static void groups_listed(struct sim *sim, int pair)
{
	if (api_is_away(sim)) {
		sim_after(sim, NS_PER_S, EVENT_GANG_GROUPS, sim->rations[pair].epoch, pair, 0, 0);
		return;
	}
	for (int g = 1; g <= sim->plan->n_gangs; g++)
		if (sim->plan->gangs[g].group && !sim->group_is_gone[g])
			take_group(sim, pair, g, sim->gangs[g].min);
	sim->rations[pair].groups_listed = sim->n_group_log;
	core_set_groups_known(ration_core(sim, pair), true, sim->now_ns);
	ration_carry_out(sim, pair);
}

/* The watch of PodGroups tells of a change. */
static void group_seen(struct sim *sim, int pair, int index)
{
	struct ration *ration = &sim->rations[pair];

	/* What the LIST shows the watch does not tell. */
	if (!ration->core.gangs.groups_known || index < ration->groups_listed ||
		sim->broken == BREAK_GANG_IGNORE_CHANGES)
		return;
	if (sim->group_log[index].min == GROUP_DELETED)
		remove_group(sim, pair, sim->group_log[index].gang);
	else
		take_group(sim, pair, sim->group_log[index].gang,
			sim->group_log[index].min == GROUP_MALFORMED ? 0 : sim->group_log[index].min);
	ration_carry_out(sim, pair);
}

void controller_change_group(struct sim *sim, const struct input *input)
{
	bool says = input->b != GROUP_DELETED && input->b != GROUP_MALFORMED;

	if (input->a > sim->plan->n_gangs || sim->n_group_log == GROUP_CHANGES_MAX)
		return;
	count(sim, COUNT_GROUP_CHANGES);
	say(sim, "PodGroup g%u: minMember %u", input->a, input->b);
	sim->group_is_gone[input->a] = input->b == GROUP_DELETED;
	gang_group_changes(sim, input->a, says ? input->b : 0);
	sim->group_log[sim->n_group_log].gang = input->a;
	sim->group_log[sim->n_group_log++].min = input->b;
	for (int i = 0; i < sim->n_pairs; i++) {
		struct ration *ration = &sim->rations[i];
		int64_t at_ns = sim->now_ns +
				sim_delay(&sim->watchers[pair_watcher(i, W_RATION_NODES)].random, 4000,
					2500000);

		if (at_ns <= ration->groups_last_ns)
			at_ns = ration->groups_last_ns + 1;
		ration->groups_last_ns = at_ns;
		sim_after(sim, at_ns - sim->now_ns, EVENT_GANG_GROUP, ration->epoch, i, sim->n_group_log - 1,
			0);
	}
}

/* A LIST of those who have finished. */
static void recalled(struct sim *sim, int pair, int pod)
{
	struct core *core = ration_core(sim, pair);

	if (api_is_away(sim))
		return;
	for (int i = 0; i < sim->n_pods; i++) {
		struct pod_facts facts = api_facts(sim, i, &sim->pods[i].state);

		if (sim->pods[i].state.exists && sim->pods[i].state.gang == sim->pods[pod].state.gang &&
			core_gang_has_run(core, &facts) < 0)
			sim->truncated = "out of memory";
	}
	core_gang_recalled(core, sim->pods[pod].uid_text, true, sim->now_ns);
	ration_carry_out(sim, pair);
}

/* ---- API server ---- */

static void evict(struct sim *sim, int pod)
{
	if (api_is_away(sim) || !sim->pods[pod].state.exists)
		return;
	count(sim, COUNT_GANG_EVICTIONS);
	say(sim, "u%d of gang %d is evicted", pod, pod_gang(sim, pod));
	api_delete(sim, pod, false);
}

static void unmark(struct sim *sim, int pod)
{
	struct state state = sim->pods[pod].state;

	if (api_is_away(sim) || !state.exists || !state.forming)
		return;
	say(sim, "u%d is of a gang that has started", pod);
	state.forming = false;
	api_set(sim, pod, &state);
}

void controller_on_event(struct sim *sim, const struct event *event)
{
	const struct ration *ration;

	if (event->kind == EVENT_GANG_EVICT) {
		evict(sim, event->a);
		return;
	}
	if (event->kind == EVENT_GANG_UNMARK) {
		unmark(sim, event->a);
		return;
	}
	ration = &sim->rations[event->a];
	if (event->epoch != ration->epoch || !ration->alive)
		return;
	if (event->kind == EVENT_GANG_GROUPS)
		groups_listed(sim, event->a);
	else if (event->kind == EVENT_GANG_GROUP)
		group_seen(sim, event->a, event->b);
	else if (event->kind == EVENT_GANG_RECALL)
		recalled(sim, event->a, event->b);
	else if (event->b == ration->gang_look_serial && ration->gang_look_ns)
		look(sim, event->a);
}
