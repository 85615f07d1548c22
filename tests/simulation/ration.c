/* ration-scheduler: what extender.c, requeue.c and the requests of bind.c, sync.c and leadership.c do
 * around the core that ships. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/decide.h"
#include "core/registry/node-ledger.h"
#include "sim.h"

#define DEADLINE_NS (3 * NS_PER_S)
#define SPOILT_NS (25 * NS_PER_S) /* a Binding comes late, or stays in doubt */

struct core *ration_core(struct sim *sim, int pair)
{
	struct core *core = &sim->rations[pair].core;
	const struct watcher *watcher = &sim->watchers[pair_watcher(pair, W_RATION_PODS)];
	int64_t heard_ns = sim->now_ns - sim->now_ns % NS_PER_S; /* as sync_tick() looks each second */

	if (sim->now_ns < watcher->stalled_until_ns)
		heard_ns = core->heard_ns;
	core_set_watch(core, watcher->connected, watcher->connected ? heard_ns : 0);
	return core;
}

static const struct bind_ops ops;

void ration_start(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct gang_rules rules = {.keep_after_ns = GANG_KEEP_AFTER_NS, .timeout_ns = GANG_TIMEOUT_NS};

	if (pair >= sim->n_pairs || ration->alive)
		return;
	*ration = (struct ration){.alive = true, .epoch = ration->epoch + 1, .sim = sim, .pair = pair};
	if (sim->broken == BREAK_GANG_NO_KEEPING)
		rules.keep_after_ns = 3600 * NS_PER_S;
	core_init(&ration->core, &rules);
	ration->core.binds.ops = ops;
	ration->core.binds.ops.userdata = ration;
	ration->core.resizings.ops = size_ops(ration);
	evictions_start(ration);
	memset(ration->held, -1, sizeof(ration->held));
	recording_begin(sim, pair);
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
	recording_end(sim, pair);
	core_release(&ration->core);
	requeue_list_release(&ration->no_requeues);
	for (int i = 0; i < sim->n_pods; i++)
		placement_release(&ration->sending[i]);
	watch_stop(sim, pair_watcher(pair, W_RATION_PODS));
	watch_stop(sim, pair_watcher(pair, W_RATION_NODES));
}

/* Gone before our first LIST, and the node's word about it has not arrived: until it does, this process
 * cannot know. It has no such excuse for a pod that its watch has shown, bound and gone. */
static void miss_orphans(struct sim *sim, const struct ration *ration)
{
	for (int i = 0; i < sim->n_pods; i++) {
		struct pod *pod = &sim->pods[i];
		const struct ledger_pod *known = ledger_pod(&ration->core.ledger, pod->uid_text);

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
	n = core_look_at_requeues(&ration->core, sim->now_ns, pods, &again_ns);
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
					request_units_per_gpu(size_request(p, p->told_size)),
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
	static const char *const models[] = {NULL, "A", "A,B"};
	struct ration *ration = &sim->rations[pair];
	struct node_facts facts = sim->nodes[node].facts;

	if (state->gone) {
		core_node_is_gone(&ration->core, facts.name, facts.uid);
		node_forget_holds(ration, node);
		ration_carry_out(sim, pair);
		return;
	}
	facts.models = (char *)models[node % 3];
	held_init(&facts.held);
	facts.held_unreadable = state->unreadable;
	for (size_t k = 0; k < facts.n_gpus; k++)
		facts.gpus[k].healthy = !(state->sick & (1 << k)) || sim->broken == BREAK_IGNORE_HEALTH;
	ration->sick[node] = state->sick;
	terms_set(sim, node, &facts, state->whole, state->other_unit);
	for (size_t k = 0; k < facts.n_gpus && sim->broken == BREAK_IGNORE_LINKS; k++)
		memset(facts.details[k].links, 0, sizeof(facts.details[k].links));
	facts.changing = state->closed;
	if (state->at && add_held(sim, node, state, &facts.held) < 0)
		sim->truncated = "out of memory";
	facts.mixing |= sim->broken == BREAK_IGNORE_MIXING;
	if (state->bare) {
		facts.mode = GPU_MODE_NONE;
		facts.n_gpus = 0;
	}
	if (core_see_node(&ration->core, &facts) < 0)
		sim->truncated = "out of memory";
	/* Our LIST of Leases shows one, whoever has written it when. */
	if (!ledger_node(&ration->core.ledger, facts.name)->heard_ns &&
		sim->broken != BREAK_SILENCE_IS_AN_END)
		core_hear_agent(&ration->core, facts.name, sim->now_ns);
	held_release(&facts.held);
	node_forget_holds(ration, node);
	ration_carry_out(sim, pair);
}

/* Before the watch tells that the pod has ended. */
static void note_end(struct ration *ration, const char *uid, int pod)
{
	const struct ledger_pod *known = ledger_pod(&ration->core.ledger, uid);

	if (known && known->occupancy >= OCCUPANCY_BOUND)
		ration->was_bound |= BIT(pod);
	ration->held[pod] = -1;
}

static void pod_is_gone(struct sim *sim, int pair, int pod)
{
	struct core *core = ration_core(sim, pair);
	const char *uid = sim->pods[pod].uid_text;

	say(sim, "ration %d sees u%d gone", pair, pod);
	note_end(&sim->rations[pair], uid, pod);
	if (core_pod_is_gone(core, uid, !sim->from_list, sim->now_ns) < 0)
		sim->truncated = "out of memory";
	if (sim->broken == BREAK_FREE_ON_DELETE)
		ledger_remove_pod(&core->ledger, uid);
}

/* What another replica has bound or made larger is shown now: it may have taken what was promised there. */
static void see_foreign(const struct sim *sim, struct ration *ration, const struct pod_facts *facts,
	const struct state *state)
{
	const struct ledger_pod *known = ledger_pod(&ration->core.ledger, facts->uid);

	if (state->node < 0 || facts->finished)
		return;
	/* Other GPUs: our own Binding was in doubt, and the other replica's was applied. */
	if (!known || known->occupancy < OCCUPANCY_RESERVED ||
		strcmp(known->node, sim->nodes[state->node].name) != 0 ||
		state->size > known->placement.resizes ||
		(facts->has_placement && api_gpus(sim, state->node, &known->placement) !=
						 api_gpus(sim, state->node, &facts->placement)))
		node_forget_holds(ration, state->node);
}

void ration_see_pod(struct sim *sim, int pair, int pod, const struct state *state, bool deleted)
{
	struct ration *ration = &sim->rations[pair];
	struct core *core = ration_core(sim, pair);
	struct pod_facts facts = api_facts(sim, pod, state);
	bool new_verdict = state->node < 0 && state->verdict &&
			   state->verdict != (uintptr_t)table_get(&core->verdicts, facts.uid);

	if (deleted) {
		pod_is_gone(sim, pair, pod);
		ration_carry_out(sim, pair);
		return;
	}
	if (sim->broken == BREAK_FORGET_GPUS && sim->from_list && ration->epoch > 1 && facts.request.whole)
		facts.has_placement = false;
	if (sim->broken == BREAK_FREE_ON_DELETION_TIMESTAMP)
		facts.finished |= facts.deleting;
	if (facts.finished)
		note_end(ration, facts.uid, pod);
	see_foreign(sim, ration, &facts, state);
	if (core_see_pod(core, &facts, state->verdict, sim->now_ns) < 0)
		sim->truncated = "out of memory";
	if (state->node >= 0 || new_verdict)
		ration->held[pod] = -1;
	ration_carry_out(sim, pair);
}

/* What leadership.c and sync.c do. */
static void verify_unlisted(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct core *core = ration_core(sim, pair);

	ration->verify_at_ns = 0;
	for (int i = 0; i < sim->n_pods; i++) {
		const struct ledger_pod *pod = ledger_pod(&core->ledger, sim->pods[i].uid_text);

		if (!pod || !core_is_unlisted(pod))
			continue;
		sim_after(sim, sim_delay(&sim->pods[i].random, 1000, 500000), EVENT_VERIFY, ration->epoch,
			pair, i, 0);
		ration->verify_at_ns = sim->now_ns + CORE_VERIFY_AGAIN_NS;
	}
}

void ration_synced(struct sim *sim, int pair, bool nodes)
{
	struct ration *ration = &sim->rations[pair];
	struct core *core = ration_core(sim, pair);

	if (nodes) {
		core_nodes_are_listed(core, sim->now_ns);
		ration_carry_out(sim, pair);
		return;
	}
	if (!core->pods_listed)
		miss_orphans(sim, ration);
	if (core_pods_are_listed(core, sim->now_ns))
		sim->truncated = "out of memory";
	ration_carry_out(sim, pair);
	verify_unlisted(sim, pair);
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

static void rechecked(struct sim *sim, int pair, int pod, int position)
{
	struct core *core = ration_core(sim, pair);
	struct state state = position < 0 ? (struct state){.node = -1} : api_state_at(sim, pod, position);
	struct pod_facts facts = api_facts(sim, pod, &state);
	enum pod_verified what = !state.exists ? POD_GONE : facts.finished ? POD_ENDED : POD_IS_THERE;

	if (what != POD_IS_THERE)
		note_end(&sim->rations[pair], facts.uid, pod);
	core_pod_is_verified(core, facts.uid, what, &facts, sim->now_ns);
	ration_carry_out(sim, pair);
}

/* A kube-scheduler that was started again is known by its connections. */
static void note_call(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	uint32_t caller = sim->kube_schedulers[pair].epoch;

	core_note_call(&ration->core, ration->caller != caller && sim->broken != BREAK_TAKEOVER_BY_PAUSE,
		sim->now_ns);
	ration->caller = caller;
}

static void filter_answers(struct sim *sim, int pair, int pod, int nodes)
{
	sim_after(sim, sim_delay(&sim->pods[pod].random, 200, 30000), EVENT_FILTERED,
		sim->kube_schedulers[pair].epoch, pair, pod, nodes);
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

/* Called just before a GPU is held or reserved. */
static void look_before(void *userdata)
{
	struct ration *ration = userdata;

	gpus_look(ration->sim, ration->pair, &ration->before);
}

/* What filter holds. */
static void check_hold(struct sim *sim, int pair, int pod, const struct filter_answer *answer)
{
	struct ration *ration = &sim->rations[pair];
	const char *uid = sim->pods[pod].uid_text;
	const struct ledger_pod *known = ledger_pod(&ration->core.ledger, uid);
	int node = answer->n_nodes ? number_of(answer->nodes[0]) : -1;

	ration->held[pod] = (int8_t)(answer->hold_error ? -1 : node);
	if (answer->hold_error == 0 && node >= 0 && sim->pods[pod].shape.whole && known)
		gpus_check(sim, pair, &ration->before, pod, node, api_gpus(sim, node, &known->placement));
	if (sim->broken == BREAK_IGNORE_HOLD)
		core_drop_hold(&ration->core, uid);
}

/* kube-scheduler asks for scores if filter leaves it a choice. */
static void prioritize(
	struct sim *sim, int pair, const struct pod_facts *facts, const struct filter_answer *answer)
{
	const char *names[NODES_MAX];
	int scores[NODES_MAX], best = 0;

	for (size_t i = 0; i < answer->n_nodes; i++)
		names[i] = answer->nodes[i]->facts.name;
	if (answer->n_nodes < 2)
		return;
	if (core_prioritize(ration_core(sim, pair), facts, names, answer->n_nodes, scores) < 0) {
		sim->truncated = "out of memory";
		return;
	}
	for (size_t i = 1; i < answer->n_nodes; i++)
		if (scores[i] > best)
			best = scores[i];
	if (answer->hold_error == 0 && scores[0] <= best)
		sim_violate(sim, "the node with the hold has the best score",
			"%s: %s has %d, the best other %d", facts->uid, names[0], scores[0], best);
}

static char *nominated_node(const struct sim *sim, int pair, int pod)
{
	uint8_t nominated = sim->kube_schedulers[pair].seen[pod].nominated;

	return nominated ? (char *)sim->nodes[nominated - 1].name : NULL;
}

static int filter(struct sim *sim, int pair, int pod, int names)
{
	struct core *core = ration_core(sim, pair);
	const struct state unbound = {
		.exists = true, .node = -1, .gang = sim->kube_schedulers[pair].seen[pod].gang};
	struct pod_facts facts = api_facts(sim, pod, &unbound);
	_cleanup_filter_answer_ struct filter_answer answer = {0};
	const char *asked[NODES_MAX];
	struct filter_question question = {.pod = &facts, .names = asked};
	struct gpus_seen before;

	for (int i = 0; i < sim->n_nodes; i++)
		if (names & (1 << i))
			asked[question.n++] = sim->nodes[i].name;
	facts.nominated_node = nominated_node(sim, pair, pod);
	facts.priority += sim->broken == BREAK_EVICT_EQUALS;
	note_call(sim, pair);
	gpus_look(sim, pair, &before);
	core_filter(core, &question, sim->now_ns, &answer);
	if (answer.outcome == FILTER_FAILED || answer.requeue_error < 0)
		sim->truncated = "out of memory";
	if (answer.outcome == FILTER_GANG)
		say(sim, "ration %d: filter of %s: %s", pair, facts.uid, answer.text);
	if (answer.outcome == FILTER_IN_DOUBT || answer.outcome == FILTER_FAILED)
		return -1;
	if (answer.outcome == FILTER_GANG || answer.planned) {
		gpus_check_plans(sim, pair, &before);
		return answer.planned ? 0xff0 | number_of(answer.nodes[0]) : 15;
	}
	say(sim, "ration %d: filter of u%d: %zu nodes fit", pair, pod, answer.n_fitting);
	sim->rations[pair].held[pod] = -1;
	if (answer.outcome == FILTER_NO_NODE)
		return answer.waits_for ? FILTER_WAITS : 15;
	check_hold(sim, pair, pod, &answer);
	if (sim->broken != BREAK_IGNORE_HOLD)
		prioritize(sim, pair, &facts, &answer);
	return answer_of(sim, pair, pod, answer.nodes, answer.n_nodes);
}

/* ---- Bindings ---- */

static int pod_of(const struct bind *bind)
{
	return atoi(bind->what.uid + 1);
}

static int node_of(const struct bind *bind)
{
	return bind->what.node[1] - '0';
}

/* The GPUs of the pod are reserved. */
static char *write_binding(void *userdata, const struct bind *bind, const struct pod_facts *facts,
	const struct placement *placement, bool forming, struct error *err)
{
	struct ration *ration = userdata;
	struct sim *sim = ration->sim;
	int pair = ration->pair, pod = pod_of(bind), node = node_of(bind);
	const struct gpus_seen *before = &ration->before;
	uint8_t gpus = api_gpus(sim, node, placement);

	/* What filter has held was right when it was held. */
	if (facts->request.whole && (before->node[pod] != node || before->gpus[pod] != gpus))
		gpus_check(sim, pair, before, pod, node, gpus);
	if (facts->request.group)
		gpus_check_visible(sim, pair, pod, node, placement);
	if (gpus & ration->sick[node])
		sim_violate(sim, "no new pod on a card known to be faulty", "u%d on n%d, faulty %#x", pod,
			node, ration->sick[node]);
	placement_release(&ration->sending[pod]);
	if (placement_copy(placement, &ration->sending[pod]) < 0)
		sim->truncated = "out of memory";
	ration->forming[pod] = forming;
	return strdup("");
}

static bool caller_is_gone(void *userdata, const struct bind *bind)
{
	const struct ration *ration = userdata;

	return !(ration->waiting_binds & BIT(pod_of(bind)));
}

static const struct bind_ops ops = {
	.about_to_reserve = look_before, .write_binding = write_binding, .caller_is_gone = caller_is_gone};

/* What its Binding records, and not what the product makes of it. */
static uint8_t gang_in_ledger(const struct ration *ration, const char *uid)
{
	const struct ledger_pod *known = ledger_pod(&ration->core.ledger, uid);

	return known && known->facts.gang ? (uint8_t)(known->facts.gang[1] - '0') : 0;
}

static void send_binding(struct sim *sim, int pair, struct bind *bind)
{
	struct ration *ration = &sim->rations[pair];
	int i = sim->n_bindings, pod = pod_of(bind), node = node_of(bind);
	struct random *random = &sim->pods[pod].random;

	if (i == BINDINGS_MAX) {
		sim->truncated = "there were BINDINGS_MAX Bindings";
		core_bind_not_asked(&ration->core, bind, "", sim->now_ns);
		return;
	}
	sim->n_bindings++;
	say(sim, "ration %d binds u%d to n%d cards %#x", pair, pod, node,
		api_gpus(sim, node, &ration->sending[pod]));
	ration->held[pod] = -1;
	/* bind has read the pod, and may know before the watch that it has left its gang. */
	ration->sent_gang[pod] = sim->pods[pod].state.gang ? gang_in_ledger(ration, bind->what.uid) : 0;
	controller_check_sent(sim, pair, pod);
	sim->bindings[i] = (struct binding){.placement = ration->sending[pod],
		.bind = bind,
		.pair = (int8_t)pair,
		.pod = (int8_t)pod,
		.node = (int8_t)node,
		.gpus = api_gpus(sim, node, &ration->sending[pod]),
		.ration_epoch = ration->epoch,
		.term = sim->term,
		.forming = ration->forming[pod] && sim->broken != BREAK_GANG_WITHOUT_MARK,
		.fault = sim->next_fault};
	placement_init(&ration->sending[pod]);
	sim->bindings[i].gang = ration->sent_gang[pod];
	if (sim->next_fault >= 0 && sim->unsettled_until_ns < sim->now_ns + SPOILT_NS)
		sim->unsettled_until_ns = sim->now_ns + SPOILT_NS;
	sim->next_fault = -1;
	sim_after(sim,
		sim->bindings[i].fault == BINDING_LATE ? random_between(random, 1000, 8000) * MS
						       : sim_delay(random, 1000, 60000),
		EVENT_BINDING, 0, i, 0, 0);
	sim_after(sim, DEADLINE_NS, EVENT_BINDING_DEADLINE, ration->epoch, i, 0, 0);
}

/* Something is asked of the API server for this bind. */
static void ask(struct sim *sim, int pair, struct bind *bind, enum event_kind kind)
{
	struct ration *ration = &sim->rations[pair];
	int slot = 0;

	while (slot < ASKING_MAX && ration->asking[slot])
		slot++;
	if (slot == ASKING_MAX) {
		sim->truncated = "ASKING_MAX requests are under way";
		core_bind_not_asked(&ration->core, bind, "", sim->now_ns);
		return;
	}
	ration->asking[slot] = bind;
	sim_after(sim, sim_delay(&sim->pods[pod_of(bind)].random, 1000, 300000), kind, ration->epoch, pair,
		slot, 0);
}

static void answer(struct sim *sim, int pair, struct bind *bind)
{
	struct ration *ration = &sim->rations[pair];
	struct ledger *ledger = &ration->core.ledger;
	struct placement again;
	int pod = pod_of(bind), node = node_of(bind);
	bool answers = true;

	/* A bind must not fail for want of a GPU that filter has held for it on this very node. */
	if (bind->outcome == BIND_NO_GPU && ration->held[pod] == node && !sim->nodes[node].loose)
		sim_violate(sim, "a held card is there at bind", "u%d on n%d", pod, node);
	if (bind->outcome != BIND_BOUND)
		say(sim, "ration %d: bind of u%d to n%d: %s", pair, pod, node, bind->error.text);
	if (bind->outcome != BIND_BOUND && bind->outcome != BIND_REFUSED && bind->outcome != BIND_IN_DOUBT)
		ration->held[pod] = -1;
	if (bind->outcome == BIND_GANG && sim->broken == BREAK_GANG_FORGET_TO_RELEASE) {
		placement_init(&again);
		decide_reserve(ledger, &sim->pods[pod].facts, bind->what.node, &again);
		placement_release(&again);
		answers = false;
	}
	if (bind->outcome == BIND_IN_DOUBT) {
		count(sim, COUNT_DOUBTS);
		if (sim->broken == BREAK_RELEASE_IN_DOUBT)
			ledger_release_reservation(ledger, bind->what.uid);
		sim_after(sim, WATCH_LAG_MAX_NS, EVENT_DOUBT_OVER, ration->epoch, pair, 0, 0);
	}
	if (answers && (ration->waiting_binds & BIT(pod)))
		sim_after(sim, sim_delay(&sim->pods[pod].random, 200, 5000), EVENT_BOUND,
			sim->kube_schedulers[pair].epoch, pair, pod, bind->outcome == BIND_BOUND);
	if (answers)
		ration->waiting_binds &= ~BIT(pod);
	core_bind_is_answered(&ration->core, bind);
}

static void carry_out(struct sim *sim, int pair, struct bind *bind)
{
	struct core *core = &sim->rations[pair].core;

	switch (bind->order) {
	case BIND_LIST_NODE:
		if (sim->broken == BREAK_NO_LIST_AT_TAKEOVER)
			core_node_listed(core, bind, NULL, sim->now_ns);
		else
			ask(sim, pair, bind, EVENT_BIND_LIST);
		break;
	case BIND_READ_POD:
		ask(sim, pair, bind, EVENT_BIND_GET);
		break;
	case BIND_SEND:
		send_binding(sim, pair, bind);
		break;
	case BIND_ANSWER:
		answer(sim, pair, bind);
		break;
	}
}

/* --break gang-in-parts: whoever stands at bind goes. */
static void go_in_parts(struct sim *sim, struct core *core)
{
	while (sim->broken == BREAK_GANG_IN_PARTS && !list_empty(&core->binds.gathering))
		bind_go(core, list_entry(core->binds.gathering.next, struct bind, item)->what.uid,
			sim->now_ns);
}

/* After each use of the core: also, somebody may fit now. */
void ration_carry_out(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	struct bind *bind;

	go_in_parts(sim, &ration->core);
	while ((bind = core_next_bind_order(&ration->core)))
		carry_out(sim, pair, bind);
	size_carry_out(sim, pair);
	evictions_carry_out(sim, pair);
	ration->changed = true;
	core_gangs_may_look(&ration->core, sim->now_ns);
	controller_carry_out(sim, pair);
	if (requeue_list_is_due(&ration->core.requeues, &ration->core.ledger))
		look_within(sim, pair, CORE_LOOK_DELAY_NS);
	recording_follow(sim, pair);
}

static struct bind *take_asking(struct ration *ration, int slot)
{
	struct bind *bind = ration->asking[slot];

	ration->asking[slot] = NULL;
	return bind;
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
	struct core *core = ration_core(sim, pair);

	for (int i = 0; i < sim->n_pods; i++) {
		struct state state = api_state_at(sim, i, position);
		struct pod_facts facts = api_facts(sim, i, &state);
		const struct ledger_pod *known = ledger_pod(&core->ledger, facts.uid);

		if (!state.exists && sim->pods[i].state.node == node)
			miss_size(sim, known, i);
		if (!state.exists || state.node != node || facts.finished)
			continue;
		see_foreign(sim, &sim->rations[pair], &facts, &state);
		if (core_show_pod(core, &facts) < 0)
			sim->truncated = "out of memory";
		known = ledger_pod(&core->ledger, facts.uid);
		if (known && known->occupancy >= OCCUPANCY_BOUND)
			sim->rations[pair].held[i] = -1;
	}
	miss_orphans(sim, &sim->rations[pair]);
	if (!sim->rations[pair].verify_at_ns)
		sim->rations[pair].verify_at_ns = sim->now_ns + CORE_VERIFY_AGAIN_NS;
}

/* The API server makes the list now; the answer comes later. */
static void bind_lists(struct sim *sim, int pair, int slot)
{
	struct ration *ration = &sim->rations[pair];
	struct bind *bind = ration->asking[slot];

	if (api_is_away(sim)) {
		core_node_listed(
			ration_core(sim, pair), take_asking(ration, slot), "it is away", sim->now_ns);
		ration_carry_out(sim, pair);
		return;
	}
	sim_after(sim, sim_delay(&sim->pods[pod_of(bind)].random, 1000, 300000), EVENT_BIND_LISTED,
		ration->epoch, pair, slot, sim->n_log);
}

static void bind_listed(struct sim *sim, int pair, int slot, int position)
{
	struct bind *bind = take_asking(&sim->rations[pair], slot);

	ration_read_node(sim, pair, node_of(bind), position);
	core_node_listed(ration_core(sim, pair), bind, NULL, sim->now_ns);
	ration_carry_out(sim, pair);
}

static void bind_got(struct sim *sim, int pair, int slot)
{
	struct bind *bind = take_asking(&sim->rations[pair], slot);
	int pod = pod_of(bind);
	const struct state *state = &sim->pods[pod].state;
	struct pod_facts facts = api_facts(sim, pod, state);
	bool there = state->exists && !api_is_away(sim);

	core_bind_pod_read(
		ration_core(sim, pair), bind, there ? &facts : NULL, "it is not there", sim->now_ns);
	ration_carry_out(sim, pair);
}

static void binding_answered(struct sim *sim, int index, int result, int status)
{
	struct binding *binding = &sim->bindings[index];
	enum binding_outcome outcome = binding_outcome(result, status);

	if (binding->answered)
		return;
	binding->answered = true;
	if (result < 0 && sim->broken == BREAK_RELEASE_ON_TIMEOUT)
		outcome = BINDING_REFUSED;
	core_binding_answered(ration_core(sim, binding->pair), binding->bind, outcome, "", sim->now_ns);
	ration_carry_out(sim, binding->pair);
}

static void doubts_over(struct sim *sim, int pair)
{
	struct core *core = ration_core(sim, pair);

	core_end_doubts(core, sim->now_ns);
	if (core_doubts_end_ns(core) <= sim->now_ns)
		sim_after(sim, NS_PER_S, EVENT_DOUBT_OVER, sim->rations[pair].epoch, pair, 0, 0);
	ration_carry_out(sim, pair);
}

/* Agents renew their Leases each 10 s. --break silence-is-an-end */
static void hear_agents(struct sim *sim, struct ration *ration)
{
	const int64_t renewed_ns = sim->now_ns - sim->now_ns % (10 * NS_PER_S) + 1;

	for (int n = 0; n < sim->n_nodes && sim->broken != BREAK_SILENCE_IS_AN_END; n++)
		if (sim->nodes[n].agent.alive && !api_is_away_from(sim, n))
			core_hear_agent(&ration->core, sim->nodes[n].name, renewed_ns);
}

/* Kubelets report often. --break silent-watch-is-heard */
static void hear_nodes(struct sim *sim, int pair)
{
	const struct watcher *watcher = &sim->watchers[pair_watcher(pair, W_RATION_NODES)];

	if ((watcher->connected && sim->now_ns >= watcher->stalled_until_ns) ||
		sim->broken == BREAK_SILENT_WATCH_IS_HEARD)
		core_set_nodes_told(&sim->rations[pair].core, sim->now_ns);
}

static void tick(struct sim *sim, int pair)
{
	struct core *core = ration_core(sim, pair);

	hear_agents(sim, &sim->rations[pair]);
	hear_nodes(sim, pair);
	core_tick(core, sim->now_ns);
	ration_carry_out(sim, pair);
	if (sim->rations[pair].verify_at_ns && sim->now_ns >= sim->rations[pair].verify_at_ns)
		verify_unlisted(sim, pair);
	sim_after(sim, NS_PER_S, EVENT_TICK, sim->rations[pair].epoch, pair, 0, 0);
}

static void bind(struct sim *sim, int pair, int pod, int node)
{
	struct ration *ration = &sim->rations[pair];
	struct bind_target target = {.uid = strdup(sim->pods[pod].uid_text),
		.namespace_ = strdup("default"),
		.name = strdup(sim->pods[pod].name_text),
		.node = strdup(sim->nodes[node].name)};

	note_call(sim, pair);
	if (core_bind(ration_core(sim, pair), &target, NULL, sim->now_ns) < 0) {
		sim->truncated = "out of memory";
		ration->waiting_binds &= ~BIT(pod);
	}
}

/* A call of kube-scheduler, which has an epoch of its own. */
static void on_call(struct sim *sim, const struct event *event)
{
	struct ration *ration = &sim->rations[event->a];
	bool ready = ration->alive && core_is_ready(&ration->core);

	if (event->epoch != sim->kube_schedulers[event->a].epoch)
		return;
	if (event->kind == EVENT_FILTER)
		filter_answers(
			sim, event->a, event->b, ready ? filter(sim, event->a, event->b, event->c) : -1);
	else if (ready)
		bind(sim, event->a, event->b, event->c);
	else if (ration->waiting_binds & BIT(event->b)) {
		ration->waiting_binds &= ~BIT(event->b);
		sim_after(sim, sim_delay(&sim->pods[event->b].random, 200, 5000), EVENT_BOUND,
			sim->kube_schedulers[event->a].epoch, event->a, event->b, false);
	}
	if (ration->alive)
		ration_carry_out(sim, event->a);
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
		bind_got(sim, pair, event->b);
		break;
	case EVENT_BIND_LIST:
		bind_lists(sim, pair, event->b);
		break;
	case EVENT_BIND_LISTED:
		bind_listed(sim, pair, event->b, event->c);
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
