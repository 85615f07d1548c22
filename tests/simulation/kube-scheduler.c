/* kube-scheduler 1.36: one pod at a time through filter, binding beside it, back-off, wake-up by events. Two
 * of them when there are two pairs; the one that leads acts. */
#include <string.h>

#include "sim.h"

#define HTTP_TIMEOUT_NS (10 * NS_PER_S)
#define BACKOFF_NS NS_PER_S /* podMaxBackoffSeconds: 1 */
/* podMaxInUnschedulablePodsDuration, and how often flushUnschedulablePodsLeftover runs (1.36) */
#define PARKED_MAX_NS (300 * NS_PER_S)
#define FLUSH_EVERY_NS (30 * NS_PER_S)

static void cycle_soon(struct sim *sim, int pair)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	if (ks->alive && ks->leads && ks->cycle < 0)
		sim_after(sim, 200000, EVENT_CYCLE, ks->epoch, pair, 0, 0);
}

static void activate(struct sim *sim, int pair, int pod)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	ks->place[pod] = PLACE_ACTIVE;
	ks->order[pod] = ks->next_order++;
	cycle_soon(sim, pair);
}

static void back_off(struct sim *sim, int pair, int pod, bool error)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	ks->place[pod] = PLACE_BACKOFF;
	ks->error_backoff[pod] = error;
	ks->order[pod] = ks->next_order++;
	sim_after(
		sim, BACKOFF_NS, EVENT_BACKOFF_OVER, ks->epoch, pair, pod, (int)(ks->attempt[pod] & 0x7fff));
	cycle_soon(sim, pair);
}

static void park(struct sim *sim, int pair, int pod)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	if (ks->moved[pod])
		back_off(sim, pair, pod, false);
	else
		ks->place[pod] = PLACE_UNSCHEDULABLE;
	ks->parked_ns[pod] = sim->now_ns;
}

/* A pod that no event has moved is tried again all the same. The core counts on it: a gang that
 * kube-scheduler has not asked for in ten minutes is another scheduler's. */
static void flush_leftovers(struct sim *sim, int pair)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	for (int i = 0; i < sim->n_pods; i++)
		if (ks->place[i] == PLACE_UNSCHEDULABLE && sim->now_ns - ks->parked_ns[i] > PARKED_MAX_NS)
			activate(sim, pair, i);
	sim_after(sim, FLUSH_EVERY_NS, EVENT_LEFTOVERS, ks->epoch, pair, 0, 0);
}

/* Something was freed, or the pod itself was touched. */
static void move(struct sim *sim, int pair, int pod)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	ks->moved[pod] = true;
	if (ks->place[pod] == PLACE_UNSCHEDULABLE)
		back_off(sim, pair, pod, false);
}

/* NodeResourcesFit asks to be told of nodes whose allocatable has changed. */
void ks_node_changed(struct sim *sim)
{
	for (int pair = 0; pair < sim->n_pairs; pair++)
		for_each_bit (pod, sim->kube_schedulers[pair].alive ? sim->kube_schedulers[pair].known : 0)
			move(sim, pair, pod);
}

static void take_lead(struct sim *sim, int pair)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	ks->leads = true;
	sim->term++;
	say(sim, "kube-scheduler %d leads", pair);
	for_each_bit (pod, ks->known)
		if (ks->seen[pod].node < 0 && !ks->seen[pod].deleting)
			activate(sim, pair, pod);
}

/* The lease is released on exit (ReleaseOnCancel), or runs out. */
static void look_for_lead(struct sim *sim)
{
	for (int i = 0; i < sim->n_pairs; i++)
		if (sim->kube_schedulers[i].leads)
			return;
	for (int i = 0; i < sim->n_pairs; i++)
		if (sim->kube_schedulers[i].alive)
			sim_after(sim, sim_delay(&sim->random, 300000, 15000000), EVENT_LEAD,
				sim->kube_schedulers[i].epoch, i, 0, 0);
}

void ks_start(struct sim *sim, int pair)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];
	uint32_t epoch = ks->epoch + 1;

	if (pair >= sim->n_pairs || ks->alive)
		return;
	*ks = (struct kube_scheduler){.alive = true, .epoch = epoch, .cycle = -1};
	memset(ks->assumed, -1, sizeof(ks->assumed));
	watch_cut(sim, pair_watcher(pair, W_KUBE_SCHEDULER), 0);
	sim_after(sim, FLUSH_EVERY_NS, EVENT_LEFTOVERS, epoch, pair, 0, 0);
	look_for_lead(sim);
}

void ks_kill(struct sim *sim, int pair)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	if (!ks->alive)
		return;
	ks->alive = ks->leads = false;
	ks->epoch++;
	sim->rations[pair].waiting_binds = 0; /* its connections are closed */
	watch_stop(sim, pair_watcher(pair, W_KUBE_SCHEDULER));
	look_for_lead(sim);
}

static void forget(struct kube_scheduler *ks, int pod)
{
	/* A binding goes on to its end, which is an error if the pod is gone. */
	if (ks->cycle == pod || (ks->place[pod] == PLACE_BINDING && ks->seen[pod].node < 0))
		return;
	ks->place[pod] = PLACE_NONE;
	ks->assumed[pod] = -1;
	ks->attempt[pod]++;
}

void ks_see(struct sim *sim, int pair, int pod, const struct state *state, bool deleted)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];
	struct state old = ks->seen[pod];
	bool was_known = ks->known & BIT(pod);
	bool freed = deleted || (was_known && state->phase >= PHASE_SUCCEEDED && old.phase < PHASE_SUCCEEDED);

	ks->seen[pod] = *state;
	ks->known = deleted ? ks->known & ~BIT(pod) : ks->known | BIT(pod);
	/* After a gap the last state is not known, and kube-scheduler takes the pod for an assigned one
	 * (DeletedFinalStateUnknown, eventhandlers.go; 1.36). */
	if (freed && (old.node >= 0 || sim->from_list))
		for (int i = 0; i < sim->n_pods; i++)
			move(sim, pair, i);
	if (deleted || state->node >= 0 || state->deleting)
		forget(ks, pod);
	else if (!was_known)
		activate(sim, pair, pod);
	else if (old.requeue != state->requeue || old.verdict != state->verdict || old.gang != state->gang)
		move(sim, pair, pod);
}

/* What pods ask for, of what kube-scheduler knows: sums of nodes. */
struct unit_sum {
	uint32_t units, core, whole;
};

static struct unit_sum requested(const struct sim *sim, const struct kube_scheduler *ks, int node)
{
	struct unit_sum sum = {0};

	for (int i = 0; i < sim->n_pods; i++) {
		bool bound = (ks->known & BIT(i)) && ks->seen[i].node == node &&
			     ks->seen[i].phase < PHASE_SUCCEEDED;

		if (!bound && ks->assumed[i] != node)
			continue;
		*(sim->pods[i].shape.whole ? &sum.whole : &sum.units) += sim->pods[i].facts.request.units;
		sum.core += sim->pods[i].facts.request.core;
	}
	return sum;
}

static struct unit_sum allocatable(const struct sim *sim, int node)
{
	struct unit_sum sum = {
		.core = sim->plan->core_mem[node] ? sim->plan->n_gpus[node] * CORE_PER_GPU : 0};

	if (terms_whole(sim, node))
		return (struct unit_sum){.whole = sim->plan->n_gpus[node]};
	for (int k = 0; k < sim->plan->n_gpus[node]; k++)
		sum.units += sim->plan->gpu_units[node][k];
	return sum;
}

/* NodeResourcesFit: what a pod does not ask for is not looked at. */
static bool sums_fit(
	const struct sim *sim, const struct kube_scheduler *ks, int node, const struct request *request)
{
	struct unit_sum used = requested(sim, ks, node), has = allocatable(sim, node);

	if (request->whole)
		return used.whole + request->units <= has.whole;
	return used.units + request->units <= has.units &&
	       (!request->core || used.core + request->core <= has.core);
}

static bool is_before(const struct sim *sim, const struct kube_scheduler *ks, int a, int b)
{
	int32_t priority_a = sim->pods[a].facts.priority, priority_b = sim->pods[b].facts.priority;

	return priority_a != priority_b ? priority_a > priority_b : ks->order[a] < ks->order[b];
}

static int next_pod(const struct sim *sim, const struct kube_scheduler *ks, enum place place)
{
	int best = -1;

	for (int i = 0; i < sim->n_pods; i++)
		if (ks->place[i] == place && (place == PLACE_ACTIVE || !ks->error_backoff[i]) &&
			(best < 0 || is_before(sim, ks, i, best)))
			best = i;
	return best;
}

/* Its own status patch: only if the condition says something else than before. */
static void verdict(struct sim *sim, int pair, int pod, uint8_t text)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	if (ks->told[pod] == text)
		return;
	ks->told[pod] = text;
	sim_after(sim, sim_delay(&sim->pods[pod].random, 1500, 50000), EVENT_VERDICT, 0, pod, 0, 0);
}

/* The pod fits on no node, and its preemption finds no pods that could go: the nomination ends, unless a pod
 * of lower priority is about to leave that node (PodEligibleToPreemptOthers, 1.36). */
static void preempts_nobody(struct sim *sim, int pair, int pod, bool resolvable)
{
	const struct kube_scheduler *ks = &sim->kube_schedulers[pair];
	int node = ks->seen[pod].nominated - 1;

	if (node < 0)
		return;
	for_each_bit (i, resolvable ? ks->known : 0)
		if (ks->seen[i].deleting && ks->seen[i].node == node &&
			sim->pods[i].facts.priority < sim->pods[pod].facts.priority)
			return;
	sim_after(
		sim, sim_delay(&sim->pods[pod].random, 1500, 50000), EVENT_NOMINATION_ENDS, 0, pair, pod, 0);
}

static void cycle_ends(struct sim *sim, int pair, int pod)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	ks->cycle = -1;
	if (!(ks->known & BIT(pod)) || ks->seen[pod].node >= 0 || ks->seen[pod].deleting)
		forget(ks, pod);
	cycle_soon(sim, pair);
}

static void cycle(struct sim *sim, int pair)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];
	int pod = ks->cycle < 0 && ks->leads ? next_pod(sim, ks, PLACE_ACTIVE) : -1;
	int names = 0;

	/* An idle scheduler does not wait for a back-off to end (SchedulerPopFromBackoffQ, 1.33). */
	if (pod < 0 && ks->cycle < 0 && ks->leads)
		pod = next_pod(sim, ks, PLACE_BACKOFF);
	if (pod < 0)
		return;
	ks->cycle = (int8_t)pod;
	ks->place[pod] = PLACE_CYCLE;
	ks->attempt[pod]++;
	ks->moved[pod] = false;
	for (int n = 0; n < sim->n_nodes; n++)
		if (sums_fit(sim, ks, n, &sim->pods[pod].facts.request))
			names |= 1 << n;
	if (!names) {
		preempts_nobody(sim, pair, pod, true);
		verdict(sim, pair, pod, 1);
		park(sim, pair, pod);
		cycle_ends(sim, pair, pod);
		return;
	}
	sim_after(sim, sim_delay(&sim->pods[pod].random, 200, 30000), EVENT_FILTER, ks->epoch, pair, pod,
		names);
}

/* nodes: best first, four bits each, 15 ends it; -1: an error. */
static void filtered(struct sim *sim, int pair, int pod, int nodes)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];
	struct random *random = &sim->pods[pod].random;
	int64_t prebind_ns = sim->pods[pod].prebound ? 0 : sim->pods[pod].shape.prebind_ms * MS;
	int node = nodes & 15;

	if (nodes < 0) {
		back_off(sim, pair, pod, true);
	} else if (node == 15) {
		preempts_nobody(sim, pair, pod, nodes == FILTER_WAITS);
		verdict(sim, pair, pod, 2);
		park(sim, pair, pod);
	} else {
		/* Mostly our order decides, not always. */
		if (((nodes >> 4) & 15) != 15 && random_one_in(random, 8))
			node = (nodes >> 4) & 15;
		ks->assumed[pod] = (int8_t)node;
		ks->place[pod] = PLACE_BINDING;
		ks->cycle = -1;
		sim_after(sim, prebind_ns + sim_delay(random, 300, 40000), EVENT_PREBIND, ks->epoch, pair,
			pod, (int)(ks->attempt[pod] & 0x7fff));
	}
	cycle_ends(sim, pair, pod);
}

static bool is_current(const struct kube_scheduler *ks, int pod, int attempt)
{
	return ks->place[pod] == PLACE_BINDING && (int)(ks->attempt[pod] & 0x7fff) == attempt;
}

static void bind(struct sim *sim, int pair, int pod, int attempt)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	if (!is_current(ks, pod, attempt))
		return;
	sim->pods[pod].prebound = pod_gang(sim, pod) != 0;
	sim->rations[pair].waiting_binds |= BIT(pod);
	sim_after(sim, sim_delay(&sim->pods[pod].random, 200, 5000), EVENT_BIND, ks->epoch, pair, pod,
		ks->assumed[pod]);
	sim_after(sim, HTTP_TIMEOUT_NS, EVENT_BIND_TIMEOUT, ks->epoch, pair, pod, attempt);
}

static void bind_ends(struct sim *sim, int pair, int pod, bool ok)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	sim->rations[pair].waiting_binds &= ~BIT(pod);
	if (ks->place[pod] != PLACE_BINDING)
		return;
	if (ok) {
		ks->place[pod] = PLACE_NONE; /* assumed until the watch shows it */
		return;
	}
	count(sim, COUNT_BIND_FAILED);
	ks->assumed[pod] = -1;
	if ((ks->known & BIT(pod)) && ks->seen[pod].node < 0 && !ks->seen[pod].deleting)
		back_off(sim, pair, pod, true);
	else
		ks->place[pod] = PLACE_NONE;
	for (int i = 0; i < sim->n_pods; i++) /* what it had assumed is free again */
		move(sim, pair, i);
}

void ks_on_event(struct sim *sim, const struct event *event)
{
	struct kube_scheduler *ks = &sim->kube_schedulers[event->a];

	if (event->epoch != ks->epoch || !ks->alive)
		return;
	switch (event->kind) {
	case EVENT_CYCLE:
		cycle(sim, event->a);
		break;
	case EVENT_BACKOFF_OVER:
		if (ks->place[event->b] == PLACE_BACKOFF && (int)(ks->attempt[event->b] & 0x7fff) == event->c)
			activate(sim, event->a, event->b);
		break;
	case EVENT_FILTERED:
		if (ks->cycle == event->b)
			filtered(sim, event->a, event->b, event->c);
		break;
	case EVENT_PREBIND:
		bind(sim, event->a, event->b, event->c);
		break;
	case EVENT_BOUND:
		bind_ends(sim, event->a, event->b, event->c);
		break;
	case EVENT_BIND_TIMEOUT:
		if (is_current(ks, event->b, event->c))
			bind_ends(sim, event->a, event->b, false);
		break;
	case EVENT_LEAD:
		for (int i = 0; i < sim->n_pairs; i++)
			if (sim->kube_schedulers[i].leads)
				return;
		take_lead(sim, event->a);
		break;
	case EVENT_LEFTOVERS:
		flush_leftovers(sim, event->a);
		break;
	default:
		break;
	}
}
