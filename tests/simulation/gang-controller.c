/* ration-scheduler's part for pods that are placed all or none: what gangs.c, gang-groups.c and bind-gang.c
 * do around the real state machine (core/gang/gang.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/gang/gang.h"
#include "core/placement/decide.h"
#include "core/registry/nomination.h"
#include "sim.h"

#define LOOK_DELAY_NS (50 * MS)
#define LATE_NS (5 * NS_PER_S) /* bind.c: START_MAX_NS */

void controller_start(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct gang_rules rules = {.keep_after_ns = GANG_KEEP_AFTER_NS, .timeout_ns = GANG_TIMEOUT_NS};
	struct random *random = &sim->watchers[pair_watcher(pair, W_RATION_NODES)].random;

	if (sim->broken == BREAK_GANG_NO_KEEPING)
		rules.keep_after_ns = 3600 * NS_PER_S;
	requeue_list_init(&ration->no_requeues);
	gangs_init(&ration->gangs, &rules,
		sim->broken == BREAK_GANG_NO_REQUEUE ? &ration->no_requeues : &ration->requeues);
	if (!sim->plan->n_gangs)
		return;
	gangs_set_groups_known(&ration->gangs, false);
	sim_after(sim, sim_delay(random, 5000, 5000000), EVENT_GANG_GROUPS, ration->epoch, pair, 0, 0);
}

void controller_stop(struct sim *sim, int pair)
{
	gangs_release(&sim->rations[pair].gangs);
	requeue_list_release(&sim->rations[pair].no_requeues);
	sim->rations[pair].gathering = 0;
}

static void look_within(struct sim *sim, int pair, int64_t delay_ns)
{
	struct ration *ration = &sim->rations[pair];
	int64_t due_ns = sim->now_ns + delay_ns;

	if (ration->gang_look_ns && ration->gang_look_ns <= due_ns)
		return;
	ration->gang_look_ns = due_ns;
	ration->gang_look_serial = (ration->gang_look_serial + 1) & 0x7fff;
	sim_after(sim, delay_ns, EVENT_GANG_LOOK, ration->epoch, pair, ration->gang_look_serial, 0);
}

static void refuse(struct sim *sim, int pair, int pod)
{
	sim->rations[pair].gathering &= ~BIT(pod);
	if (sim->broken == BREAK_GANG_FORGET_TO_RELEASE)
		return;
	ration_bind_refused(sim, pair, pod);
}

static uint64_t gather(struct ration *ration, struct sim *sim, const char *uid)
{
	uint64_t going = 0;

	for_each_bit (i, ration->gathering)
		if (gangs_are_mates(&ration->gangs, sim->pods[i].uid_text, uid))
			going |= BIT(i);
	ration->gathering &= ~going;
	return going;
}

/* kube-scheduler has hung up, or would before the Binding is over. */
static bool is_too_late(const struct sim *sim, const struct ration *ration, int pod)
{
	return !(ration->waiting_binds & BIT(pod)) || sim->now_ns - ration->bind_ns[pod] > LATE_NS;
}

static bool reserve_all(struct sim *sim, int pair, uint64_t going, struct placement *placements)
{
	struct ration *ration = &sim->rations[pair];
	struct gpus_seen before;

	for_each_bit (i, going) {
		const struct pod_facts *facts = gangs_facts(&ration->gangs, sim->pods[i].uid_text);
		int node = ration->bind_node[i];
		uint8_t gpus;

		if (sim->pods[i].shape.whole)
			gpus_look(sim, pair, &before);
		if (!facts || is_too_late(sim, ration, i) ||
			decide_reserve(&ration->ledger, facts, sim->nodes[node].name, &placements[i]) != FITS)
			return false;
		gpus = api_gpus(sim, node, &placements[i]);
		if (gpus & ration->sick[node])
			sim_violate(sim, "no new pod on a card known to be faulty", "u%d on n%d", i, node);
		if (sim->pods[i].shape.whole && (before.node[i] != node || before.gpus[i] != gpus))
			gpus_check(sim, pair, &before, i, node, gpus);
	}
	return true;
}

static void refuse_all(struct sim *sim, int pair, uint64_t going, struct placement *placements)
{
	struct ration *ration = &sim->rations[pair];

	for_each_bit (i, going) {
		placement_release(&placements[i]);
		if (sim->broken != BREAK_GANG_FORGET_TO_RELEASE)
			ledger_release_reservation(&ration->ledger, sim->pods[i].uid_text);
		refuse(sim, pair, i);
	}
}

/* Of a pod that is bound or on its way: what its Binding records, and not what the product makes of it. */
int controller_gang_of(const struct sim *sim, int pair, int pod)
{
	const struct ration *ration = &sim->rations[pair];
	const struct ledger_pod *known = ledger_pod(&ration->ledger, sim->pods[pod].uid_text);
	const struct pod_facts *facts = known ? &known->facts : NULL;

	if (sim->pods[pod].state.placed)
		return sim->pods[pod].bound_gang;
	if (ration->in_flight & BIT(pod))
		return ration->sent_gang[pod];
	return facts && facts->gang ? facts->gang[1] - '0' : 0;
}

void controller_check_sent(struct sim *sim, int pair, int pod)
{
	struct ration *ration = &sim->rations[pair];
	int g = controller_gang_of(sim, pair, pod);
	const struct pod_facts *facts = gangs_facts(&ration->gangs, sim->pods[pod].uid_text);
	uint32_t have = 0;

	if (!g)
		return;
	for (int i = 0; i < sim->n_pods; i++) {
		const struct ledger_pod *known = ledger_pod(&ration->ledger, sim->pods[i].uid_text);

		have += known && controller_gang_of(sim, pair, i) == g &&
			(known->occupancy == OCCUPANCY_RESERVED || known->occupancy == OCCUPANCY_BOUND);
	}
	if (have < gang_need_at_least(sim, &sim->gangs[g]) && facts && gangs_rules_out(&ration->gangs, facts))
		sim_violate(sim, "no Binding leaves before enough of the gang have their cards",
			"gang %d: %u of %u", g, have, sim->gangs[g].min);
}

static void go(struct sim *sim, int pair, const char *uid)
{
	struct ration *ration = &sim->rations[pair];
	struct placement placements[PODS_MAX] = {0};
	uint64_t going = gather(ration, sim, uid), forming = 0;

	if (!going)
		return;
	if (!reserve_all(sim, pair, going, placements)) {
		say(sim, "ration %d: the gang of %s cannot be bound as it stands", pair, uid);
		gangs_give_up(&ration->gangs, &ration->ledger, uid, "", sim->now_ns);
		look_within(sim, pair, LOOK_DELAY_NS);
		refuse_all(sim, pair, going, placements);
		return;
	}
	for_each_bit (i, going)
		if (gangs_is_forming(&ration->gangs, sim->pods[i].uid_text))
			forming |= BIT(i);
	for_each_bit (i, going) {
		controller_check_sent(sim, pair, i);
		gangs_sent(&ration->gangs, sim->pods[i].uid_text);
		say(sim, "ration %d binds u%d of gang %d to n%d", pair, i, pod_gang(sim, i),
			ration->bind_node[i]);
		ration_send_binding(
			sim, pair, i, ration->bind_node[i], &placements[i], (forming & BIT(i)) != 0);
	}
}

static void carry_out_one(struct sim *sim, int pair, const struct gang_order *order)
{
	struct ration *ration = &sim->rations[pair];
	int pod = atoi(order->uid + 1);
	struct random *random = &sim->pods[pod].random;

	switch (order->kind) {
	case GANG_GO:
		go(sim, pair, order->uid);
		break;
	case GANG_TURN_AWAY:
		if (ration->gathering & BIT(pod))
			refuse(sim, pair, pod);
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
			const struct pod_facts *facts = gangs_facts(&ration->gangs, sim->pods[i].uid_text);

			if (facts && gangs_rules_out(&ration->gangs, facts))
				ration->held[i] = -1;
		}
}

/* Carrying out one may bring others, which come after it. */
static void carry_out(struct sim *sim, int pair)
{
	struct gang_order *order;

	forget_promises(sim, &sim->rations[pair]);
	while ((order = gangs_next_order(&sim->rations[pair].gangs))) {
		carry_out_one(sim, pair, order);
		gang_order_free(order);
	}
}

/* Once for each change. */
static void say_kept(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];

	for (int i = 0; sim->trace && i < sim->n_pods; i++) {
		const struct ledger_pod *known = ledger_pod(&ration->ledger, sim->pods[i].uid_text);
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
	struct gpus_seen before;
	int64_t again_ns;

	ration->gang_look_ns = 0;
	gpus_look(sim, pair, &before);
	gangs_set_following(&ration->gangs, sim->watchers[pair_watcher(pair, W_RATION_PODS)].connected);
	again_ns = gangs_look(&ration->gangs, &ration->ledger, sim->now_ns, ration_is_ready(ration));
	gpus_check_plans(sim, pair, &before);
	ration->gang_generation = ration->ledger.generation;
	say_kept(sim, pair);
	carry_out(sim, pair);
	if (again_ns != INT64_MAX)
		look_within(sim, pair, again_ns > MS ? again_ns : MS);
	ration_changed(sim, pair);
}

void controller_look(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];

	if (ration->gangs.by_uid.count && ration->gang_generation != ration->ledger.generation)
		look_within(sim, pair, LOOK_DELAY_NS);
}

void controller_tick(struct sim *sim, int pair)
{
	if (sim->rations[pair].gangs.by_uid.count)
		look_within(sim, pair, NS_PER_S);
}

void controller_see(struct sim *sim, int pair, const struct pod_facts *facts, bool listed)
{
	struct ration *ration = &sim->rations[pair];

	if (!facts->gang && !ration->gangs.by_uid.count)
		return;
	gangs_set_following(&ration->gangs, sim->watchers[pair_watcher(pair, W_RATION_PODS)].connected);
	if (gangs_see_pod(&ration->gangs, &ration->ledger, facts, listed, sim->now_ns) < 0)
		sim->truncated = "out of memory";
	carry_out(sim, pair);
	if (facts->gang)
		look_within(sim, pair, LOOK_DELAY_NS);
}

void controller_forget(struct sim *sim, int pair, int pod, bool ended)
{
	struct ration *ration = &sim->rations[pair];

	if (ended)
		gangs_forget_pod(&ration->gangs, sim->pods[pod].uid_text);
	else
		gangs_delete_pod(&ration->gangs, sim->pods[pod].uid_text);
	carry_out(sim, pair);
	look_within(sim, pair, LOOK_DELAY_NS);
}

bool controller_filter(struct sim *sim, int pair, const struct pod_facts *facts, int names, int *ret_node)
{
	struct ration *ration = &sim->rations[pair];
	const char *known[NODES_MAX], *node = NULL, *text = "";
	struct gpus_seen before;
	enum gang_answer answer;
	size_t n = 0;

	if (!facts->gang && !gangs_facts(&ration->gangs, facts->uid))
		return false;
	for (int i = 0; i < sim->n_nodes; i++)
		if (names & (1 << i))
			known[n++] = sim->nodes[i].name;
	ledger_expire(&ration->ledger, sim->now_ns);
	gpus_look(sim, pair, &before);
	answer = gangs_filter(&ration->gangs, &ration->ledger, facts, known, n, sim->now_ns, &node, &text);
	gpus_check_plans(sim, pair, &before);
	*ret_node = answer == GANG_NODE ? node[1] - '0' : -1;
	if (answer == GANG_WAIT)
		say(sim, "ration %d: filter of %s: %s", pair, facts->uid, text);
	carry_out(sim, pair);
	if (answer == GANG_NONE)
		return false;
	ration_changed(sim, pair); /* other members may have a place now */
	look_within(sim, pair, LOOK_DELAY_NS);
	return true;
}

bool controller_gathers(struct sim *sim, int pair, int pod, int node, const struct pod_facts *facts)
{
	struct ration *ration = &sim->rations[pair];

	if (!facts->gang)
		return false;
	controller_see(sim, pair, facts, false);
	if (sim->broken == BREAK_GANG_IN_PARTS ||
		!gangs_bind(&ration->gangs, &ration->ledger, sim->pods[pod].uid_text, sim->now_ns))
		return false;
	look_within(sim, pair, LOOK_DELAY_NS);
	ration->gathering |= BIT(pod);
	ration->bind_node[pod] = (int8_t)node;
	say(sim, "ration %d: u%d stands at bind for n%d", pair, pod, node);
	carry_out(sim, pair);
	return true;
}

static void take_group(struct sim *sim, int pair, int g, uint32_t min)
{
	struct gang_group group = {.min = min, .timeout_ns = sim->plan->gangs[g].timeout_s * NS_PER_S};
	char key[16];

	snprintf(key, sizeof(key), "default/g%d", g);
	if (gangs_set_group(&sim->rations[pair].gangs, key, &group) < 0)
		sim->truncated = "out of memory";
}

static void remove_group(struct ration *ration, int g)
{
	char key[16];

	snprintf(key, sizeof(key), "default/g%d", g);
	gangs_remove_group(&ration->gangs, key);
}

static void groups_listed(struct sim *sim, int pair)
{
	struct gangs *gangs = &sim->rations[pair].gangs;

	if (api_is_away(sim)) {
		sim_after(sim, NS_PER_S, EVENT_GANG_GROUPS, sim->rations[pair].epoch, pair, 0, 0);
		return;
	}
	for (int g = 1; g <= sim->plan->n_gangs; g++)
		if (sim->plan->gangs[g].group && !sim->group_is_gone[g])
			take_group(sim, pair, g, sim->gangs[g].min);
	sim->rations[pair].groups_listed = sim->n_group_log;
	gangs_set_groups_known(gangs, true);
	look_within(sim, pair, LOOK_DELAY_NS);
}

/* The watch of PodGroups tells of a change. */
static void group_seen(struct sim *sim, int pair, int index)
{
	struct ration *ration = &sim->rations[pair];

	/* What the LIST shows the watch does not tell. */
	if (!ration->gangs.groups_known || index < ration->groups_listed ||
		sim->broken == BREAK_GANG_IGNORE_CHANGES)
		return;
	if (sim->group_log[index].min == GROUP_DELETED)
		remove_group(ration, sim->group_log[index].gang);
	else
		take_group(sim, pair, sim->group_log[index].gang,
			sim->group_log[index].min == GROUP_MALFORMED ? 0 : sim->group_log[index].min);
	look_within(sim, pair, LOOK_DELAY_NS);
	carry_out(sim, pair);
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
	struct gangs *gangs = &sim->rations[pair].gangs;

	if (api_is_away(sim))
		return;
	for (int i = 0; i < sim->n_pods; i++) {
		struct pod_facts facts = api_facts(sim, i, &sim->pods[i].state);

		if (sim->pods[i].state.exists && sim->pods[i].state.gang == sim->pods[pod].state.gang &&
			gangs_has_run(gangs, &facts) < 0)
			sim->truncated = "out of memory";
	}
	gangs_recalled(gangs, sim->pods[pod].uid_text);
	look_within(sim, pair, LOOK_DELAY_NS);
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
