/* ration-scheduler: what extender.c, bind.c, requeue.c, sync.c and verify-unlisted.c do around the real
 * ledger and the real decisions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/decide.h"
#include "core/placement/rank.h"
#include "core/registry/node-ledger.h"
#include "sim.h"

#define DEADLINE_NS (3 * NS_PER_S)
#define DOUBT_NS (10 * NS_PER_S)
#define SPOILT_NS (25 * NS_PER_S) /* a Binding comes late, or stays in doubt */
#define LOOK_DELAY_NS (50 * MS)

bool ration_is_ready(const struct ration *ration)
{
	return ration->pods_synced && ration->nodes_synced;
}

void ration_start(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];

	if (pair >= sim->n_pairs || ration->alive)
		return;
	*ration = (struct ration){.alive = true, .epoch = ration->epoch + 1};
	ledger_init(&ration->ledger);
	requeue_list_init(&ration->requeues);
	memset(ration->held, -1, sizeof(ration->held));
	controller_start(sim, pair);
	watch_cut(sim, pair_watcher(pair, W_RATION_PODS), 0);
	watch_cut(sim, pair_watcher(pair, W_RATION_NODES), 0);
	sim_after(sim, NS_PER_S, EVENT_TICK, ration->epoch, pair, 0, 0);
}

/* kube-scheduler sees its connections closed. */
void ration_kill(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	if (!ration->alive)
		return;
	for_each_bit (pod, ration->waiting_binds)
		sim_after(sim, 100000, EVENT_BOUND, ks->epoch, pair, pod, false);
	ration->alive = false;
	ration->epoch++;
	controller_stop(sim, pair);
	ledger_release(&ration->ledger);
	requeue_list_release(&ration->requeues);
	watch_stop(sim, pair_watcher(pair, W_RATION_PODS));
	watch_stop(sim, pair_watcher(pair, W_RATION_NODES));
}

/* Gone before our first LIST, and the node's word about it has not arrived: until it does, this process
 * cannot know. It has no such excuse for a pod that its watch has shown, bound and gone. */
static void miss_orphans(struct sim *sim, const struct ration *ration)
{
	for (int i = 0; i < sim->n_pods; i++) {
		struct pod *pod = &sim->pods[i];
		const struct ledger_pod *known = ledger_pod(&ration->ledger, pod->uid_text);

		if (pod->state.exists || pod->unseen || !api_pod_lives(pod) || (ration->was_bound & BIT(i)) ||
			(known && known->occupancy >= OCCUPANCY_BOUND))
			continue;
		pod->unseen = true;
		count(sim, COUNT_UNSEEN);
	}
}

static void look_within(struct sim *sim, int pair, int64_t delay_ns)
{
	struct ration *ration = &sim->rations[pair];

	if (ration->look_ns && ration->look_ns <= sim->now_ns + delay_ns)
		return;
	ration->look_ns = sim->now_ns + delay_ns;
	sim_after(sim, delay_ns, EVENT_LOOK, ration->epoch, pair, 0, 0);
}

/* After each use of the ledger: somebody may fit now. */
void ration_changed(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];

	ration->changed = true;
	controller_look(sim, pair);
	if (requeue_list_is_due(&ration->requeues, &ration->ledger))
		look_within(sim, pair, LOOK_DELAY_NS);
}

static void look(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	int64_t again_ns;
	size_t n;

	if (ration->look_ns != sim->now_ns) /* another one came before it */
		return;
	ration->look_ns = 0;
	if (sim->broken == BREAK_NO_REQUEUE)
		return;
	n = requeue_list_look(&ration->requeues, &ration->ledger, sim->now_ns, pods, &again_ns);
	for (size_t i = 0; i < n; i++) {
		int pod = atoi(pods[i]->uid + 1);

		count(sim, COUNT_REQUEUES);
		say(sim, "ration %d nudges u%d", pair, pod);
		sim_after(sim, sim_delay(&sim->pods[pod].random, 1000, 20000), EVENT_REQUEUE, 0, pod, 0, 0);
	}
	if (again_ns != INT64_MAX)
		look_within(sim, pair, again_ns);
}

static int add_held(const struct sim *sim, int node, const struct node_state *state, struct held *held)
{
	struct held_pod *pod;
	int r = 0;

	snprintf(held->at, sizeof(held->at), "%05u", state->at);
	held->names_ended = true;
	for_each_bit (i, state->ended) {
		r |= held_add_ended(held, sim->pods[i].uid_text);
	}
	for_each_bit (i, state->lives) {
		const struct pod *p = &sim->pods[i];

		r |= held_add_pod(held, p->uid_text, "default", p->name_text, &pod);
		if (r == 0)
			pod->instances = p->facts.request.instances;
		for_each_bit (k, p->gpus)
			if (r == 0)
				r = held_pod_add_gpu(pod, sim->nodes[node].facts.gpus[k].uuid,
					request_units_per_gpu(size_request(p, p->state.size)),
					p->facts.request.core);
	}
	return r;
}

/* Its GPUs may be others now. */
static void node_forget_holds(struct ration *ration, int node)
{
	for (int i = 0; i < PODS_MAX; i++)
		if (ration->held[i] == node)
			ration->held[i] = -1;
}

void ration_see_node(struct sim *sim, int pair, int node, const struct node_state *state)
{
	struct ration *ration = &sim->rations[pair];
	struct node_facts facts = sim->nodes[node].facts;

	if (state->gone) {
		ledger_remove_node(&ration->ledger, facts.name, facts.uid);
		node_forget_holds(ration, node);
		ration_changed(sim, pair);
		return;
	}
	held_init(&facts.held);
	facts.held_unreadable = state->unreadable;
	for (size_t k = 0; k < facts.n_gpus; k++)
		facts.gpus[k].healthy = !(state->sick & (1 << k)) || sim->broken == BREAK_IGNORE_HEALTH;
	ration->sick[node] = state->sick;
	terms_set(sim, node, &facts, state->whole, state->other_unit);
	for (size_t k = 0; k < facts.n_gpus && sim->broken == BREAK_IGNORE_LINKS; k++)
		memset(facts.gpus[k].links, 0, sizeof(facts.gpus[k].links));
	facts.changing = state->closed;
	if (state->at && add_held(sim, node, state, &facts.held) < 0)
		sim->truncated = "out of memory";
	facts.mixing |= sim->broken == BREAK_IGNORE_MIXING;
	if (state->bare) {
		facts.mode = GPU_MODE_NONE;
		facts.n_gpus = 0;
	}
	if (ledger_set_node(&ration->ledger, &facts) < 0)
		sim->truncated = "out of memory";
	/* Our LIST of Leases shows one, whoever has written it when. */
	if (!ledger_node(&ration->ledger, facts.name)->heard_ns && sim->broken != BREAK_SILENCE_IS_AN_END)
		ledger_hear_agent(&ration->ledger, facts.name, sim->now_ns);
	held_release(&facts.held);
	node_forget_holds(ration, node);
	ration_changed(sim, pair);
}

/* ended: its containers have, too. Otherwise it may stay as an orphan. */
static void forget_pod(struct sim *sim, int pair, int pod, bool ended)
{
	struct ration *ration = &sim->rations[pair];
	const struct ledger_pod *known = ledger_pod(&ration->ledger, sim->pods[pod].uid_text);

	ration->forgotten |= BIT(pod);
	if (known && known->occupancy >= OCCUPANCY_BOUND)
		ration->was_bound |= BIT(pod);
	if (ended || sim->broken == BREAK_FREE_ON_DELETE)
		ledger_remove_pod(&ration->ledger, sim->pods[pod].uid_text);
	else
		ledger_delete_pod(&ration->ledger, sim->pods[pod].uid_text, sim->now_ns + ORPHAN_NS);
	controller_forget(sim, pair, pod, ended);
	requeue_list_leave(&ration->requeues, sim->pods[pod].uid_text);
	ration->held[pod] = -1;
}

static void assume_running(struct sim *sim, int pair, int pod)
{
	struct ledger *ledger = &sim->rations[pair].ledger;
	const struct ledger_pod *known = ledger_pod(ledger, sim->pods[pod].uid_text);
	_cleanup_pod_facts_ struct pod_facts facts = {0};

	if (!known || known->occupancy != OCCUPANCY_BOUND || pod_facts_copy(&known->facts, &facts) < 0)
		return;
	facts.running = true;
	if (ledger_set_pod(ledger, &facts) < 0)
		sim->truncated = "out of memory";
}

/* Only what fits can run. */
static void count_failed_pods(struct sim *sim, struct ration *ration)
{
	if (!ration->nodes_synced || !ration->pods_synced)
		return;
	for_each_bit (i, ration->failed) {
		const struct state *state = &sim->pods[i].state;
		struct pod_facts facts = api_facts(sim, i, state);

		facts.node = (char *)"";
		facts.running = true;
		facts.finished = false;
		if (ledger_reserve(&ration->ledger, &facts, sim->nodes[state->node].name, &facts.placement) <
			0)
			continue;
		ledger_confirm(&ration->ledger, facts.uid);
		ledger_delete_pod(&ration->ledger, facts.uid, sim->now_ns + ORPHAN_NS);
	}
	ration->failed = 0;
}

void ration_see_pod(struct sim *sim, int pair, int pod, const struct state *state, bool deleted)
{
	struct ration *ration = &sim->rations[pair];
	struct pod_facts facts = api_facts(sim, pod, state);

	if (deleted) {
		say(sim, "ration %d sees u%d gone", pair, pod);
		if (sim->from_list)
			assume_running(sim, pair, pod);
		forget_pod(sim, pair, pod, false);
		ration_changed(sim, pair);
		return;
	}
	controller_see(sim, pair, &facts, true);
	if (facts.finished) {
		if (!ration->pods_synced && facts.running && facts.has_placement)
			ration->failed |= BIT(pod);
		forget_pod(sim, pair, pod, !facts.running);
		ration_changed(sim, pair);
		return;
	}
	if (sim->broken == BREAK_FORGET_GPUS && sim->from_list && ration->epoch > 1 && facts.request.whole)
		facts.has_placement = false;
	if (sim->broken == BREAK_FREE_ON_DELETION_TIMESTAMP)
		facts.finished |= facts.deleting;
	if (ledger_set_pod(&ration->ledger, &facts) < 0)
		sim->truncated = "out of memory";
	if (state->node >= 0) {
		size_seen(sim, pair, pod, state);
		requeue_list_leave(&ration->requeues, facts.uid);
		ration->held[pod] = -1;
	} else if (state->verdict && state->verdict != ration->verdicts[pod]) {
		ration->verdicts[pod] = state->verdict;
		if (!gangs_holds(&ration->gangs, facts.uid))
			ledger_drop_hold(&ration->ledger, facts.uid);
		ration->held[pod] = -1;
	}
	ration_changed(sim, pair);
}

void ration_synced(struct sim *sim, int pair, bool nodes)
{
	struct ration *ration = &sim->rations[pair];

	if (nodes) {
		ration->nodes_synced = true;
		count_failed_pods(sim, ration);
		return;
	}
	for (int i = 0; i < sim->n_pods && !ration->pods_synced; i++) {
		const struct ledger_pod *pod = ledger_pod(&ration->ledger, sim->pods[i].uid_text);

		if (pod && pod->occupancy == OCCUPANCY_WAITING &&
			requeue_list_found_waiting(&ration->requeues, &pod->facts, sim->now_ns) < 0)
			sim->truncated = "out of memory";
	}
	if (!ration->pods_synced)
		miss_orphans(sim, ration);
	ration->pods_synced = true;
	count_failed_pods(sim, ration);
	ration_changed(sim, pair);
	for (int i = 0; i < sim->n_pods; i++) {
		const struct ledger_pod *pod = ledger_pod(&ration->ledger, sim->pods[i].uid_text);

		if (pod && !pod->listed &&
			(pod->occupancy == OCCUPANCY_BOUND || pod->occupancy == OCCUPANCY_RESERVED))
			sim_after(sim, sim_delay(&sim->pods[i].random, 1000, 500000), EVENT_VERIFY,
				ration->epoch, pair, i, 0);
	}
}

/* The state is the API server's at this moment; the answer comes later. */
static void verification(struct sim *sim, int pair, int pod)
{
	struct ration *ration = &sim->rations[pair];
	int found = api_pod_by_name(sim, sim->pods[pod].name);

	if (api_is_away(sim))
		return;
	sim_after(sim, sim_delay(&sim->pods[pod].random, 1000, 500000), EVENT_RECHECKED, ration->epoch, pair,
		pod, found == pod ? sim->n_log : -1);
}

/* The watch has still not shown it: if it ends in the next gap, only asking again will tell. */
static void take(struct sim *sim, struct ration *ration, const struct pod_facts *facts)
{
	const struct ledger_pod *known = ledger_pod(&ration->ledger, facts->uid);
	bool listed = known && known->listed;

	if (ledger_set_pod(&ration->ledger, facts) < 0)
		sim->truncated = "out of memory";
	if (!listed)
		ledger_set_unlisted(&ration->ledger, facts->uid);
}

static void rechecked(struct sim *sim, int pair, int pod, int position)
{
	struct ration *ration = &sim->rations[pair];
	const struct ledger_pod *known = ledger_pod(&ration->ledger, sim->pods[pod].uid_text);
	bool orphan = known && known->occupancy == OCCUPANCY_ORPHAN;
	struct state state = position < 0 ? (struct state){.node = -1} : api_state_at(sim, pod, position);
	struct pod_facts facts = api_facts(sim, pod, &state);

	if (known && !state.exists && !orphan) {
		assume_running(sim, pair, pod);
		forget_pod(sim, pair, pod, false);
	} else if (known && state.exists && facts.finished) {
		forget_pod(sim, pair, pod, !facts.running);
	} else if (state.exists && !orphan && !(ration->forgotten & BIT(pod))) {
		take(sim, ration, &facts);
	}
	ration_changed(sim, pair);
}

/* leadership.c: while the other pair's last Bindings may not be in our watch yet, the node's pods are listed.
 * A kube-scheduler that was started again is known by its connections. */
static void takeover_note_call(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	uint32_t caller = sim->kube_schedulers[pair].epoch;
	bool another = ration->caller != caller && sim->broken != BREAK_TAKEOVER_BY_PAUSE;

	if (another || !ration->last_call_ns || sim->now_ns - ration->last_call_ns > 2 * NS_PER_S)
		ration->fresh_until_ns = sim->now_ns + 5 * NS_PER_S;
	ration->caller = caller;
	ration->last_call_ns = sim->now_ns;
}

static void filter_answers(struct sim *sim, int pair, int pod, int nodes)
{
	sim_after(sim, sim_delay(&sim->pods[pod].random, 200, 30000), EVENT_FILTERED,
		sim->kube_schedulers[pair].epoch, pair, pod, nodes);
}

static void hold(struct sim *sim, int pair, const struct pod_facts *facts, int pod, int node)
{
	struct ration *ration = &sim->rations[pair];
	const struct ledger_pod *known;
	struct gpus_seen before;
	int r;

	if (facts->request.whole)
		gpus_look(sim, pair, &before);
	r = decide_hold(&ration->ledger, facts, sim->nodes[node].name, sim->now_ns);
	known = ledger_pod(&ration->ledger, facts->uid);
	if (r == FITS && facts->request.whole && known)
		gpus_check(sim, pair, &before, pod, node, api_gpus(sim, node, &known->placement));
	ration->held[pod] = r == FITS ? (int8_t)node : -1;
	if (sim->broken == BREAK_IGNORE_HOLD)
		ledger_drop_hold(&ration->ledger, facts->uid);
}

static int number_of(const struct node_ledger *node)
{
	return node->facts.name[1] - '0';
}

/* Four bits each, best first. */
static int answer_of(struct sim *sim, int pair, int pod, const struct node_ledger *const *fitting, size_t n)
{
	int answer = 0xfff, nodes[NODES_MAX];

	for (size_t i = n; i > 0; i--) {
		nodes[i - 1] = number_of(fitting[i - 1]);
		answer = ((answer << 4) | nodes[i - 1]) & 0xfff;
	}
	if (sim->pods[pod].shape.whole)
		gpus_check_rank(sim, pair, pod, nodes, n);
	return answer;
}

static int filter(struct sim *sim, int pair, int pod, int names)
{
	struct ration *ration = &sim->rations[pair];
	const struct state unbound = {
		.exists = true, .node = -1, .gang = sim->kube_schedulers[pair].seen[pod].gang};
	struct pod_facts facts = api_facts(sim, pod, &unbound);
	const struct ledger_pod *known = ledger_pod(&ration->ledger, facts.uid);
	const struct node_ledger *fitting[NODES_MAX];
	int answer, node;
	size_t n = 0;

	takeover_note_call(sim, pair);
	if (known && known->occupancy == OCCUPANCY_RESERVED)
		return -1;
	if (controller_filter(sim, pair, &facts, names, &node))
		return node < 0 ? 15 : 0xff0 | node;
	ledger_expire(&ration->ledger, sim->now_ns);
	ledger_drop_hold(&ration->ledger, facts.uid);
	ration->held[pod] = -1;
	for (int i = 0; i < sim->n_nodes; i++)
		if ((names & (1 << i)) &&
			ledger_choose(&ration->ledger, sim->nodes[i].name, &facts, NULL) == FITS)
			fitting[n++] = ledger_node(&ration->ledger, sim->nodes[i].name);
	say(sim, "ration %d: filter of u%d: %zu nodes fit", pair, pod, n);
	if (n == 0) {
		if (requeue_list_rejected(&ration->requeues, &facts, &ration->ledger, sim->now_ns) < 0)
			sim->truncated = "out of memory";
		return 15;
	}
	if (rank_nodes(&ration->ledger, fitting, n, SIZE_MAX, &facts) < 0)
		sim->truncated = "out of memory";
	answer = answer_of(sim, pair, pod, fitting, n);
	hold(sim, pair, &facts, pod, number_of(fitting[0]));
	return answer;
}

static void bind_answer(struct sim *sim, int pair, int pod, bool ok)
{
	if (sim->rations[pair].waiting_binds & BIT(pod))
		sim_after(sim, sim_delay(&sim->pods[pod].random, 200, 5000), EVENT_BOUND,
			sim->kube_schedulers[pair].epoch, pair, pod, ok);
	sim->rations[pair].waiting_binds &= ~BIT(pod);
}

/* Before a Binding was sent. */
void ration_bind_refused(struct sim *sim, int pair, int pod)
{
	ledger_drop_hold(&sim->rations[pair].ledger, sim->pods[pod].uid_text);
	sim->rations[pair].held[pod] = -1;
	bind_answer(sim, pair, pod, false);
	ration_changed(sim, pair);
}

/* bind.c: annotations_of() */
static void see_job(struct sim *sim, int pair, int pod, int node, struct placement *placement)
{
	const struct request *request = &sim->pods[pod].facts.request;
	const struct node_ledger *known = ledger_node(&sim->rations[pair].ledger, sim->nodes[node].name);

	if (!request->group || !known)
		return;
	if (node_ledger_see_group(known, request, placement) < 0)
		sim->truncated = "out of memory";
	gpus_check_visible(sim, pair, pod, node, placement);
}

void ration_send_binding(
	struct sim *sim, int pair, int pod, int node, struct placement *placement, bool forming)
{
	struct ration *ration = &sim->rations[pair];
	struct random *random = &sim->pods[pod].random;
	int i = sim->n_bindings;

	if (i == BINDINGS_MAX) {
		sim->truncated = "there were BINDINGS_MAX Bindings";
		placement_release(placement);
		return;
	}
	sim->n_bindings++;
	see_job(sim, pair, pod, node, placement);
	sim->bindings[i] = (struct binding){.placement = *placement,
		.pair = (int8_t)pair,
		.pod = (int8_t)pod,
		.node = (int8_t)node,
		.gpus = api_gpus(sim, node, placement),
		.ration_epoch = ration->epoch,
		.term = sim->term,
		.forming = forming && sim->broken != BREAK_GANG_WITHOUT_MARK,
		.gang = (uint8_t)controller_gang_of(sim, pair, pod),
		.fault = sim->next_fault};
	ration->in_flight |= BIT(pod);
	ration->sent_gang[pod] = sim->bindings[i].gang;
	if (sim->next_fault >= 0 && sim->unsettled_until_ns < sim->now_ns + SPOILT_NS)
		sim->unsettled_until_ns = sim->now_ns + SPOILT_NS;
	sim->next_fault = -1;
	sim_after(sim,
		sim->bindings[i].fault == BINDING_LATE ? random_between(random, 1000, 8000) * MS
						       : sim_delay(random, 1000, 60000),
		EVENT_BINDING, 0, i, 0, 0);
	sim_after(sim, DEADLINE_NS, EVENT_BINDING_DEADLINE, ration->epoch, i, 0, 0);
}

/* A bind must not fail for want of a GPU that filter has held for it on this very node. */
static void bind_fails(struct sim *sim, int pair, int pod, int node, int r)
{
	say(sim, "ration %d: no card for u%d on n%d (%d)", pair, pod, node, r);
	if (r > 0 && sim->rations[pair].held[pod] == node && !sim->nodes[node].loose)
		sim_violate(sim, "a held card is there at bind", "u%d on n%d", pod, node);
	ration_bind_refused(sim, pair, pod);
}

static void bind_with_gpu(struct sim *sim, int pair, int pod, int node, const struct pod_facts *facts)
{
	struct ration *ration = &sim->rations[pair];
	struct placement placement;
	struct gpus_seen before;
	uint8_t gpus;
	int r;

	if (controller_gathers(sim, pair, pod, node, facts))
		return;
	placement_init(&placement);
	if (facts->request.whole)
		gpus_look(sim, pair, &before);
	r = decide_reserve(&ration->ledger, facts, sim->nodes[node].name, &placement);
	if (r != FITS) {
		bind_fails(sim, pair, pod, node, r);
		return;
	}
	gpus = api_gpus(sim, node, &placement);
	/* What filter has held was right when it was held. */
	if (facts->request.whole && (before.node[pod] != node || before.gpus[pod] != gpus))
		gpus_check(sim, pair, &before, pod, node, gpus);
	ration->held[pod] = -1;
	if (gpus & ration->sick[node])
		sim_violate(sim, "no new pod on a card known to be faulty", "u%d on n%d, faulty %#x", pod,
			node, ration->sick[node]);
	say(sim, "ration %d binds u%d to n%d cards %#x", pair, pod, node, gpus);
	controller_check_sent(sim, pair, pod);
	ration_send_binding(
		sim, pair, pod, node, &placement, gangs_is_forming(&ration->gangs, sim->pods[pod].uid_text));
}

static void bind_read(struct sim *sim, int pair, int pod, int node);

/* Another size that the watch has not shown yet. */
static bool is_resized(const struct ledger_pod *known, const struct pod_facts *facts)
{
	return known->occupancy == OCCUPANCY_BOUND && facts->has_placement &&
	       facts->placement.resizes > known->placement.resizes;
}

/* It got another size and was deleted, and the watch has shown neither: the list does not have it any more,
 * and nobody can know. */
static void miss_size(struct sim *sim, const struct ledger_pod *known, int pod)
{
	if (!known || known->occupancy != OCCUPANCY_BOUND || sim->pods[pod].state.exists ||
		sim->pods[pod].state.size <= known->placement.resizes || sim->pods[pod].unseen)
		return;
	sim->pods[pod].unseen = true;
	count(sim, COUNT_UNSEEN);
}

void ration_read_node(struct sim *sim, int pair, int node, int position)
{
	struct ration *ration = &sim->rations[pair];

	for (int i = 0; i < sim->n_pods; i++) {
		struct state state = api_state_at(sim, i, position);
		struct pod_facts facts = api_facts(sim, i, &state);
		const struct ledger_pod *known = ledger_pod(&ration->ledger, facts.uid);

		if (!state.exists && sim->pods[i].state.node == node)
			miss_size(sim, known, i);
		if (!state.exists || state.node != node || facts.finished || (ration->forgotten & BIT(i)) ||
			(known && known->occupancy >= OCCUPANCY_BOUND && !is_resized(known, &facts)))
			continue;
		take(sim, ration, &facts);
		ration->held[i] = -1;
	}
	miss_orphans(sim, ration);
}

static void bind_listed(struct sim *sim, int pair, int pod, int node)
{
	struct ration *ration = &sim->rations[pair];

	ration_read_node(sim, pair, node, ration->listed_at[pod]);
	ration->held[pod] = -1; /* somebody may have been before us */
	bind_read(sim, pair, pod, node);
}

static void bind_lists(struct sim *sim, int pair, int pod, int node)
{
	struct ration *ration = &sim->rations[pair];

	if (api_is_away(sim)) {
		ration_bind_refused(sim, pair, pod);
		return;
	}
	ration->listed_at[pod] = (int16_t)sim->n_log;
	sim_after(sim, sim_delay(&sim->pods[pod].random, 1000, 300000), EVENT_BIND_LISTED, ration->epoch,
		pair, pod, node);
}

static void bind(struct sim *sim, int pair, int pod, int node)
{
	struct ration *ration = &sim->rations[pair];

	if (!ration->alive || !ration_is_ready(ration)) {
		bind_answer(sim, pair, pod, false);
		return;
	}
	takeover_note_call(sim, pair);
	ration->bind_ns[pod] = sim->now_ns;
	if (sim->now_ns < ration->fresh_until_ns && sim->broken != BREAK_NO_LIST_AT_TAKEOVER)
		sim_after(sim, sim_delay(&sim->pods[pod].random, 1000, 300000), EVENT_BIND_LIST,
			ration->epoch, pair, pod, node);
	else
		bind_read(sim, pair, pod, node);
}

static void bind_read(struct sim *sim, int pair, int pod, int node)
{
	struct ration *ration = &sim->rations[pair];
	const struct ledger_pod *known = ledger_pod(&ration->ledger, sim->pods[pod].uid_text);

	if (known) {
		bind_with_gpu(sim, pair, pod, node, &known->facts);
		return;
	}
	/* ask for the pod first */
	sim_after(sim, sim_delay(&sim->pods[pod].random, 1000, 300000), EVENT_BIND_GET, ration->epoch, pair,
		pod, node);
}

static void bind_got(struct sim *sim, int pair, int pod, int node)
{
	const struct state *state = &sim->pods[pod].state;
	struct pod_facts facts = api_facts(sim, pod, state);

	if (!state->exists || api_is_away(sim))
		ration_bind_refused(sim, pair, pod);
	else
		bind_with_gpu(sim, pair, pod, node, &facts);
}

static void doubt(struct sim *sim, int pair, int pod)
{
	struct ration *ration = &sim->rations[pair];

	if (sim->broken == BREAK_RELEASE_IN_DOUBT) {
		ledger_release_reservation(&ration->ledger, sim->pods[pod].uid_text);
		return;
	}
	count(sim, COUNT_DOUBTS);
	if (ration->n_doubts == BINDINGS_MAX) {
		sim->truncated = "BINDINGS_MAX Bindings are in doubt";
		return;
	}
	ration->doubts[ration->n_doubts++] = (struct doubt){(int8_t)pod, sim->now_ns + DOUBT_NS};
	sim_after(sim, DOUBT_NS, EVENT_DOUBT_OVER, ration->epoch, pair, 0, 0);
}

static void doubts_over(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];

	if (!sim->watchers[pair_watcher(pair, W_RATION_PODS)].connected) {
		sim_after(sim, NS_PER_S, EVENT_DOUBT_OVER, ration->epoch, pair, 0, 0);
		return;
	}
	while (ration->first_doubt < ration->n_doubts &&
		ration->doubts[ration->first_doubt].ends_ns <= sim->now_ns) {
		int pod = ration->doubts[ration->first_doubt++].pod;

		ration->in_flight &= ~BIT(pod);
		ledger_release_reservation(&ration->ledger, sim->pods[pod].uid_text);
	}
	ration_changed(sim, pair);
}

static void binding_answered(struct sim *sim, int index, int result, int status)
{
	struct binding *binding = &sim->bindings[index];
	struct ration *ration = &sim->rations[binding->pair];
	const char *uid = sim->pods[binding->pod].uid_text;

	if (binding->answered)
		return;
	binding->answered = true;
	switch (binding_outcome(result, status)) {
	case BINDING_APPLIED:
		ledger_confirm(&ration->ledger, uid);
		requeue_list_leave(&ration->requeues, uid);
		bind_answer(sim, binding->pair, binding->pod, true);
		break;
	case BINDING_REFUSED:
		ration->in_flight &= ~BIT(binding->pod);
		ledger_release_reservation(&ration->ledger, uid);
		bind_answer(sim, binding->pair, binding->pod, false);
		break;
	default:
		if (result < 0 && sim->broken == BREAK_RELEASE_ON_TIMEOUT)
			ledger_release_reservation(&ration->ledger, uid);
		else
			doubt(sim, binding->pair, binding->pod);
		bind_answer(sim, binding->pair, binding->pod, false);
		break;
	}
	ration_changed(sim, binding->pair);
}

/* Agents renew their Leases each 10 s. --break silence-is-an-end */
static void hear_agents(struct sim *sim, struct ration *ration)
{
	const int64_t renewed_ns = sim->now_ns - sim->now_ns % (10 * NS_PER_S) + 1;

	for (int n = 0; n < sim->n_nodes && sim->broken != BREAK_SILENCE_IS_AN_END; n++)
		if (sim->nodes[n].agent.alive && !api_is_away_from(sim, n))
			ledger_hear_agent(&ration->ledger, sim->nodes[n].name, renewed_ns);
}

static void tick(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];

	hear_agents(sim, ration);
	if (decide_expire(
		    &ration->ledger, sim->now_ns, sim->watchers[pair_watcher(pair, W_RATION_PODS)].connected))
		ration_changed(sim, pair);
	controller_tick(sim, pair);
	if (sim->watchers[pair_watcher(pair, W_RATION_PODS)].connected)
		requeue_list_forget_gone(&ration->requeues, &ration->ledger, sim->now_ns);
	sim_after(sim, NS_PER_S, EVENT_TICK, ration->epoch, pair, 0, 0);
}

/* A call of kube-scheduler, which has an epoch of its own. */
static void on_call(struct sim *sim, const struct event *event)
{
	struct ration *ration = &sim->rations[event->a];

	if (event->epoch != sim->kube_schedulers[event->a].epoch)
		return;
	if (event->kind == EVENT_BIND)
		bind(sim, event->a, event->b, event->c);
	else if (!ration->alive || !ration_is_ready(ration))
		filter_answers(sim, event->a, event->b, -1);
	else
		filter_answers(sim, event->a, event->b, filter(sim, event->a, event->b, event->c));
	if (ration->alive)
		ration_changed(sim, event->a);
}

void ration_on_event(struct sim *sim, const struct event *event)
{
	int pair = event->kind == EVENT_BINDING_ANSWER || event->kind == EVENT_BINDING_DEADLINE
			   ? sim->bindings[event->a].pair
			   : event->a;

	if (event->kind == EVENT_FILTER || event->kind == EVENT_BIND) {
		on_call(sim, event);
		return;
	}
	if (event->epoch != sim->rations[pair].epoch || !sim->rations[pair].alive)
		return;
	switch (event->kind) {
	case EVENT_LOOK:
		look(sim, pair);
		break;
	case EVENT_BIND_GET:
		bind_got(sim, pair, event->b, event->c);
		ration_changed(sim, pair);
		break;
	case EVENT_BIND_LIST:
		bind_lists(sim, pair, event->b, event->c);
		break;
	case EVENT_BIND_LISTED:
		bind_listed(sim, pair, event->b, event->c);
		ration_changed(sim, pair);
		break;
	case EVENT_BINDING_ANSWER:
		binding_answered(sim, event->a, 0, sim->bindings[event->a].status);
		break;
	case EVENT_BINDING_DEADLINE:
		binding_answered(sim, event->a, -1, 0);
		break;
	case EVENT_DOUBT_OVER:
		doubts_over(sim, pair);
		break;
	case EVENT_TICK:
		tick(sim, pair);
		break;
	case EVENT_VERIFY:
		verification(sim, pair, event->b);
		break;
	case EVENT_RECHECKED:
		rechecked(sim, pair, event->b, event->c);
		break;
	default:
		break;
	}
}
