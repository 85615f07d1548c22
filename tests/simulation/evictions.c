/* Pods that are evicted for more important ones: what the scheduler's evict.c and the eviction API do around
 * the core that ships. kube-scheduler itself preempts nobody here: where the sum of a node is short, a pod
 * waits, whatever its priority. */
#include <errno.h>
#include <stdlib.h>

#include "sim.h"

#define REST_NS (10 * NS_PER_S) /* kube-scheduler asks again within this time after it was told to */

static int pod_of(const struct pod_facts *facts)
{
	return atoi(facts->uid + 1);
}

static void on_report(void *userdata, const struct eviction_report *report)
{
	struct ration *ration = userdata;
	struct sim *sim = ration->sim;
	int pod = pod_of(&report->attempt->pod);

	if (report->kind == EVICTION_SEARCHED && report->search != SEARCH_PLANNED)
		say(sim, "ration %d: %s for u%d", ration->pair, report->text, pod);
	if (report->kind == EVICTION_CHOSEN)
		say(sim, "ration %d: %zu pods are to go from %s for u%d", ration->pair,
			report->attempt->plan.n_victims, report->attempt->plan.gpu, pod);
	if (report->kind != EVICTION_ENDED)
		return;
	say(sim, "ration %d: the evictions for u%d end: %s", ration->pair, pod, report->text);
	if (report->end == ATTEMPT_BOUND)
		count(sim, COUNT_MADE_ROOM);
}

void evictions_start(struct ration *ration)
{
	ration->core.evictions.report = on_report;
	ration->core.evictions.userdata = ration;
}

/* The request leaves now, and this process may be dead when it arrives. c: the order, and whom it is about.
 */
static void send(struct sim *sim, int pair, const struct eviction_attempt *attempt)
{
	int pod = pod_of(&attempt->pod), about = 0;

	if (attempt->order == EVICTION_ORDER_EVICT || attempt->order == EVICTION_ORDER_MARK)
		about = pod_of(eviction_victim(attempt));
	else if (attempt->order == EVICTION_ORDER_NOMINATE)
		about = eviction_node(attempt)[1] - '0' + 1;
	sim_after(sim, sim_delay(&sim->pods[pod].random, 1000, 300000), EVENT_EVICTION,
		sim->rations[pair].epoch, pair, pod, (int)attempt->order << 8 | about);
}

/* An attempt that is under way, or about to be, is waited for. */
static void wait_for_attempts(struct sim *sim, const struct core *core)
{
	const struct eviction_attempt *attempt;

	table_for_each (&core->evictions.attempts, cursor, attempt)
		if (attempt->step != EVICTION_REST || sim->now_ns < attempt->due_ns + REST_NS)
			sim_goes_on(sim, 0);
}

void evictions_carry_out(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	const struct evictions *evictions = &ration->core.evictions;
	struct eviction_attempt *attempt;

	if (!sim->plan->priorities)
		return;
	while ((attempt = core_next_eviction_order(&ration->core)))
		send(sim, pair, attempt);
	if (evictions->due_ns == ration->evictions_ns)
		return;
	ration->evictions_ns = evictions->due_ns;
	wait_for_attempts(sim, &ration->core);
	if (evictions->due_ns)
		sim_after(sim, evictions->due_ns - sim->now_ns, EVENT_EVICTIONS, ration->epoch, pair, 0, 0);
}

/* ---- the API server ---- */

static enum eviction_outcome evict(struct sim *sim, int pod, int victim)
{
	uint32_t luck = random_below(&sim->pods[pod].random, 16);
	const struct pod *preemptor = &sim->pods[pod], *asked = &sim->pods[victim];

	if (asked->facts.priority >= preemptor->facts.priority)
		sim_violate(sim, "a pod is evicted for a more important one only",
			"u%d of priority %d for u%d of priority %d", victim, asked->facts.priority, pod,
			preemptor->facts.priority);
	if (api_is_away(sim) || luck == 0) {
		count(sim, COUNT_EVICTIONS_REFUSED);
		return eviction_outcome(-ETIMEDOUT, 0, false);
	}
	if (!asked->state.exists)
		return eviction_outcome(0, 404, false);
	if (luck == 1) {
		count(sim, COUNT_EVICTIONS_REFUSED);
		return eviction_outcome(0, 429, false);
	}
	count(sim, COUNT_EVICTIONS);
	say(sim, "u%d is evicted for u%d", victim, pod);
	api_delete(sim, victim, false);
	return luck == 2 ? eviction_outcome(-ETIMEDOUT, 0, false) : eviction_outcome(0, 201, true);
}

static bool nominate(struct sim *sim, int pod, int node)
{
	struct state state = sim->pods[pod].state;

	if (api_is_away(sim) || !state.exists)
		return false;
	if (node)
		count(sim, COUNT_NOMINATED);
	state.nominated = (uint8_t)node;
	api_set(sim, pod, &state);
	return true;
}

static void arrive(struct sim *sim, const struct event *event)
{
	enum eviction_order order = (enum eviction_order)(event->c >> 8);
	int pod = event->b, about = event->c & 255, answer = 0;

	if (order == EVICTION_ORDER_EVICT)
		answer = (int)evict(sim, pod, about);
	else if (order != EVICTION_ORDER_MARK)
		answer = nominate(sim, pod, about);
	sim_after(sim, sim_delay(&sim->pods[pod].random, 1000, 300000), EVENT_EVICTION_ANSWER, event->epoch,
		event->a, pod, (int)order << 8 | answer);
}

/* ---- ration-scheduler ---- */

static void answered(struct sim *sim, int pair, int pod, enum eviction_order order, int answer)
{
	struct core *core = ration_core(sim, pair);
	struct eviction_attempt *attempt = table_get(&core->evictions.attempts, sim->pods[pod].uid_text);

	if (!attempt || !attempt->busy || attempt->order != order) {
		sim_violate(sim, "an answer finds its attempt", "u%d", pod);
		return;
	}
	switch (order) {
	case EVICTION_ORDER_EVICT:
		core_eviction_answered(core, attempt, (enum eviction_outcome)answer, "", sim->now_ns);
		break;
	case EVICTION_ORDER_MARK:
		core_victim_is_marked(core, attempt);
		break;
	case EVICTION_ORDER_NOMINATE:
		core_nomination_answered(core, attempt, answer);
		break;
	case EVICTION_ORDER_CLEAR:
		core_nomination_is_cleared(core, attempt);
		break;
	}
	ration_carry_out(sim, pair);
}

void evictions_on_event(struct sim *sim, const struct event *event)
{
	struct ration *ration = &sim->rations[event->a];

	if (event->kind == EVENT_EVICTION) {
		arrive(sim, event);
		return;
	}
	if (event->kind == EVENT_NOMINATION_ENDS) {
		nominate(sim, event->b, 0);
		return;
	}
	if (event->epoch != ration->epoch || !ration->alive)
		return;
	if (event->kind == EVENT_EVICTION_ANSWER) {
		answered(sim, event->a, event->b, (enum eviction_order)(event->c >> 8), event->c & 255);
	} else if (ration->evictions_ns == sim->now_ns && sim->broken != BREAK_EVICT_NOBODY) {
		core_continue_evictions(ration_core(sim, event->a), sim->now_ns);
		ration_carry_out(sim, event->a);
	}
}

/* ---- in the end ---- */

/* Where kube-scheduler finds the node's sum sufficient, as it does not preempt there by itself. */
static bool sum_suffices(const struct sim *sim, const struct truth *truth, int node, int pod)
{
	const struct request *request = &sim->pods[pod].facts.request;
	uint32_t total = 0;

	for (int k = 0; k < sim->plan->n_gpus[node]; k++)
		total += terms_gpu_units(sim, node, k);
	return truth->all[node] + request->units <= total &&
	       (!request->core ||
		       truth->all_core[node] + request->core <= sim->plan->n_gpus[node] * CORE_PER_GPU);
}

/* What would be used if all pods of lower priority had gone. */
static void recount_without_lower(struct sim *sim, int pod, struct truth *ret)
{
	uint64_t gone = 0;

	for (int i = 0; i < sim->n_pods; i++)
		if (sim->pods[i].state.exists && sim->pods[i].state.node >= 0 &&
			sim->pods[i].facts.priority < sim->pods[pod].facts.priority) {
			sim->pods[i].state.exists = false;
			gone |= BIT(i);
		}
	fitting_recount(sim, ret);
	for_each_bit (i, gone)
		sim->pods[i].state.exists = true;
}

void evictions_check_at_end(struct sim *sim)
{
	struct truth now, then;

	if (!sim->plan->priorities)
		return;
	fitting_recount(sim, &now);
	for (int i = 0; i < sim->n_pods; i++) {
		const struct pod *pod = &sim->pods[i];

		if (!pod->state.exists || pod->state.node >= 0 || !gang_is_open(sim, i) || pod->shape.whole)
			continue;
		recount_without_lower(sim, i, &then);
		fitting_lay_kept(sim, i, &then);
		for (int n = 0; n < sim->n_nodes; n++)
			if (sum_suffices(sim, &now, n, i) && fitting_fits(sim, &then, n, &pod->facts.request))
				sim_violate(sim, "no pod waits for a card that less important pods have",
					"u%d of priority %d, n%d", i, pod->facts.priority, n);
	}
}
