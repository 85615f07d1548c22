#include "sim.h"

#include <string.h>

#define TICK_NS NS_PER_S

/* Units differ by little, so that the simulation's GPUs have as many of either; who counts in which is what
 * matters. Never 0 of a pod's. */
static uint32_t terms_unit(bool other)
{
	return UNIT_MIB + other;
}

bool terms_whole(const struct sim *sim, int n)
{
	return sim->nodes[n].facts.mode == GPU_MODE_TOPOLOGY;
}

uint32_t terms_gpu_units(const struct sim *sim, int n, int gpu)
{
	return terms_whole(sim, n) ? 1 : sim->plan->gpu_units[n][gpu];
}

/* A node that gives memory is of the same mode each time; which one, terms.c does not care. */
static enum gpu_mode terms_mode(bool whole)
{
	return whole ? GPU_MODE_TOPOLOGY : GPU_MODE_SHARE;
}

void terms_set(const struct sim *sim, int n, struct node_facts *facts, bool whole, bool other)
{
	facts->mode = whole			    ? GPU_MODE_TOPOLOGY
		      : sim->plan->core_mem[n]	    ? GPU_MODE_CORE_MEM
		      : sim->plan->instances_max[n] ? GPU_MODE_CGPU
						    : GPU_MODE_SHARE;
	facts->mixing = !whole && sim->plan->mixing[n];
	facts->instances_max = whole ? 0 : sim->plan->instances_max[n];
	facts->unit_mib = terms_unit(other);
	for (size_t k = 0; k < facts->n_gpus; k++)
		facts->gpus[k].mib = sim->plan->gpu_units[n][k] * (uint64_t)facts->unit_mib;
}

static size_t count_holders(const struct agent *agent)
{
	size_t n = (size_t)__builtin_popcountll(agent->leftovers & ~agent->ended);
	void *value;

	table_for_each (&agent->pods.by_uid, cursor, value) {
		const struct pod_facts *facts = &((struct node_pod *)value)->facts;

		n += !request_is_empty(&facts->request) && !facts->finished;
	}
	return n;
}

/* Who has whole GPUs does not count in units. */
static bool is_of_others(const struct sim *sim, int pod, int n)
{
	const struct pod *p = &sim->pods[pod];

	return p->placement.n_containers &&
	       (p->shape.whole != terms_whole(sim, n) ||
		       (!p->shape.whole && p->placement.unit_mib != sim->nodes[n].facts.unit_mib));
}

/* Of a pod that the kubelet has rejected, or that nobody could know of, containers may live a little longer.
 */
static bool counts_in_another(const struct sim *sim, int pod, int n)
{
	const struct pod *p = &sim->pods[pod];

	return p->state.node == n && p->state.phase < PHASE_SUCCEEDED && !p->rejected && !p->unseen &&
	       api_pod_lives(p) && is_of_others(sim, pod, n);
}

static void change(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	bool other = node->change.in_force.unit_mib != UNIT_MIB;
	bool whole = node->change.in_force.mode == GPU_MODE_TOPOLOGY, was_whole = terms_whole(sim, n);

	count(sim, whole == was_whole ? COUNT_CHANGES : COUNT_MODES);
	say(sim, "agent n%d: gpu-mem counts in the %s unit%s", n, other ? "other" : "first",
		whole ? ", but whole cards are given" : "");
	terms_set(sim, n, &node->facts, whole, other);
	agent_list_devices(sim, n);
	if (was_whole != whole)
		ks_node_changed(sim);
	for (int i = 0; i < sim->n_pods; i++)
		if (counts_in_another(sim, i, n))
			sim_violate(
				sim, "unit", "n%d changed its unit under u%d, whose containers live", n, i);
}

static void tick(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct terms_seen seen = {.asked = {terms_mode(node->asked_whole), terms_unit(node->asked_other)},
		.closed = node->state.closed,
		.following = sim->watchers[agent_watcher(n)].connected && !api_is_away_from(sim, n),
		.now_ns = sim->now_ns};
	enum terms_state state;
	bool closed, other, whole;

	sim_after(sim, TICK_NS, EVENT_TERMS, node->agent.epoch, n, 0, 0);
	if (!node->agent.synced)
		return;
	seen.holders = sim->broken == BREAK_CHANGE_UNDER_PODS ? 0 : count_holders(&node->agent);
	if (sim->broken == BREAK_CHANGE_AT_ONCE) {
		seen.closed = true;
		node->change.closed_since_ns = seen.now_ns - TERMS_CLOSED_NS;
	}
	state = terms_settle(&node->change, &seen);
	if (state == TERMS_CHANGED || node->facts.unit_mib != node->change.in_force.unit_mib)
		change(sim, n);
	closed = state == TERMS_CLOSED || state == TERMS_HELD;
	other = node->change.in_force.unit_mib != UNIT_MIB;
	whole = node->change.in_force.mode == GPU_MODE_TOPOLOGY;
	if (closed != node->state.closed || other != node->state.other_unit || whole != node->state.whole)
		sim_after(sim, sim_delay(&node->random, 2000, 50000), EVENT_TERMS_WRITTEN, 0, n, closed,
			other | whole << 1);
}

void terms_input(struct sim *sim, const struct input *input)
{
	if (input->a >= sim->n_nodes)
		return;
	if (input->kind == INPUT_UNIT)
		sim->nodes[input->a].asked_other ^= true;
	else
		sim->nodes[input->a].asked_whole ^= true;
}

void terms_start(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];

	/* The state file, or after a reboot the node's annotations. */
	node->change.in_force = (struct terms){terms_mode(terms_whole(sim, n)), node->facts.unit_mib};
	node->change.closed_since_ns = 0;
	if (node->asked_other || node->facts.unit_mib != UNIT_MIB || sim->plan->changes)
		sim_after(sim, TICK_NS, EVENT_TERMS, node->agent.epoch, n, 0, 0);
}

void terms_on_event(struct sim *sim, const struct event *event)
{
	struct node *node = &sim->nodes[event->a];

	if (event->kind == EVENT_TERMS) {
		if (event->epoch == node->agent.epoch && node->agent.alive)
			tick(sim, event->a);
		return;
	}
	if (api_is_away_from(sim, event->a))
		return; /* the next tick writes it again */
	node->state.closed = event->b;
	node->state.other_unit = event->c & 1;
	node->state.whole = event->c >> 1;
	api_set_node(sim, event->a);
}

void terms_bound(struct sim *sim, int pod, int n)
{
	struct node *node = &sim->nodes[n];

	if (!is_of_others(sim, pod, n))
		return;
	/* Whoever gave it its GPU took it for lost long ago. */
	node->loose = true;
	if (sim->now_ns > sim->disturbed_until_ns)
		sim_violate(sim, "unit", "u%d was bound to n%d in a unit in which the node does not count",
			pod, n);
}
