/* What must hold for pods that are placed all or none. The truth is the API server's: which are bound there.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* To see it, to say it, to say it again. */
#define EVICT_WITHIN_NS (12 * NS_PER_S)
/* After all who were there before are gone: plan, bind, and a back-off of at most 32 s. */
#define KEPT_WITHIN_NS (40 * NS_PER_S)
#define KEEP_SEEN_NS (3 * NS_PER_S)
/* GANG_ALL_MADE_NS is 10 s; watches lag. */
#define LEFT_OVER_NS (9 * NS_PER_S)
#define SEEN_WITHIN_NS (5 * NS_PER_S)
/* After that everybody knows of a change of a PodGroup, and what was decided before it has been carried out.
 */
#define CHANGE_KNOWN_NS (10 * NS_PER_S)
#define NEVER_ENOUGH 1000

static uint32_t size_of(uint64_t pods)
{
	return (uint32_t)__builtin_popcountll(pods);
}

static void recount(const struct sim *sim, int g, struct gang_truth *gang)
{
	uint64_t was_bound = gang->bound, was_done = gang->done;

	gang->bound = gang->waiting = gang->done = 0;
	gang->mixed = false;
	for (int i = 0; i < sim->n_pods; i++)
		if (((was_bound | was_done) & BIT(i)) && sim->pods[i].state.exists &&
			sim->pods[i].state.phase == PHASE_SUCCEEDED && *sim->pods[i].facts.owner)
			gang->done |= BIT(i);
	gang->sure = (gang->sure | (gang->whole ? 0 : gang->done & ~was_done)) & gang->done;
	/* After a restart, or when another pod comes, ration-scheduler asks anew which pods have succeeded.
	 * It finds them by their label, and those of another controller do not count. So the gang need not
	 * start without a pod that a user has labelled out of it or into it. */
	for_each_bit (i, gang->done)
		if (sim->pods[i].state.gang != g || sim->pods[i].shape.gang != g)
			gang->sure &= ~BIT(i);
	for (int i = 0; i < sim->n_pods; i++) {
		const struct state *state = &sim->pods[i].state;

		if (pod_gang(sim, i) != g || !state->exists || state->deleting ||
			state->phase >= PHASE_SUCCEEDED)
			continue;
		gang->mixed |= sim->pods[i].shape.gang != g || !*sim->pods[i].facts.owner;
		*(state->node < 0 ? &gang->waiting : &gang->bound) |= BIT(i);
	}
}

/* Fewer than are needed, for so long, made by the controller of a gang that has run: each goes by itself. Who
 * decides has seen it a little earlier or later. */
static bool is_left_over(const struct sim *sim, const struct gang_truth *gang)
{
	return (gang->few_ns && sim->now_ns - gang->few_ns >= LEFT_OVER_NS) ||
	       (gang->left_over_ns && sim->now_ns - gang->left_over_ns < SEEN_WITHIN_NS);
}

static void follow_left_over(struct sim *sim, struct gang_truth *gang)
{
	uint64_t there = gang->bound | gang->waiting;

	for_each_bit (i, gang->bound)
		gang->has_run |= gang->whole && *sim->pods[i].facts.owner;
	if (there && size_of(there) < gang->min && gang->has_run) {
		gang->few_ns = gang->few_ns ? gang->few_ns : sim->now_ns;
		return;
	}
	if (is_left_over(sim, gang))
		gang->left_over_ns = sim->now_ns;
	gang->few_ns = 0;
}

/* Nobody is made in place of those who have succeeded. Who decides has seen it a little earlier or later. */
static void follow_short(struct sim *sim, struct gang_truth *gang)
{
	uint64_t there = gang->bound | gang->waiting;

	if (gang->short_ns && sim->now_ns - gang->short_ns >= LEFT_OVER_NS)
		gang->was_short_ns = sim->now_ns;
	if (size_of(there) >= gang->min || !(there | gang->done))
		gang->short_ns = 0;
	else if (!gang->short_ns)
		gang->short_ns = sim->now_ns;
}

static bool has_changed_lately(const struct sim *sim, const struct gang_truth *gang)
{
	return gang->changed_ns && sim->now_ns - gang->changed_ns < CHANGE_KNOWN_NS;
}

/* 0: nothing says how many. */
static uint32_t lower_of(uint32_t a, uint32_t b)
{
	return !a || (b && b < a) ? b : a;
}

static void judge_no_more(struct sim *sim, struct gang_truth *gang)
{
	if (!gang->unclear)
		count(sim, COUNT_GANGS_UNCLEAR);
	gang->unclear = true;
}

/* Whether a gang had started when its PodGroup changed may depend on who saw what first. */
void gang_group_changes(struct sim *sim, int g, uint32_t min)
{
	struct gang_truth *gang = &sim->gangs[g];
	bool forms = false;

	for_each_bit (i, gang->bound)
		forms |= sim->pods[i].state.forming;
	if (gang->has_run || gang->done ||
		(gang->bound && (!gang->whole || forms || sim->now_ns - gang->grown_ns < CHANGE_KNOWN_NS)))
		judge_no_more(sim, gang);
	gang->least = lower_of(has_changed_lately(sim, gang) ? gang->least : gang->min, min);
	gang->min = min;
	gang->changed_ns = sim->now_ns;
	sim->truth_changed = true;
}

static uint32_t need(const struct sim *sim, const struct gang_truth *gang, uint32_t min, uint64_t done_pods)
{
	bool is_short = (gang->short_ns && sim->now_ns - gang->short_ns >= LEFT_OVER_NS) ||
			(gang->was_short_ns && sim->now_ns - gang->was_short_ns < SEEN_WITHIN_NS);
	uint32_t done = is_short ? size_of(done_pods) : 0;

	if (!min)
		return NEVER_ENOUGH;
	return min > done ? min - done : 1;
}

uint32_t gang_need(const struct sim *sim, const struct gang_truth *gang)
{
	return need(sim, gang, gang->min, gang->done);
}

uint32_t gang_need_at_least(const struct sim *sim, const struct gang_truth *gang)
{
	return need(sim, gang, has_changed_lately(sim, gang) ? gang->least : gang->min, gang->done);
}

/* With so many it has to start, whatever is believed of those that have succeeded. */
static uint32_t need_at_most(const struct sim *sim, const struct gang_truth *gang)
{
	return need(sim, gang, gang->min, gang->mixed ? 0 : gang->sure);
}

/* Bindings that somebody sent who may not have known of a change. */
static void follow_changes(struct sim *sim, struct gang_truth *gang, uint64_t was_bound)
{
	if (gang->bound & ~was_bound)
		gang->grown_ns = sim->now_ns;
	if ((gang->bound & ~was_bound) && has_changed_lately(sim, gang))
		judge_no_more(sim, gang);
	/* A scheduler that saw it start with an earlier minMember takes later pods for its last ones. */
	if (!(gang->bound | gang->waiting | gang->done) && !gang->changed_ns)
		gang->unclear = false;
}

static void follow(struct sim *sim, int g)
{
	struct gang_truth *gang = &sim->gangs[g];
	uint64_t were_bound = gang->bound;
	bool was_whole = gang->whole, was_bound = gang->bound;

	recount(sim, g, gang);
	follow_changes(sim, gang, were_bound);
	follow_short(sim, gang);
	gang->whole = gang->bound && (was_whole || size_of(gang->bound) >= gang_need(sim, gang));
	if (gang->bound && !was_bound && !gang->whole && is_left_over(sim, gang)) {
		count(sim, COUNT_GANGS_LEFT_OVER);
		gang->whole = was_whole = true;
	}
	follow_left_over(sim, gang);
	if (gang->whole && !was_whole) {
		say(sim, "gang %d has started", g);
		count(sim, COUNT_GANGS_WHOLE);
	}
	if (!gang->bound || gang->whole)
		gang->partly_ns = 0;
	else if (!gang->partly_ns) {
		gang->partly_ns = sim->now_ns;
		count(sim, COUNT_GANGS_PARTLY);
	}
	if (gang->whole || size_of(gang->bound | gang->waiting) < need_at_most(sim, gang))
		gang->ready_ns = 0;
	else if (!gang->ready_ns)
		gang->ready_ns = sim->now_ns;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t timeout_of(const struct sim *sim, int g)
{
	const struct plan_gang *gang = &sim->plan->gangs[g];

	/* The time-out is the PodGroup's as long as there is one. */
	if (sim->gangs[g].changed_ns)
		return later(gang->timeout_s * NS_PER_S, GANG_TIMEOUT_NS);
	return gang->group && gang->timeout_s ? gang->timeout_s * NS_PER_S : GANG_TIMEOUT_NS;
}

static void check_partly(struct sim *sim, int g)
{
	const struct gang_truth *gang = &sim->gangs[g];

	if (gang->partly_ns && !gang->unclear &&
		sim->now_ns - later(gang->partly_ns, sim->unsettled_until_ns) >
			timeout_of(sim, g) + EVICT_WITHIN_NS)
		sim_violate(sim, "no gang is partly placed after its time", "gang %d: %u of %u", g,
			size_of(gang->bound), gang->min);
}

/* Who there is of a gang says when it was made, and how important it is. */
static bool is_before(const struct sim *sim, int a, int b)
{
	uint64_t of_a = sim->gangs[a].bound | sim->gangs[a].waiting;
	uint64_t of_b = sim->gangs[b].bound | sim->gangs[b].waiting;
	int32_t priority[2] = {INT32_MIN, INT32_MIN};
	int64_t created[2] = {INT64_MAX, INT64_MAX};

	for_each_bit (i, of_a | of_b) {
		const struct pod_facts *facts = &sim->pods[i].facts;
		int which = (of_b & BIT(i)) != 0;

		priority[which] = facts->priority > priority[which] ? facts->priority : priority[which];
		created[which] = facts->created < created[which] ? facts->created : created[which];
	}
	if (priority[0] != priority[1])
		return priority[0] > priority[1];
	return created[0] != created[1] ? created[0] < created[1] : a < b;
}

static bool is_first(const struct sim *sim, int g)
{
	for (int other = 1; other <= sim->plan->n_gangs; other++)
		if (other != g && sim->gangs[other].ready_ns && is_before(sim, other, g))
			return false;
	return true;
}

static int fits_empty(const struct sim *sim, int g)
{
	const struct gang_truth *gang = &sim->gangs[g];
	static const struct truth empty;

	return fitting_all(sim, &empty, gang->bound | gang->waiting, gang_need(sim, gang));
}

/* Pods that take room, and are not of the gang; above: of a higher priority than it. */
static uint64_t others(const struct sim *sim, int g, bool above)
{
	const struct gang_truth *gang = &sim->gangs[g];
	uint64_t there = 0;

	for (int i = 0; i < sim->n_pods; i++) {
		const struct pod *pod = &sim->pods[i];
		bool takes = (fitting_occupies(pod) && pod->state.node >= 0) || api_pod_lives(pod);

		for_each_bit (k, gang->waiting)
			takes &= !above || pod->facts.priority > sim->pods[k].facts.priority;
		if (takes && !(gang->bound & BIT(i)))
			there |= BIT(i);
	}
	return there;
}

/* The first that has waited too long has everything kept for it that becomes free: it starts soon after
 * those are gone who were there then. */
static void check_starved(struct sim *sim, int g)
{
	struct gang_truth *gang = &sim->gangs[g];
	int64_t since_ns = later(gang->ready_ns, sim->unsettled_until_ns);

	if (!gang->ready_ns || sim->plan->changes || gang->unclear ||
		sim->now_ns - since_ns < GANG_KEEP_AFTER_NS + KEEP_SEEN_NS || !is_first(sim, g)) {
		gang->starved_ns = gang->cleared_ns = 0;
		return;
	}
	if (!gang->starved_ns) {
		count(sim, COUNT_GANGS_KEPT);
		gang->starved_ns = sim->now_ns;
		gang->before = others(sim, g, false);
	}
	gang->before = (gang->before | others(sim, g, true)) & others(sim, g, false);
	if (gang->before || fits_empty(sim, g) <= 0)
		gang->cleared_ns = 0;
	else if (!gang->cleared_ns)
		gang->cleared_ns = sim->now_ns;
	else if (sim->now_ns - gang->cleared_ns > KEPT_WITHIN_NS)
		sim_violate(sim, "a gang that has waited long gets what becomes free",
			"gang %d, %.3f s after the last who was there before it", g,
			(double)(sim->now_ns - gang->cleared_ns) / 1e9);
}

void gang_checks_after_step(struct sim *sim, bool changed)
{
	for (int g = 1; g <= sim->plan->n_gangs; g++)
		if (changed || sim->gangs[g].short_ns || sim->gangs[g].was_short_ns)
			follow(sim, g);
	for (int g = 1; g <= sim->plan->n_gangs; g++) {
		check_partly(sim, g);
		if (changed || sim->gangs[g].cleared_ns || !sim->gangs[g].starved_ns)
			check_starved(sim, g);
	}
}

bool gang_is_open(const struct sim *sim, int pod)
{
	const struct gang_truth *gang = &sim->gangs[pod_gang(sim, pod)];

	return !pod_gang(sim, pod) || (gang->whole && !gang->unclear);
}

/* In the end. */

static void check_waiting(struct sim *sim, int g, const struct truth *now)
{
	const struct gang_truth *gang = &sim->gangs[g];
	uint32_t bound = size_of(gang->bound);
	struct truth kept = *now;

	if (gang->whole || gang->unclear || !gang->waiting ||
		size_of(gang->bound | gang->waiting) < need_at_most(sim, gang))
		return;
	count(sim, COUNT_GANGS_WAITING);
	fitting_lay_kept(sim, __builtin_ctzll(gang->waiting), &kept);
	if (fitting_all(sim, &kept, gang->waiting, need_at_most(sim, gang) - bound) > 0)
		sim_violate(sim, "no gang that fits waits for ever", "gang %d: %u of %u are bound", g, bound,
			gang->min);
}

/* Somebody of this controller has finished, after the gang had started. */
static bool has_witness(const struct sim *sim, int pod)
{
	for (int i = 0; i < sim->n_pods; i++) {
		const struct state *state = &sim->pods[i].state;

		if (state->gang == sim->pods[pod].state.gang && pod_gang(sim, i) == state->gang &&
			state->exists && state->phase >= PHASE_SUCCEEDED && state->placed &&
			!state->forming && *sim->pods[i].facts.owner &&
			strcmp(sim->pods[i].facts.owner, sim->pods[pod].facts.owner) == 0)
			return true;
	}
	return false;
}

/* Whoever has died since, that it has run can be seen. */
static void check_left_over(struct sim *sim, int g, const struct truth *now)
{
	const struct gang_truth *gang = &sim->gangs[g];
	struct truth kept = *now;

	if (gang->bound || gang->unclear || !gang->waiting || size_of(gang->waiting) >= gang->min)
		return;
	for_each_bit (i, gang->waiting)
		if (!has_witness(sim, i))
			return;
	fitting_lay_kept(sim, __builtin_ctzll(gang->waiting), &kept);
	for_each_bit (i, gang->waiting)
		for (int n = 0; n < sim->n_nodes; n++)
			if (fitting_fits(sim, &kept, n, &sim->pods[i].facts.request))
				sim_violate(sim, "who is left over of a gang does not wait for ever",
					"u%d of gang %d fits on n%d", i, g, n);
}

static void check_marks(struct sim *sim, int g)
{
	const struct gang_truth *gang = &sim->gangs[g];

	for_each_bit (i, gang->bound)
		if (gang->whole && !gang->unclear && sim->pods[i].state.forming)
			sim_violate(sim, "who is of a gang that has started loses its mark", "u%d of gang %d",
				i, g);
}

/* What is kept is for one gang, the first, and only if it can ever use it. */
static void check_kept(struct sim *sim, int pair)
{
	const struct ration *ration = &sim->rations[pair];
	int keeps = 0;

	for (int i = 0; i < sim->n_pods && ration->alive && sim->kube_schedulers[pair].leads; i++) {
		const struct ledger_pod *known = ledger_pod(&ration->core.ledger, sim->pods[i].uid_text);
		int g = pod_gang(sim, i);

		if (!known || !known->nomination)
			continue;
		if (keeps && g != keeps)
			sim_violate(sim, "cards are kept for one gang only", "gangs %d and %d", keeps, g);
		keeps = g;
		if (g && sim->gangs[g].unclear)
			continue;
		if (!g ||
			size_of(sim->gangs[g].bound | sim->gangs[g].waiting) <
				gang_need(sim, &sim->gangs[g]) ||
			(sim->gangs[g].ready_ns &&
				sim->now_ns - sim->gangs[g].ready_ns < GANG_KEEP_AFTER_NS) ||
			fits_empty(sim, g) == 0)
			sim_violate(sim, "cards are kept for a gang that has waited long", "u%d of gang %d",
				i, g);
	}
}

void gang_checks_at_end(struct sim *sim)
{
	struct truth now;

	if (!sim->plan->n_gangs)
		return;
	fitting_recount(sim, &now);
	for (int g = 1; g <= sim->plan->n_gangs; g++) {
		sim->statistics->counts[COUNT_GANGS_RUNNING] += size_of(sim->gangs[g].bound) >=
								sim->gangs[g].min;
		check_waiting(sim, g, &now);
		check_left_over(sim, g, &now);
		check_marks(sim, g);
	}
	for (int i = 0; i < sim->n_pairs; i++)
		check_kept(sim, i);
}
