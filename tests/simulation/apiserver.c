/* The API server: objects, a log of their changes, watches that lag, are cut, repeat themselves, and
 * Bindings. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

bool api_is_away(const struct sim *sim)
{
	return sim->now_ns < sim->api_away_until_ns;
}

bool api_is_away_from(const struct sim *sim, int node)
{
	return api_is_away(sim) || sim->now_ns < sim->nodes[node].cut_until_ns;
}

struct pod_facts api_facts(const struct sim *sim, int pod, const struct state *state)
{
	static const char *const gang_names[GANGS_MAX + 1] = {NULL, "g1", "g2", "g3", "g4", "g5"};
	static const char *const sizes[] = {
		"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};
	struct pod_facts facts = sim->pods[pod].facts;
	static const char *const models[] = {NULL, "A", NULL, "B", "A,C"};
	int gang;

	facts.models = (char *)models[pod % 5];
	facts.node = state->node < 0 ? (char *)"" : (char *)sim->nodes[state->node].name;
	facts.finished = state->phase >= PHASE_SUCCEEDED;
	facts.succeeded = state->phase == PHASE_SUCCEEDED;
	facts.pending = state->phase == PHASE_PENDING;
	facts.deleting = state->deleting;
	facts.gang_forming = state->forming;
	facts.gang_bound = state->placed;
	gang = api_gang(&sim->pods[pod], state);
	if (sim->broken == BREAK_GANG_LABELS_COUNT)
		gang = state->gang;
	facts.gang = (char *)gang_names[gang];
	facts.gang_min = gang && !sim->plan->gangs[gang].group ? sim->plan->gangs[gang].min : 0;
	facts.resize = (char *)(state->wanted ? sizes[state->wanted] : NULL);
	facts.nominated_node = state->nominated ? (char *)sim->nodes[state->nominated - 1].name : NULL;
	facts.assigned = state->assigned;
	facts.running = state->live;
	facts.has_placement = state->placed;
	facts.request = *size_request(&sim->pods[pod], state->size);
	if (sim->broken == BREAK_IGNORE_CORE && facts.request.core)
		facts.request.core = 5;
	if (sim->broken == BREAK_IGNORE_JOB)
		facts.request.group = NULL;
	if (state->placed)
		facts.placement = *size_placement(&sim->pods[pod], state->size);
	return facts;
}

struct state api_state_at(const struct sim *sim, int pod, int position)
{
	for (int i = position - 1; i >= 0; i--)
		if (sim->log[i].pod == pod)
			return sim->log[i].state;
	return (struct state){.node = -1};
}

int api_pod_by_name(const struct sim *sim, int name)
{
	for (int i = sim->n_pods - 1; i >= 0; i--)
		if (sim->pods[i].name == name && sim->pods[i].state.exists)
			return i;
	return -1;
}

static bool selects(int watcher, const struct state *state)
{
	if (watcher >= PAIRS_MAX * 3)
		return state->exists && state->node == (watcher - PAIRS_MAX * 3) / 2;
	return watcher % 3 != W_RATION_NODES && state->exists;
}

/* ration-scheduler's first LIST is without pods that have succeeded, all others have them. */
static bool lists(const struct sim *sim, int watcher, const struct state *state)
{
	return selects(watcher, state) &&
	       !(watcher < PAIRS_MAX * 3 && watcher % 3 == W_RATION_PODS && state->phase == PHASE_SUCCEEDED &&
		       !sim->rations[watcher / 3].core.pods_listed);
}

static void deliver_pod(struct sim *sim, int w, int pod, const struct state *state, bool selected)
{
	struct watcher *watcher = &sim->watchers[w];
	bool is_known = watcher->known & BIT(pod);

	if (!selected && !is_known)
		return;
	if (selected)
		watcher->known |= BIT(pod);
	else
		watcher->known &= ~BIT(pod);
	if (w >= PAIRS_MAX * 3) {
		int node = (w - PAIRS_MAX * 3) / 2;

		if (w == agent_watcher(node))
			agent_see(sim, node, pod, state, !selected);
		else
			kubelet_see(sim, node, pod, state, !selected, !is_known);
	} else if (w % 3 == W_KUBE_SCHEDULER) {
		ks_see(sim, w / 3, pod, state, !selected);
	} else {
		ration_see_pod(sim, w / 3, pod, state, !selected);
	}
}

static void deliver(struct sim *sim, int w, const struct change *change)
{
	if (change->pod >= 0)
		deliver_pod(sim, w, change->pod, &change->state, selects(w, &change->state));
	else if (w < PAIRS_MAX * 3 && w % 3 == W_RATION_NODES)
		ration_see_node(sim, w / 3, change->node, &change->node_state);
}

static bool concerns(const struct sim *sim, int w, const struct change *change)
{
	if (change->pod < 0)
		return w < PAIRS_MAX * 3 && w % 3 == W_RATION_NODES;
	if (w < PAIRS_MAX * 3)
		return w % 3 != W_RATION_NODES && w / 3 < sim->n_pairs;
	return change->state.node == (w - PAIRS_MAX * 3) / 2;
}

static void watch_send(struct sim *sim, int w, int index)
{
	struct watcher *watcher = &sim->watchers[w];
	int64_t at = sim->now_ns + sim_delay(&watcher->random, 4000, sim->plan->slow_watch[w] * 1000);

	watcher->position = (int16_t)(index + 1);
	if (!concerns(sim, w, &sim->log[index]))
		return;
	if (at < watcher->stalled_until_ns)
		at = watcher->stalled_until_ns;
	if (at <= watcher->last_ns)
		at = watcher->last_ns + 1;
	watcher->last_ns = at;
	sim_after(sim, at - sim->now_ns, EVENT_WATCH, watcher->epoch, w, index, 0);
	if (sim->now_ns < watcher->duplicate_until_ns) {
		count(sim, COUNT_DUPLICATES);
		sim_after(sim, at - sim->now_ns, EVENT_WATCH, watcher->epoch, w, index, 0);
	}
}

static void append(struct sim *sim, struct change change)
{
	if (sim->n_log == LOG_MAX) {
		sim->truncated = "the log has LOG_MAX changes";
		return;
	}
	sim->log[sim->n_log++] = change;
	for (int w = 0; w < WATCHERS_MAX; w++)
		if (sim->watchers[w].connected)
			watch_send(sim, w, sim->n_log - 1);
}

void api_set(struct sim *sim, int pod, const struct state *state)
{
	const struct state *old = &sim->pods[pod].state;

	if (old->requeue == state->requeue && old->verdict == state->verdict)
		sim_goes_on(sim, 0);
	sim->pods[pod].state = *state;
	sim->pods[pod].state.version++;
	sim->truth_changed = true;
	append(sim, (struct change){.pod = (int8_t)pod, .node = -1, .state = sim->pods[pod].state});
}

void api_set_node(struct sim *sim, int node)
{
	append(sim, (struct change){.pod = -1, .node = (int8_t)node, .node_state = sim->nodes[node].state});
}

void watch_stop(struct sim *sim, int w)
{
	sim->watchers[w].epoch++;
	sim->watchers[w].connected = false;
	sim->watchers[w].stopped = true;
}

/* Also how a watch begins: a LIST when the API server can be reached again. A process that starts knows
 * nothing, one that was only cut off compares. */
void watch_cut(struct sim *sim, int w, int64_t for_ns)
{
	struct watcher *watcher = &sim->watchers[w];

	if (w < PAIRS_MAX * 3 ? w / 3 >= sim->n_pairs : (w - PAIRS_MAX * 3) / 2 >= sim->n_nodes)
		return;
	if (watcher->stopped && for_ns > 0)
		return;
	if (watcher->stopped)
		watcher->known = 0;
	watcher->stopped = watcher->connected = false;
	watcher->epoch++;
	sim_after(
		sim, for_ns + sim_delay(&watcher->random, 5000, 800000), EVENT_LIST, watcher->epoch, w, 0, 0);
}

/* An orphan that its node has not told of yet is not in this LIST, and who reads it cannot know. */
static void list_nodes(struct sim *sim, struct watcher *watcher)
{
	for (int n = 0; n < sim->n_nodes; n++)
		watcher->list_nodes[n] = sim->nodes[n].state;
	for (int i = 0; i < sim->n_pods; i++) {
		struct pod *pod = &sim->pods[i];

		if (!pod->state.exists && pod->state.node >= 0 && api_pod_lives(pod) &&
			!(sim->nodes[pod->state.node].state.lives & BIT(i))) {
			sim->statistics->counts[COUNT_UNSEEN] += !pod->unseen;
			pod->unseen = true;
		}
	}
}

static void list_made(struct sim *sim, int w)
{
	struct watcher *watcher = &sim->watchers[w];

	if (w < PAIRS_MAX * 3 ? api_is_away(sim) : api_is_away_from(sim, (w - PAIRS_MAX * 3) / 2)) {
		sim_after(sim, 300 * MS, EVENT_LIST, watcher->epoch, w, 0, 0);
		return;
	}
	for (int i = 0; i < sim->n_pods; i++)
		watcher->list[i] = sim->pods[i].state;
	watcher->n_list = sim->n_pods;
	if (w < PAIRS_MAX * 3 && w % 3 == W_RATION_NODES)
		list_nodes(sim, watcher);
	watcher->position = (int16_t)sim->n_log;
	sim_after(sim, sim_delay(&watcher->random, 5000, sim->plan->slow_watch[w] * 1000), EVENT_LISTED,
		watcher->epoch, w, 0, 0);
}

static void list_arrives(struct sim *sim, int w)
{
	struct watcher *watcher = &sim->watchers[w];
	bool nodes = w < PAIRS_MAX * 3 && w % 3 == W_RATION_NODES;

	count(sim, COUNT_RELISTS);
	for (int i = 0; nodes && i < sim->n_nodes; i++)
		ration_see_node(sim, w / 3, i, &watcher->list_nodes[i]);
	sim->from_list = true;
	/* What is gone comes first: the kubelet sends removes before adds (config.go Merge(), 1.36.3), also
	 * while it still admits the pods of an earlier list. */
	for (int i = 0; !nodes && i < watcher->n_list; i++)
		if (!lists(sim, w, &watcher->list[i]))
			deliver_pod(sim, w, i, &watcher->list[i], false);
	if (w >= PAIRS_MAX * 3 && w == kubelet_watcher((w - PAIRS_MAX * 3) / 2))
		kubelet_listed(sim, (w - PAIRS_MAX * 3) / 2, watcher->list, watcher->n_list);
	for (int i = 0; !nodes && i < watcher->n_list; i++)
		if (lists(sim, w, &watcher->list[i]))
			deliver_pod(sim, w, i, &watcher->list[i], true);
	sim->from_list = false;
	watcher->connected = true;
	watcher->last_ns = sim->now_ns;
	for (int i = watcher->position; i < sim->n_log; i++)
		watch_send(sim, w, i);
	if (w < PAIRS_MAX * 3 && w % 3 != W_KUBE_SCHEDULER)
		ration_synced(sim, w / 3, nodes);
	else if (w >= PAIRS_MAX * 3 && w == agent_watcher((w - PAIRS_MAX * 3) / 2))
		agent_synced(sim, (w - PAIRS_MAX * 3) / 2);
}

static const char *const container_names[CONTAINERS_MAX] = {"c0", "c1", "c2", "c3"};

static int add_container(struct pod *pod, int c, int index)
{
	enum container_kind kind = (enum container_kind)pod->shape.kinds[c];
	char number[4], core[4];

	snprintf(number, sizeof(number), "%u", pod->shape.units[c]);
	snprintf(core, sizeof(core), "%u", pod->shape.core[c]);
	if (pod->shape.whole)
		return request_add_whole(&pod->facts.request, container_names[c], kind, index, number, NULL);
	return request_add(&pod->facts.request, container_names[c], kind, index, number,
		pod->shape.core[c] ? core : NULL, NULL);
}

static void make_facts(struct sim *sim, int i)
{
	static const char *const owners[] = {"", "job-a", "job-b"};
	struct pod *pod = &sim->pods[i];
	int main_index = 0;

	snprintf(pod->uid_text, sizeof(pod->uid_text), "u%d", i);
	snprintf(pod->name_text, sizeof(pod->name_text), "p%u", pod->name);
	pod->facts = (struct pod_facts){.uid = pod->uid_text,
		.namespace_ = (char *)"default",
		.name = pod->name_text,
		.owner = (char *)owners[pod->shape.owner % 3],
		.priority = pod->shape.priority,
		.created = 1 + sim->now_ns / NS_PER_S};
	for (int c = 0; c < pod->shape.n_containers; c++) {
		enum container_kind kind = (enum container_kind)pod->shape.kinds[c];

		if (add_container(pod, c, kind == CONTAINER_MAIN ? main_index++ : c) < 0)
			sim->truncated = "out of memory";
	}
	if (pod->shape.gpus > 1 && request_set_gpus(&pod->facts.request, pod->shape.gpus, NULL) < 0)
		sim->truncated = "out of memory";
	snprintf(pod->job_text, sizeof(pod->job_text), "j%u", pod->shape.job);
	if (pod->shape.job && request_set_group(&pod->facts.request, pod->facts.namespace_, pod->job_text,
				      pod->shape.job_pods) < 0)
		sim->truncated = "out of memory";
}

int api_create_pod(struct sim *sim, const struct shape *shape, int name)
{
	int i = sim->n_pods;
	struct pod *pod = &sim->pods[i];
	struct state state = {.exists = true, .node = shape->by_hand, .gang = shape->gang};

	if (shape->by_hand >= sim->n_nodes)
		return -1;
	/* Nobody asks for more pods than the simulation has numbers for: the history goes on without it. */
	if (i == PODS_MAX) {
		count(sim, COUNT_NOT_MADE);
		return -1;
	}
	sim->n_pods++;
	*pod = (struct pod){.shape = *shape,
		.created_ns = sim->now_ns,
		.binder = -1,
		.name = (uint8_t)(name < 0 ? i : name)};
	random_seed(&pod->random, sim->plan->seed, 1000 + (uint64_t)i);
	make_facts(sim, i);
	if (shape->by_hand >= 0)
		sim->nodes[shape->by_hand].loose = true;
	count(sim, COUNT_PODS);
	if (shape->whole)
		count(sim, COUNT_WHOLE);
	say(sim, "pod %s (%s) is created: %u %s", pod->name_text, pod->uid_text, pod->facts.request.units,
		shape->whole ? "cards" : "units");
	if (shape->gang)
		say(sim, "... of gang %u", shape->gang);
	api_set(sim, i, &state);
	if (shape->end == END_DELETED || shape->end == END_FORCED)
		sim_after(sim, shape->lifetime_ms * MS, EVENT_POD_END, 0, i, shape->end == END_FORCED, 0);
	return i;
}

static uint8_t gpus_of(const struct sim *sim, int node, const struct container_placement *container)
{
	const struct node_facts *facts = &sim->nodes[node].facts;
	unsigned int gpus = 0;

	for (size_t i = 0; i < container->n_gpus; i++)
		for (size_t k = 0; k < facts->n_gpus; k++)
			if (strcmp(facts->gpus[k].uuid, container->gpus[i].uuid) == 0)
				gpus |= 1u << k;
	return (size_t)__builtin_popcount(gpus) == container->n_gpus ? (uint8_t)gpus : 0;
}

uint8_t api_gpus(const struct sim *sim, int node, const struct placement *placement)
{
	unsigned int gpus = 0;

	for (size_t i = 0; i < placement->n_containers; i++) {
		uint8_t of_one = gpus_of(sim, node, &placement->containers[i]);

		if (!of_one)
			return 0;
		gpus |= of_one;
	}
	return (uint8_t)gpus;
}

uint8_t api_gpus_of(const struct sim *sim, int node, const struct placement *placement, int container)
{
	const struct container_placement *of = placement_find(placement, container_names[container]);

	return of ? gpus_of(sim, node, of) : 0;
}

bool api_pod_lives(const struct pod *pod)
{
	for (int c = 0; c < pod->shape.n_containers; c++)
		if (pod->containers[c].state == C_RUNNING)
			return true;
	return false;
}

/* The agent asks for a pod that its watch has never shown some 10 s later, and only then knows that it is
 * gone. */
static bool is_unknown_to_its_node(const struct sim *sim, const struct pod *pod)
{
	const struct node *node = pod->state.node >= 0 ? &sim->nodes[pod->state.node] : NULL;
	const struct node_pod *known = node && node->agent.alive
					       ? node_pods_by_uid(&node->agent.pods, pod->uid_text)
					       : NULL;

	return known && !known->watched;
}

static void gone(struct sim *sim, int i)
{
	struct pod *pod = &sim->pods[i];
	struct state state = pod->state;

	say(sim, "pod %s (%s) is gone from the API server", pod->name_text, pod->uid_text);
	if (api_pod_lives(pod)) {
		count(sim, COUNT_ORPHANS);
		sim->statistics->counts[COUNT_UNSEEN] += !state.live;
	}
	pod->unseen = !state.live || is_unknown_to_its_node(sim, pod);
	state.exists = false;
	api_set(sim, i, &state);
	if (pod->shape.remakes)
		sim_after(sim, sim_delay(&pod->random, 3000, 60000), EVENT_REMAKE, 0, i, 0, 0);
}

/* Of a pod that a person has bound, its label is all that there is. */
void api_label(struct sim *sim, const struct input *input)
{
	int i = sim->n_pods ? input->a % sim->n_pods : 0;
	struct state state = sim->pods[i].state;

	if (!state.exists || sim->pods[i].shape.by_hand >= 0 || state.gang == input->b)
		return;
	count(sim, COUNT_LABELLED);
	say(sim, "u%d is labelled into gang %u, it was of %u", i, input->b, state.gang);
	state.gang = input->b;
	api_set(sim, i, &state);
}

/* A pod that was never bound, or has ended, has no kubelet that would have to say yes. */
void api_delete(struct sim *sim, int i, bool force)
{
	struct pod *pod = &sim->pods[i];
	struct state state = pod->state;

	if (!state.exists || (state.deleting && !force))
		return;
	if (force || state.node < 0) {
		gone(sim, i);
		return;
	}
	say(sim, "pod %s (%s) is being deleted", pod->name_text, pod->uid_text);
	state.deleting = true;
	api_set(sim, i, &state);
}

static void binding_applied(struct sim *sim, struct binding *binding)
{
	struct pod *pod = &sim->pods[binding->pod];
	const struct ration *sender = &sim->rations[binding->pair];
	struct state state = pod->state;

	state.node = binding->node;
	state.placed = true;
	state.forming = binding->forming;
	pod->placement = binding->placement;
	placement_init(&binding->placement);
	pod->gpus = binding->gpus;
	for (int c = 0; c < pod->shape.n_containers; c++)
		pod->own[c] = api_gpus_of(sim, state.node, &pod->placement, c);
	pod->bound_gang = binding->gang;
	pod->binder = binding->pair;
	pod->bound_ns = sim->now_ns;
	binding->applied = true;
	/* Nobody who lives could know of it when it was decided. */
	if (!sender->alive || sender->epoch != binding->ration_epoch ||
		!sim->kube_schedulers[binding->pair].leads || sim->term != binding->term)
		sim->nodes[binding->node].loose = true;
	count(sim, COUNT_BINDINGS);
	say(sim, "Binding of %s (%s) to %s cards %#x is applied", pod->name_text, pod->uid_text,
		sim->nodes[binding->node].name, binding->gpus);
	api_set(sim, binding->pod, &state);
}

static int16_t binding_status(struct sim *sim, struct binding *binding)
{
	const struct pod *pod = &sim->pods[binding->pod];

	if (binding->fault == BINDING_ERROR)
		return 500;
	if (binding->fault == BINDING_THROTTLED)
		return 429;
	if (!pod->state.exists)
		return 404;
	if (pod->state.node >= 0 || pod->state.deleting)
		return 409;
	binding_applied(sim, binding);
	terms_bound(sim, binding->pod, binding->node);
	return binding->fault == BINDING_ERROR_APPLIED ? 500 : 201;
}

static void binding_arrives(struct sim *sim, int index)
{
	struct binding *binding = &sim->bindings[index];
	struct random *random = &sim->pods[binding->pod].random;

	if (api_is_away(sim))
		return;
	binding->status = binding_status(sim, binding);
	say(sim, "Binding of u%d: %d", binding->pod, binding->status);
	if (binding->fault != BINDING_ANSWER_LOST)
		sim_after(sim, sim_delay(random, 1000, 20000), EVENT_BINDING_ANSWER, binding->ration_epoch,
			index, 0, 0);
}

/* The kubelet lets the object go when its last status says that all containers have ended. */
static void finalize(struct sim *sim, int i)
{
	struct state state = sim->pods[i].state;

	if (!state.exists)
		return;
	state.live = false;
	api_set(sim, i, &state);
	api_delete(sim, i, true);
}

static const char *const phase_names[] = {"Pending", "Running", "Succeeded", "Failed"};

static void status_patch(struct sim *sim, int i, enum phase phase)
{
	struct state state = sim->pods[i].state;

	if (!state.exists || (phase ? state.phase >= (uint8_t)phase : state.live || state.phase))
		return;
	if (phase)
		state.phase = (uint8_t)phase;
	/* The kubelet shows no containers of a pod that it rejects: then the mark of the agent says it. */
	state.live = phase <= PHASE_RUNNING || (phase == PHASE_FAILED && state.assigned);
	if (phase)
		say(sim, "pod u%d is %s", i, phase_names[phase]);
	if (phase >= PHASE_SUCCEEDED && api_pod_lives(&sim->pods[i]))
		count(sim, COUNT_ORPHANS);
	api_set(sim, i, &state);
	/* its controller makes room for the next one */
	if (phase >= PHASE_SUCCEEDED && sim->pods[i].shape.remakes)
		sim_after(sim, sim_delay(&sim->pods[i].random, 5000, 300000), EVENT_POD_END, 0, i, 0, 0);
}

void api_on_event(struct sim *sim, const struct event *event)
{
	struct state state;

	switch (event->kind) {
	case EVENT_WATCH:
		if (event->epoch == sim->watchers[event->a].epoch)
			deliver(sim, event->a, &sim->log[event->b]);
		break;
	case EVENT_LIST:
		if (event->epoch == sim->watchers[event->a].epoch)
			list_made(sim, event->a);
		break;
	case EVENT_LISTED:
		if (event->epoch == sim->watchers[event->a].epoch)
			list_arrives(sim, event->a);
		break;
	case EVENT_BINDING:
		binding_arrives(sim, event->a);
		break;
	case EVENT_REQUEUE:
	case EVENT_VERDICT:
	case EVENT_ASSIGN:
		state = sim->pods[event->a].state;
		/* kube-scheduler does not repeat it, but compares at its next attempt: here that is soon. */
		if (event->kind == EVENT_VERDICT && api_is_away(sim) && state.node < 0)
			sim_after(sim, 500 * MS, EVENT_VERDICT, event->epoch, event->a, event->b, event->c);
		if (!state.exists || api_is_away(sim) ||
			(event->kind == EVENT_ASSIGN && api_is_away_from(sim, state.node)))
			break;
		state.requeue += event->kind == EVENT_REQUEUE;
		state.verdict += event->kind == EVENT_VERDICT;
		state.assigned |= event->kind == EVENT_ASSIGN;
		/* As the kubelet shows no containers yet, pod_parse() takes the mark for them. */
		state.live |= event->kind == EVENT_ASSIGN && state.phase == PHASE_PENDING;
		api_set(sim, event->a, &state);
		break;
	case EVENT_STATUS:
		if (api_is_away_from(sim, sim->pods[event->a].state.node))
			sim_after(sim, 200 * MS, EVENT_STATUS, 0, event->a, event->b, 0);
		else if (event->b < 0)
			finalize(sim, event->a);
		else
			status_patch(sim, event->a, (enum phase)event->b);
		break;
	default:
		break;
	}
}
