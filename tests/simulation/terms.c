#include "sim.h"

#include <string.h>

#define TICK_NS NS_PER_S

/* Units differ by little, so that the simulation's cards have as many of either; who counts in which is what
 * matters. Never 0 of a pod's. */
static uint32_t terms_unit(bool other)
{
	return UNIT_MIB + other;
}

void terms_set_unit(const struct sim *sim, int n, struct node_facts *facts, bool other)
{
	facts->unit_mib = terms_unit(other);
	for (size_t k = 0; k < facts->n_gpus; k++)
		facts->gpus[k].mib = sim->plan->card_units[n][k] * (uint64_t)facts->unit_mib;
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

/* Of a pod that the kubelet has rejected, or that nobody could know of, containers may live a little longer.
 */
static bool counts_in_another(const struct sim *sim, int pod, int n)
{
	const struct pod *p = &sim->pods[pod];

	return p->state.node == n && p->state.phase < PHASE_SUCCEEDED && !p->rejected && !p->unseen &&
	       api_pod_lives(p) && p->placement.n_containers &&
	       p->placement.unit_mib != sim->nodes[n].facts.unit_mib;
}

static void change(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	bool other = node->change.in_force.unit_mib != UNIT_MIB;

	count(sim, COUNT_CHANGES);
	say(sim, "agent n%d: gpu-mem counts in the %s unit", n, other ? "other" : "first");
	terms_set_unit(sim, n, &node->facts, other);
	agent_list_devices(sim, n);
	for (int i = 0; i < sim->n_pods; i++)
		if (counts_in_another(sim, i, n))
			sim_violate(
				sim, "unit", "n%d changed its unit under u%d, whose containers live", n, i);
}

static void tick(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];
	struct terms_seen seen = {.asked = {GPU_MODE_SHARE, terms_unit(node->asked_other)},
		.closed = node->state.closed,
		.following = sim->watchers[agent_watcher(n)].connected && !api_is_away(sim),
		.now_ns = sim->now_ns};
	enum terms_state state;
	bool closed, other;

	sim_after(sim, TICK_NS, EVENT_TERMS, node->agent.epoch, n, 0, 0);
	if (!node->agent.synced)
		return;
	seen.holders = sim->broken == BREAK_CHANGE_UNDER_PODS ? 0 : count_holders(&node->agent);
	if (sim->broken == BREAK_CHANGE_AT_ONCE) {
		seen.closed = true;
		node->change.closed_since_ns = seen.now_ns - TERMS_CLOSED_NS;
	}
	state = terms_settle(&node->change, &seen);
	if (state == TERMS_CHANGED)
		change(sim, n);
	closed = state == TERMS_CLOSED || state == TERMS_HELD;
	other = node->change.in_force.unit_mib != UNIT_MIB;
	if (closed != node->state.closed || other != node->state.other_unit)
		sim_after(
			sim, sim_delay(&node->random, 2000, 50000), EVENT_TERMS_WRITTEN, 0, n, closed, other);
}

void terms_input(struct sim *sim, const struct input *input)
{
	if (input->a < sim->n_nodes)
		sim->nodes[input->a].asked_other ^= true;
}

void terms_start(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];

	/* The state file, or after a reboot the node's annotations. */
	node->change.in_force = (struct terms){GPU_MODE_SHARE, node->facts.unit_mib};
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
	if (api_is_away(sim))
		return; /* the next tick writes it again */
	node->state.closed = event->b;
	node->state.other_unit = event->c;
	api_set_node(sim, event->a);
}

void terms_bound(struct sim *sim, int pod, int n)
{
	struct node *node = &sim->nodes[n];

	if (!sim->pods[pod].placement.n_containers ||
		sim->pods[pod].placement.unit_mib == node->facts.unit_mib)
		return;
	/* Whoever gave it its card took it for lost long ago. */
	node->loose = node->mixed_units = true;
	if (sim->now_ns > sim->disturbed_until_ns)
		sim_violate(sim, "unit", "u%d was bound to n%d in a unit in which the node does not count",
			pod, n);
}
