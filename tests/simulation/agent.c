/* ration-agent: what agent.c, identify.c, allocate.c, prestart.c, preferred.c and orphans.c do around the
 * real matching, record, cache of pods and device ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/allotment.h"
#include "node/answered.h"
#include "node/ids.h"
#include "node/matching.h"
#include "node/room.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "kube/names.h"
#include "model/units.h"
#include "sim.h"

#define ORPHANS_NS (30 * NS_PER_S)
#define PREFERRED_NS (1500 * MS)
#define SHOWN_NS NS_PER_S /* leftovers.c */
#define REPORT_AGAIN_NS (3 * NS_PER_S)
#define TURN_NS (50 * MS)

/* Bit of an id in the kubelet's masks: GPUs one after the other, GPU_UNITS_MAX each; then whole ones. */
static const char *id_text(int bit)
{
	static char texts[64][DEVICE_ID_SIZE];

	if (!*texts[bit] && bit >= FIRST_GPU_ID)
		snprintf(texts[bit], sizeof(texts[bit]), "%d-gpu", bit - FIRST_GPU_ID);
	else if (!*texts[bit])
		snprintf(texts[bit], sizeof(texts[bit]), "%d-%d", bit / GPU_UNITS_MAX, bit % GPU_UNITS_MAX);
	return texts[bit];
}

static int gpu_of_bit(int bit)
{
	return bit >= FIRST_GPU_ID ? bit - FIRST_GPU_ID : bit / GPU_UNITS_MAX;
}

size_t id_texts(uint64_t ids, char **ret_texts)
{
	size_t n = 0;

	for_each_bit (bit, ids)
		ret_texts[n++] = (char *)id_text(bit);
	return n;
}

static int id_bit(const char *text)
{
	if (strstr(text, "-gpu"))
		return FIRST_GPU_ID + ids_gpu(text);
	return ids_gpu(text) * GPU_UNITS_MAX + atoi(strchr(text, '-') + 1);
}

static int64_t agent_takes(struct sim *sim, int n, int64_t usual_us, int64_t most_us)
{
	struct node *node = &sim->nodes[n];

	return sim_delay(&node->random, usual_us, most_us) +
	       (sim->now_ns < node->agent.slow_until_ns ? random_between(&node->random, 50, 900) * MS : 0);
}

static void set_inventory(struct node *node)
{
	struct inventory *inventory = &node->agent.inventory;

	inventory->unit_mib = UNIT_MIB;
	inventory->n_gpus = node->facts.n_gpus;
	for (size_t i = 0; i < inventory->n_gpus; i++) {
		inventory->gpus[i].facts = node->facts.gpus[i];
		inventory->gpus[i].units = units_of_gpu(node->facts.gpus[i].mib, UNIT_MIB);
	}
}

void agent_list_devices(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct device_ids ids = {0};
	struct table spent = {0}; /* a simulated id is a bit: it has one name */
	uint64_t all = 0, healthy = 0;

	set_inventory(node);
	if (!node->agent.alive || !node->agent.registered || !node->kubelet.alive)
		return;
	if (ids_build(terms_whole(sim, n) ? IDS_OF_GPUS : IDS_OF_UNITS, &node->agent.inventory,
		    &node->agent.pods, &node->agent.served, &spent, &ids) < 0) {
		sim->truncated = "out of memory";
		return;
	}
	for (size_t i = 0; i < ids.n; i++) {
		all |= BIT(id_bit(ids.ids[i]));
		healthy |= ids.healthy[i] ? BIT(id_bit(ids.ids[i])) : 0;
	}
	ids_release(&ids);
	kubelet_register(sim, n, all, healthy);
}

/* kubelet.c */
static void list_turn(struct sim *sim, int n, int64_t delay_ns)
{
	sim_after(sim, delay_ns, EVENT_TURN, sim->nodes[n].agent.epoch, n, 0, 0);
}

void agent_start_process(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct agent *agent = &node->agent;

	if (n >= sim->n_nodes || agent->alive)
		return;
	agent->alive = true;
	agent->synced = agent->registered = false;
	agent->epoch++;
	agent->assigned = 0;
	agent->leftovers = agent->lives = agent->ended = 0;
	agent->asks_runtime = agent->held_changed = false;
	memset(&agent->said, 0, sizeof(agent->said));
	node_pods_init(&agent->pods);
	served_init(&agent->served);
	turn_init(&agent->turn);
	set_inventory(node);
	if (sim->broken != BREAK_FORGET_CHECKPOINT)
		answers_load(sim, n, &agent->served);
	list_for_each (item, &agent->served.entries) { /* kubelet_recall_who_waits() */
		struct served_entry *entry = list_entry(item, struct served_entry, item);

		entry->waits = !(node->grants & BIT(atoi(entry->uid + 1)));
	}
	if (answers_are_checked(sim))
		answers_settle(sim, n);
	watch_cut(sim, agent_watcher(n), 0);
	list_turn(sim, n, MS);
	sim_after(sim, agent_takes(sim, n, 20000, 300000), EVENT_REGISTER, agent->epoch, n, 0, 0);
	sim_after(sim, ORPHANS_NS, EVENT_ORPHANS, agent->epoch, n, 0, 0);
	terms_start(sim, n);
}

void agent_free(struct node *node)
{
	if (!node->agent.alive)
		return;
	node->agent.alive = node->agent.registered = false;
	node_pods_release(&node->agent.pods);
	served_release(&node->agent.served);
	turn_release(&node->agent.turn);
}

void agent_kill(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];

	if (n >= sim->n_nodes || !node->agent.alive)
		return;
	agent_free(node);
	node->agent.epoch++;
	watch_stop(sim, agent_watcher(n));
	kubelet_devices_gone(sim, n);
}

void agent_see_kubelet(struct sim *sim, int n)
{
	struct agent *agent = &sim->nodes[n].agent;

	agent->registered = false;
	if (!agent->alive)
		return;
	turn_begin(&agent->turn);
	list_turn(sim, n, TURN_NS);
	sim_after(sim, agent_takes(sim, n, 30000, 3000000), EVENT_REGISTER, agent->epoch, n, 0, 0);
}

static void ask_runtime(struct sim *sim, int n, int64_t delay_ns)
{
	struct agent *agent = &sim->nodes[n].agent;

	if (!agent->asks_runtime)
		sim_after(sim, delay_ns, EVENT_RUNTIME, agent->epoch, n, 0, 0);
	agent->asks_runtime = true;
}

/* leftovers.c: gone from the API server, but its containers may live. Its size is the last that the API
 * server has shown, or that of the record, which is in step with the limit. */
static void leftover_add(struct sim *sim, int n, int pod)
{
	struct agent *agent = &sim->nodes[n].agent;
	const struct node_pod *known = node_pods_by_uid(&agent->pods, sim->pods[pod].uid_text);

	if (!(agent->leftovers & BIT(pod)))
		sim->pods[pod].told_size = known ? (uint8_t)known->facts.placement.resizes
						 : sim->pods[pod].limit_size;
	agent->leftovers |= BIT(pod);
	ask_runtime(sim, n, agent_takes(sim, n, 2000, 200000));
}

/* The facts of a pod come into the cache by the watch or by a GET. New sizes are given a moment later, when
 * all that the watch has sent was read. */
static struct node_pod *cache(struct sim *sim, int n, int pod, const struct state *state)
{
	struct pod_facts facts = api_facts(sim, pod, state), copy = {0};
	struct node_pod *cached = NULL;

	if (pod_facts_copy(&facts, &copy) == 0)
		cached = node_pods_put(&sim->nodes[n].agent.pods, &copy);
	if (!cached)
		sim->truncated = "out of memory";
	else if (cached->facts.has_placement && cached->facts.finished && !cached->facts.succeeded)
		leftover_add(sim, n, pod); /* only the container runtime knows what runs of it */
	sim_after(sim, MS, EVENT_SIZES, sim->nodes[n].agent.epoch, n, 0, 0);
	return cached;
}

uint64_t agent_orphans(const struct sim *sim, int n)
{
	const struct agent *agent = &sim->nodes[n].agent;

	return (agent->leftovers & ~agent->ended) | (agent->synced ? 0 : sim->nodes[n].records);
}

const struct request *orphan_request(const struct sim *sim, int n, int i)
{
	const struct pod *pod = &sim->pods[i];

	return size_request(pod, sim->nodes[n].agent.leftovers & BIT(i) ? pod->told_size : pod->limit_size);
}

static void runtime_answers(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct agent *agent = &node->agent;

	agent->asks_runtime = false;
	for_each_bit (i, agent->leftovers & ~agent->ended) {
		uint64_t *now = api_pod_lives(&sim->pods[i]) ? &agent->lives : &agent->ended;

		if (*now & BIT(i))
			continue;
		*now |= BIT(i);
		agent->held_changed = true;
		if (now != &agent->ended)
			continue;
		agent->lives &= ~BIT(i);
		node->records &= ~BIT(i);
		node->grants &= ~BIT(i);
	}
	if (agent->held_changed)
		sim_after(sim, agent_takes(sim, n, 3000, 300000), EVENT_HELD, agent->epoch, n, 0, 0);
	if (agent->leftovers & ~agent->ended)
		ask_runtime(sim, n, 300 * MS);
	size_follow(sim, n);
}

static void say_held(struct node *node)
{
	node->state.lives = node->agent.said.lives;
	node->state.ended = node->agent.said.ended;
	node->state.at = node->agent.said.at;
	node->state.unreadable = false;
}

static void held_written(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];

	if (!node->agent.held_changed)
		return;
	if (api_is_away_from(sim, n) || node->state.gone) {
		sim_after(sim, NS_PER_S, EVENT_HELD, node->agent.epoch, n, 0, 0);
		return;
	}
	count(sim, COUNT_HELD);
	node->agent.held_changed = false;
	node->agent.said.at = node->agent.leftovers ? ++node->held_writes : 0;
	node->agent.said.lives = node->agent.lives;
	node->agent.said.ended = node->agent.ended;
	node->agent.said_ns = sim->now_ns;
	say_held(node);
	api_set_node(sim, n);
}

void agent_node_changed(struct sim *sim, int n, int64_t delay_ns)
{
	sim_after(sim, delay_ns, EVENT_REPORT, sim->nodes[n].agent.epoch, n, 0, 0);
}

static bool held_is_ours(const struct node *node)
{
	return node->state.lives == node->agent.said.lives && node->state.ended == node->agent.said.ended &&
	       node->state.at == node->agent.said.at && !node->state.unreadable;
}

/* report.c: what the watch shows of the Node object is compared with what it is to say. While ration.dev/held
 * is being written only the rest is. */
static void report(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	bool restores = !node->agent.held_changed && node->agent.synced &&
			sim->now_ns - node->agent.said_ns >= SHOWN_NS &&
			sim->broken != BREAK_HELD_NOT_RESTORED;

	if (!node->state.bare && held_is_ours(node))
		return;
	agent_node_changed(sim, n, REPORT_AGAIN_NS);
	if (node->state.gone || api_is_away_from(sim, n) || (!node->state.bare && !restores))
		return;
	node->state.bare = false;
	if (restores) {
		count(sim, COUNT_HELD_RESTORED);
		say_held(node);
	}
	api_set_node(sim, n);
}

/* agent_changed(): which free ids are unhealthy depends on who has which. */
static void list_again_if_sick(struct sim *sim, int n)
{
	if (sim->nodes[n].state.sick)
		agent_list_devices(sim, n);
}

void agent_see(struct sim *sim, int n, int pod, const struct state *state, bool deleted)
{
	struct agent *agent = &sim->nodes[n].agent;
	struct node_pod *cached;

	if (deleted) {
		cached = node_pods_by_uid(&agent->pods, sim->pods[pod].uid_text);
		if (cached && !sim->from_list) /* the event shows the pod as it was last */
			cached = cache(sim, n, pod, state);
		if (sim->broken != BREAK_TELL_A_SIZE_NOT_GIVEN)
			size_follow(sim, n);
		if (cached && cached->facts.has_placement)
			leftover_add(sim, n, pod);
		node_pods_remove(&agent->pods, sim->pods[pod].uid_text);
		served_remove_pod(&agent->served, sim->pods[pod].uid_text);
	} else {
		cached = cache(sim, n, pod, state);
		if (cached)
			cached->watched = true;
	}
	list_again_if_sick(sim, n);
}

static void forget_gone(struct sim *sim, int n)
{
	struct agent *agent = &sim->nodes[n].agent;

	for (int i = 0; i < sim->n_pods; i++)
		if (!node_pods_by_uid(&agent->pods, sim->pods[i].uid_text))
			served_remove_pod(&agent->served, sim->pods[i].uid_text);
}

void agent_synced(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];

	if (!node->agent.synced)
		for_each_bit (i, node->records | node->state.lives)
			if (!node_pods_by_uid(&node->agent.pods, sim->pods[i].uid_text))
				leftover_add(sim, n, i);
	if (!node->agent.synced && (node->state.at || node->state.unreadable)) {
		node->agent.held_changed = true; /* it is not this process's word */
		if (!node->agent.leftovers)
			sim_after(sim, agent_takes(sim, n, 3000, 300000), EVENT_HELD, node->agent.epoch, n, 0,
				0);
	}
	node->agent.synced = true;
	agent_node_changed(sim, n, agent_takes(sim, n, 5000, 300000));
	forget_gone(sim, n);
}

/* By the status that the agent has seen: it may be old, and the kubelet tells none while it is away. */
static uint64_t runs(const struct sim *sim, const struct node_pod *pod)
{
	const struct pod_facts *facts = &pod->facts;
	uint64_t runs = 0;

	for (size_t i = 0; facts->running && i < facts->request.n_containers; i++)
		if (sim->pods[atoi(facts->uid + 1)].shown & BIT(facts->request.containers[i].name[1] - '0'))
			runs |= BIT(i);
	return runs;
}

/* By the word of the container runtime, if it was asked for this call. */
static uint64_t runs_now(const struct call *call, const struct node_pod *pod)
{
	const struct request *request = &pod->facts.request;
	uint64_t runs = 0;

	for (size_t i = 0; i < request->n_containers; i++)
		if (call->runs_now[request->containers[i].name[1] - '0'] & BIT(atoi(pod->facts.uid + 1)))
			runs |= BIT(i);
	return runs;
}

/* What a call needs to know of the pods that PodResources lists: by name, it has no uid. */
static size_t fill(struct sim *sim, int n, struct matching_pod *input, int *pods)
{
	struct node *node = &sim->nodes[n];
	struct call *call = &node->kubelet.call;
	size_t count = 0;

	for_each_bit (i, call->listed) {
		const struct node_pod *pod = call->gone & BIT(i) ? NULL
								 : node_pods_by_name(&node->agent.pods,
									   "default", sim->pods[i].name_text);

		pods[count] = i;
		input[count++] = (struct matching_pod){
			.namespace_ = "default",
			.name = sim->pods[i].name_text,
			.facts = pod ? &pod->facts : NULL,
			.fresh = call->fresh & BIT(i),
			.may_return = true,
			.unanswered = call->unanswered & BIT(i),
			.asks_otherwise = pod && pod->facts.request.whole != terms_whole(sim, n),
			.lists_devices = call->shows & BIT(i),
			.had_turn = pod && pod->facts.running &&
				    turn_is_past(&node->agent.turn, sim->pods[i].name_text),
			.runs = pod ? runs(sim, pod) : 0,
			.runs_now = pod ? runs_now(call, pod) : 0,
			.has_grant = pod && (node->grants & BIT(atoi(pod->facts.uid + 1))),
		};
	}
	return count;
}

/* The peers know only the pods that are bound to the node. */
static size_t fill_from_watch(struct sim *sim, int n, struct matching_pod *input)
{
	size_t count = 0;

	for (int i = 0; i < sim->n_pods; i++) {
		const struct node_pod *pod = node_pods_by_uid(
			&sim->nodes[n].agent.pods, sim->pods[i].uid_text);

		if (pod && !pod->facts.finished)
			input[count++] = (struct matching_pod){.facts = &pod->facts};
	}
	return count;
}

/* The peers' rule: the oldest pod whose next container is of this size. --break oldest-of-equal-size, and
 * oldest-of-equal-size-unchecked */
static enum matching_verdict peers_match(struct sim *sim, int n, size_t n_ids,
	const struct matching_pod *input, size_t count, struct matching *ret)
{
	const struct agent *agent = &sim->nodes[n].agent;
	int64_t oldest_ns = INT64_MAX;

	for (size_t i = 0; i < count; i++) {
		const struct pod_facts *facts = input[i].facts;
		const struct container_request *next = NULL;

		for (size_t c = 0; facts && !next && c < facts->request.n_containers; c++)
			if (!served_find(&agent->served, facts->uid, facts->request.containers[c].name))
				next = &facts->request.containers[c];
		if (!next || next->asked != n_ids || !facts->has_placement)
			continue;
		if (sim->pods[atoi(facts->uid + 1)].bound_ns < oldest_ns) {
			oldest_ns = sim->pods[atoi(facts->uid + 1)].bound_ns;
			*ret = (struct matching){.pod = i, .container = next, .placed = true};
		}
	}
	return oldest_ns == INT64_MAX ? MATCHING_REFUSED : MATCHING_FOUND;
}

static void answer(struct sim *sim, int n, bool ok, uint64_t ids, int cdi, enum reason reason)
{
	struct call *call = &sim->nodes[n].kubelet.call;

	call->busy = false;
	devices_answered(sim, n, ok, ids, cdi, reason);
}

/* must_include verbatim, then ids of the placed GPUs, then any. */
static uint64_t choose_ids(const struct call *call, uint8_t gpus)
{
	uint64_t chosen = call->must;

	for (int pass = 0; pass < 2; pass++)
		for_each_bit (bit, call->available & ~call->must)
			if (__builtin_popcountll(chosen) < call->n_ids &&
				((gpus >> gpu_of_bit(bit)) & 1) == (pass == 0))
				chosen |= BIT(bit);
	return chosen;
}

static uint8_t gpus_of(const struct sim *sim, int n, const struct pod_facts *facts)
{
	return facts->has_placement ? api_gpus(sim, n, &facts->placement) : 0;
}

static uint8_t gpus_of_ids(uint64_t ids)
{
	unsigned int gpus = 0;

	for_each_bit (bit, ids)
		gpus |= 1u << gpu_of_bit(bit);
	return (uint8_t)gpus;
}

/* What a variable names, comma-separated. */
static uint8_t gpus_named(const struct node *node, const char *value)
{
	unsigned int gpus = 0;

	for (size_t k = 0; k < node->facts.n_gpus; k++)
		if (strstr(value, node->facts.gpus[k].uuid)) /* they are all of one length */
			gpus |= 1u << k;
	return (uint8_t)gpus;
}

/* The container's device nodes and its environment; the file has both. */
static void grant_whole(struct sim *sim, int n, const struct pod_facts *facts, int c)
{
	struct node *node = &sim->nodes[n];
	int pod = atoi(facts->uid + 1);
	struct error err = {""};
	struct allotment made;
	unsigned int own = 0, sees = 0;

	if (allotment_build(&node->agent.inventory, facts, (const char[]){'c', (char)('0' + c), '\0'}, true,
		    &made, &err) < 0) {
		node->grant[pod][c].gpus = node->grant[pod][c].sees = 0;
		return;
	}
	for (size_t i = 0; i < made.n_gpus; i++)
		*(i < made.n_own ? &own : &sees) |= 1u << (made.gpus[i] - node->agent.inventory.gpus);
	sees |= own;
	if (gpus_named(node, allotment_value(&made, ENV_ALIYUN_VISIBLE)) != sees ||
		(sees != own && gpus_named(node, allotment_value(&made, ENV_CUDA_VISIBLE)) != sees))
		sim_violate(sim, "a container's environment names the cards that it sees",
			"u%d/c%d on n%d sees %#x, is told %s", pod, c, n, sees,
			allotment_value(&made, ENV_ALIYUN_VISIBLE));
	node->grant[pod][c].gpus = (uint8_t)own;
	node->grant[pod][c].sees = (uint8_t)sees;
}

static void grant(struct sim *sim, int n, const struct pod_facts *facts, uint64_t ids)
{
	struct node *node = &sim->nodes[n];
	int pod = atoi(facts->uid + 1);

	node->grants |= BIT(pod);
	answers_name_files(sim, n, pod);
	for (int c = 0; c < sim->pods[pod].shape.n_containers; c++) {
		if (facts->request.whole)
			grant_whole(sim, n, facts, c);
		else
			node->grant[pod][c].gpus = node->grant[pod][c].sees = gpus_of(sim, n, facts);
		if (sim->broken == BREAK_IDS_NAME_THE_GPU && ids)
			node->grant[pod][c].gpus = node->grant[pod][c].sees = gpus_of_ids(ids);
	}
}

/* In the size that ration.dev/held tells, or else that of the record. */
static void add_orphan(struct sim *sim, int n, int i, struct held *held)
{
	const struct pod *p = &sim->pods[i];
	struct held_pod *pod;
	int r = held_add_pod(held, p->uid_text, "default", p->name_text, &pod);

	for_each_bit (k, p->gpus)
		if (r == 0)
			r = held_pod_add_gpu(pod, sim->nodes[n].facts.gpus[k].uuid,
				request_units_per_gpu(orphan_request(sim, n, i)), p->facts.request.core);
	if (r < 0)
		sim->truncated = "out of memory";
}

/* room_look() */
static bool has_room(struct sim *sim, int n, const struct node_pod *pod)
{
	struct node *node = &sim->nodes[n];
	const struct agent *agent = &node->agent;
	_cleanup_held_ struct held held = {.names_ended = false};
	const struct pod_facts *others[PODS_MAX];
	struct gpu_facts gpus[GPUS_MAX];
	struct error err = {""};
	bool behind = !pod->watched;
	size_t n_others = 0;
	struct room room;

	if (sim->broken == BREAK_IGNORE_ORPHANS)
		return true;
	for_each_bit (i, agent_orphans(sim, n)) {
		const struct node_pod *known = node_pods_by_uid(&agent->pods, sim->pods[i].uid_text);

		if (!known || known->facts.finished)
			add_orphan(sim, n, i, &held);
	}
	for (int i = 0; i < sim->n_pods; i++) {
		const struct node_pod *other = node_pods_by_uid(&agent->pods, sim->pods[i].uid_text);

		if (!other || other == pod || !other->facts.has_placement || other->facts.finished ||
			(!runs(sim, other) && !served_has_started(&agent->served, other->facts.uid)))
			continue;
		others[n_others++] = &other->facts;
		behind |= !other->watched;
	}
	for (size_t i = 0; i < node->facts.n_gpus; i++)
		gpus[i] = agent->inventory.gpus[i].facts;
	room = (struct room){gpus, node->facts.n_gpus, node->facts.unit_mib, &held, others, n_others,
		.behind = behind,
		.first = sim->broken != BREAK_NO_TOTAL_CHECK && !runs(sim, pod) &&
			 !served_has_started(&agent->served, pod->facts.uid)};
	if (room_check(&room, &pod->facts, &err) == 0)
		return true;
	count(sim, COUNT_WAITS);
	say(sim, "agent n%d: %s", n, err.text);
	return false;
}

static void serve(struct sim *sim, int n, const struct matching_pod *who, const struct matching *found)
{
	struct node *node = &sim->nodes[n];
	struct call *call = &node->kubelet.call;
	int c = found->container->name[1] - '0';
	uint8_t gpus = found->placed ? api_gpus_of(sim, n, &who->facts->placement, c) : 0;
	char *texts[64], name[ANSWERED_NAME_SIZE], own[ANSWERED_NAME_SIZE];
	int pod = atoi(who->facts->uid + 1);

	if (found->alone)
		turn_took(&node->agent.turn, who->name);
	if (call->kind == CALL_PREFERRED) {
		answer(sim, n, true, choose_ids(call, gpus), -1, REASON_MAX);
		return;
	}
	answered_new_name(&node->agent.served, who->facts->uid, found->container->name, name);
	if (gpus) {
		if (has_room(sim, n, node_pods_by_uid(&node->agent.pods, who->facts->uid)))
			grant(sim, n, who->facts, call->ids);
		node->records |= BIT(pod);
		if (gpus_of_ids(call->ids) & ~gpus)
			count(sim, COUNT_IDS_OF_OTHER_GPUS);
	}
	if (found->anew)
		served_remove_pod(&node->agent.served, who->facts->uid);
	if (served_add(&node->agent.served, who->facts->uid, found->container->name, texts,
		    id_texts(call->ids, texts)) < 0)
		sim->truncated = "out of memory";
	if (strcmp(name, answered_own_name(who->facts->uid, found->container->name, own)) != 0)
		served_set_answer(&node->agent.served, who->facts->uid, found->container->name, name, NULL);
	served_set_waits(&node->agent.served, who->facts->uid, found->container->name, true);
	say(sim, "agent n%d: Allocate of %u ids is %s %s, cards %#x", n, call->n_ids, who->facts->uid,
		found->container->name, gpus);
	answer(sim, n, true, call->ids, answers_cdi(name), REASON_MAX);
	list_again_if_sick(sim, n);
}

static void refuse(struct sim *sim, int n, const struct error *err)
{
	struct call *call = &sim->nodes[n].kubelet.call;
	enum reason reason = REASON_NOT_CLEAR;

	if (call->kind == CALL_PREFERRED) {
		answer(sim, n, true, choose_ids(call, 0), -1, REASON_MAX);
		return;
	}
	if (strstr(err->text, "its pods would hold"))
		reason = REASON_OVER_TOTAL;
	else if (call->api_away)
		reason = REASON_API_AWAY;
	say(sim, "agent n%d refuses Allocate: %s", n, err->text);
	list_turn(sim, n, TURN_NS);
	answer(sim, n, false, 0, -1, reason);
}

static void ask(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct call *call = &node->kubelet.call;

	for_each_bit (i, call->ask) {
		call->pending++;
		count(sim, COUNT_ASKED);
		sim_after(sim, api_is_away_from(sim, n) ? 500 * MS : agent_takes(sim, n, 1500, 300000),
			EVENT_CALL_ASKED, node->agent.epoch, n, i, (int)(call->serial & 0x7fff));
	}
}

static void decide(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct call *call = &node->kubelet.call;
	struct matching_pod input[PODS_MAX];
	struct gpu_facts gpus[GPUS_MAX];
	enum matching_verdict verdict;
	struct matching found = {0};
	struct error err = {""};
	bool ask_flags[PODS_MAX];
	int pods[PODS_MAX];
	size_t count = 0;

	if (sim->broken == BREAK_OLDEST_OF_EQUAL_SIZE || sim->broken == BREAK_OLDEST_UNCHECKED) {
		count = fill_from_watch(sim, n, input);
		if (peers_match(sim, n, call->n_ids, input, count, &found) == MATCHING_FOUND) {
			serve(sim, n, &input[found.pod], &found);
			return;
		}
	}
	count = fill(sim, n, input, pods);

	for (size_t i = 0; i < node->facts.n_gpus; i++)
		gpus[i] = node->agent.inventory.gpus[i].facts;
	if (sim->broken == BREAK_NEVER_ASK)
		for (size_t i = 0; i < count; i++)
			input[i].fresh = input[i].facts;
	if (sim->broken == BREAK_NO_TOTAL_CHECK)
		verdict = matching_decide(
			input, count, call->n_ids, &node->agent.served, ask_flags, &found, &err);
	else
		verdict = matching_answer(input, count, call->n_ids, &node->agent.served, gpus,
			node->facts.n_gpus, node->facts.unit_mib, ask_flags, &found, &err);
	if (verdict == MATCHING_ASK) {
		call->ask = 0;
		for (size_t i = 0; i < count; i++)
			call->ask |= ask_flags[i] ? BIT(pods[i]) : 0;
		ask(sim, n);
	} else if (verdict == MATCHING_FOUND) {
		serve(sim, n, &input[found.pod], &found);
	} else if (!call->asked_runtime) {
		sim_after(sim, agent_takes(sim, n, 2000, 200000), EVENT_CALL_RUNTIME, node->agent.epoch, n, 0,
			(int)(call->serial & 0x7fff));
	} else {
		refuse(sim, n, &err);
	}
}

static void runtime_was_asked(struct sim *sim, int n)
{
	struct call *call = &sim->nodes[n].kubelet.call;

	call->asked_runtime = true;
	for (int i = 0; i < sim->n_pods; i++)
		for (int c = 0; sim->pods[i].state.node == n && c < CONTAINERS_MAX; c++)
			if (sim->pods[i].containers[c].state == C_RUNNING)
				call->runs_now[c] |= BIT(i);
	decide(sim, n);
}

static bool is_call(struct sim *sim, const struct event *event)
{
	struct node *node = &sim->nodes[event->a];

	return node->agent.alive && node->kubelet.alive && event->epoch == node->agent.epoch &&
	       node->kubelet.call.busy && (int)(node->kubelet.call.serial & 0x7fff) == event->c;
}

static void follow_turn(struct sim *sim, int n, uint64_t listed)
{
	const char *names[PODS_MAX];
	size_t n_names = 0;

	for_each_bit (i, listed)
		names[n_names++] = sim->pods[i].name_text;
	turn_follow(&sim->nodes[n].agent.turn, names, n_names);
}

static void turn_listed(struct sim *sim, int n)
{
	uint64_t listed, shows;

	if (!sim->nodes[n].kubelet.alive)
		return; /* the next one is listed when it has started */
	kubelet_list(sim, n, &listed, &shows);
	follow_turn(sim, n, listed);
}

static void call_arrives(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct call *call = &node->kubelet.call;

	call->fresh = call->gone = call->ask = call->unanswered = 0;
	call->pending = 0;
	call->api_away = call->asked_runtime = false;
	memset(call->runs_now, 0, sizeof(call->runs_now));
	kubelet_list(sim, n, &call->listed, &call->shows);
	follow_turn(sim, n, call->listed);
	sim_after(sim, agent_takes(sim, n, 500, 20000), EVENT_CALL_LISTED, node->agent.epoch, n, 0,
		(int)(call->serial & 0x7fff));
}

static void asked(struct sim *sim, int n, int pod)
{
	struct node *node = &sim->nodes[n];
	struct call *call = &node->kubelet.call;
	int found = api_pod_by_name(sim, sim->pods[pod].name);
	struct node_pod *cached;

	call->fresh |= BIT(pod);
	if (api_is_away_from(sim, n)) {
		call->api_away = true;
		call->unanswered |= BIT(pod);
	} else if (found >= 0 && sim->pods[found].state.node == n) {
		cached = cache(sim, n, found, &sim->pods[found].state);
		size_follow(sim, n);
		if (cached)
			node_pods_asked(&node->agent.pods, cached, sim->now_ns);
		sim_after(sim, 11 * NS_PER_S, EVENT_STRAYS, node->agent.epoch, n, 0, 0);
	} else {
		call->gone |= BIT(pod);
	}
	if (--call->pending == 0)
		decide(sim, n);
}

static bool prestart_entry(struct sim *sim, int n, const struct served_entry *entry, uint64_t ids)
{
	struct node *node = &sim->nodes[n];
	const struct node_pod *pod = node_pods_by_uid(&node->agent.pods, entry->uid);
	int i = atoi(entry->uid + 1);

	if (!pod) {
		if (node->grants & BIT(i))
			served_set_waits(&node->agent.served, entry->uid, entry->container, false);
		return node->grants & BIT(i);
	}
	if (!pod->facts.has_placement || !gpus_of(sim, n, &pod->facts))
		return false;
	if (!has_room(sim, n, pod)) {
		if (!served_has_started(&node->agent.served, entry->uid))
			node->grants &= ~BIT(i);
		return false;
	}
	served_set_waits(&node->agent.served, entry->uid, entry->container, false);
	/* A size that its GPU has not is not given by another start either. */
	if (node->grants & BIT(i))
		size_follow_pod(sim, n, pod);
	else
		sim->pods[i].limit_size = (uint8_t)pod->facts.placement.resizes;
	grant(sim, n, &pod->facts, sim->broken == BREAK_IDS_NAME_THE_GPU ? ids : 0);
	node->records |= BIT(i); /* leftovers_record() */
	if (!(node->agent.assigned & BIT(i)))
		sim_after(sim, sim_delay(&node->random, 2000, 100000), EVENT_ASSIGN, 0, i, 0, 0);
	node->agent.assigned |= BIT(i);
	return true;
}

bool agent_prestart(struct sim *sim, int n, uint64_t ids)
{
	struct node *node = &sim->nodes[n];
	char *texts[64];
	size_t n_ids = id_texts(ids, texts);
	const struct served_entry *entry;
	bool ok = false;

	if (sim->broken != BREAK_FORGET_CHECKPOINT && answers_are_checked(sim) &&
		!answers_check(sim, n, texts, n_ids))
		return false;
	entry = served_find_ids(&node->agent.served, NULL, texts, n_ids);
	for (; entry; entry = served_find_ids(&node->agent.served, entry, texts, n_ids))
		ok |= prestart_entry(sim, n, entry, ids);
	return ok;
}

/* With names, not uids, as orphans.c does. */
static bool is_listed(const struct sim *sim, uint64_t listed, int pod)
{
	for_each_bit (i, listed)
		if (sim->pods[i].name == sim->pods[pod].name)
			return true;
	return false;
}

static void remove_orphans(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	uint64_t listed, shows;

	sim_after(sim, ORPHANS_NS, EVENT_ORPHANS, node->agent.epoch, n, 0, 0);
	if (!node->agent.synced || !node->kubelet.alive)
		return;
	if (sim->watchers[agent_watcher(n)].connected)
		forget_gone(sim, n);
	kubelet_list(sim, n, &listed, &shows);
	for_each_bit (i, node->grants) {
		const struct node_pod *pod = node_pods_by_uid(&node->agent.pods, sim->pods[i].uid_text);

		if ((!pod && !api_pod_lives(&sim->pods[i])) ||
			(pod && pod->facts.finished && !is_listed(sim, listed, i)))
			node->grants &= ~BIT(i);
	}
}

/* The answer takes no time here: it only ever removes, and only what the watch has not shown since. */
static void look_for_strays(struct sim *sim, int n)
{
	struct agent *agent = &sim->nodes[n].agent;
	struct node_pod *pod = node_pods_stray(&agent->pods, sim->now_ns);
	const struct state *state = pod ? &sim->pods[atoi(pod->facts.uid + 1)].state : NULL;

	if (!pod)
		return;
	sim_after(sim, NS_PER_S, EVENT_STRAYS, agent->epoch, n, 0, 0);
	if (!sim->watchers[agent_watcher(n)].connected || api_is_away_from(sim, n))
		return;
	if (state->exists && state->node == n) {
		pod->asked_ns = sim->now_ns;
		return;
	}
	if (pod->facts.has_placement)
		leftover_add(sim, n, atoi(pod->facts.uid + 1));
	served_remove_pod(&agent->served, pod->facts.uid);
	node_pods_remove(&agent->pods, pod->facts.uid);
}

void agent_on_event(struct sim *sim, const struct event *event)
{
	struct node *node = &sim->nodes[event->a];

	switch (event->kind) {
	case EVENT_REGISTER:
		if (event->epoch != node->agent.epoch || !node->agent.alive || !node->kubelet.alive)
			break;
		node->agent.registered = true;
		agent_list_devices(sim, event->a);
		break;
	case EVENT_RUNTIME:
		if (event->epoch == node->agent.epoch && node->agent.alive)
			runtime_answers(sim, event->a);
		break;
	case EVENT_HELD:
		if (event->epoch == node->agent.epoch && node->agent.alive)
			held_written(sim, event->a);
		break;
	case EVENT_SIZES:
		if (event->epoch == node->agent.epoch && node->agent.alive)
			size_follow(sim, event->a);
		break;
	case EVENT_REPORT:
		if (event->epoch == node->agent.epoch && node->agent.alive)
			report(sim, event->a);
		break;
	case EVENT_STRAYS:
		if (event->epoch == node->agent.epoch && node->agent.alive)
			look_for_strays(sim, event->a);
		break;
	case EVENT_TURN:
		if (event->epoch == node->agent.epoch && node->agent.alive)
			turn_listed(sim, event->a);
		break;
	case EVENT_ORPHANS:
		if (event->epoch == node->agent.epoch && node->agent.alive)
			remove_orphans(sim, event->a);
		break;
	case EVENT_CALL:
		if (is_call(sim, event))
			call_arrives(sim, event->a);
		break;
	case EVENT_CALL_LISTED:
		if (is_call(sim, event))
			decide(sim, event->a);
		break;
	case EVENT_CALL_ASKED:
		if (is_call(sim, event))
			asked(sim, event->a, event->b);
		break;
	case EVENT_CALL_RUNTIME:
		if (is_call(sim, event))
			runtime_was_asked(sim, event->a);
		break;
	default:
		break;
	}
}
