/* Which whole GPUs it has to be: the rule of links.h, searched among all sets of the GPUs that were free,
 * with the links of the plan. Scores, rings and divisions are computed here, in the simplest way there is,
 * not by what is tested. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/registry/nomination.h"
#include "sim.h"

static int size_of(unsigned int set)
{
	return __builtin_popcount(set);
}

/* ---- scores ---- */

/* The slowest link of the best way that begins where `first` is, goes on at `last` through all of `left`, and
 * back. */
static uint32_t best_way(
	const struct plan *plan, int n, int first, int last, unsigned int left, uint32_t slowest)
{
	uint32_t best = 0;

	if (!left) {
		uint32_t back = link_gbps(plan->links[n][last][first], NVLINK_GBPS);

		return back < slowest ? back : slowest;
	}
	for_each_bit (next, left) {
		uint32_t gbps = link_gbps(plan->links[n][last][next], NVLINK_GBPS), way;

		if (gbps <= best)
			continue; /* no way over it is better */
		way = best_way(plan, n, first, next, left & ~(1u << next), gbps < slowest ? gbps : slowest);
		best = way > best ? way : best;
	}
	return best;
}

static struct links_score score_of(const struct plan *plan, int n, unsigned int set)
{
	struct links_score score = {0};
	int first = __builtin_ctz(set);

	if (size_of(set) < 2)
		return score;
	for_each_bit (a, set)
		for_each_bit (b, set & ((1u << a) - 1))
			score.sum += link_gbps(plan->links[n][a][b], NVLINK_GBPS);
	score.ring = best_way(plan, n, first, first, set & (set - 1), UINT32_MAX);
	return score;
}

void gpus_start(struct sim *sim)
{
	for (int n = 0; n < sim->n_nodes && sim->plan->whole_gpus; n++)
		for (unsigned int set = 1; set < 1u << sim->plan->n_gpus[n]; set++)
			sim->scores[n][set] = score_of(sim->plan, n, set);
}

/* ---- the best set ---- */

struct ask {
	int node, gpus, pods;
	unsigned int free, near;
};

struct division {
	uint32_t worst, sum;
};

static int compare_division(struct division a, struct division b)
{
	return links_compare((struct links_score){a.worst, a.sum}, (struct links_score){b.worst, b.sum});
}

/* All ways to divide the set into parts of so many GPUs, after `so_far`; only parts that are not better than
 * `most`.
 */
static void divide(const struct links_score *scores, unsigned int set, int gpus,
	const struct links_score *most, struct division so_far, struct division *best)
{
	unsigned int low = set & -set, others = set ^ low;

	if (!set) {
		if (compare_division(so_far, *best) > 0)
			*best = so_far;
		return;
	}
	for (unsigned int more = others;; more = (more - 1) & others) {
		struct links_score part = scores[low | more];
		struct division next = {
			part.ring < so_far.worst ? part.ring : so_far.worst, so_far.sum + part.sum};

		if (size_of(more) == gpus - 1 && (!most || links_compare(part, *most) <= 0))
			divide(scores, others & ~more, gpus, most, next, best);
		if (!more)
			return;
	}
}

struct candidate {
	unsigned int set;
	struct links_score together, left;
	struct division division;
};

static bool is_better(const struct candidate *a, const struct candidate *b)
{
	int order = links_compare(a->together, b->together);
	unsigned int differs = a->set ^ b->set;

	if (!order)
		order = compare_division(a->division, b->division);
	if (!order)
		order = links_compare(a->left, b->left);
	return order ? order > 0 : (a->set & differs & -differs) != 0;
}

static int pods_of(const struct ask *ask)
{
	int most = size_of(ask->free) / ask->gpus;

	return ask->pods < 1 ? 1 : ask->pods < most ? ask->pods : most;
}

/* For all pods of the ask that have room. */
static struct candidate find_best(const struct sim *sim, const struct ask *ask)
{
	const struct links_score *scores = sim->scores[ask->node];
	struct candidate best = {0};

	for (unsigned int set = ask->free; set; set = (set - 1) & ask->free) {
		struct candidate one = {
			.set = set, .together = scores[set | ask->near], .left = scores[ask->free & ~set]};

		if (size_of(set) != ask->gpus * pods_of(ask) ||
			(best.set && links_compare(one.together, best.together) < 0))
			continue;
		divide(scores, set, ask->gpus, NULL, (struct division){UINT32_MAX, 0}, &one.division);
		if (!best.set || is_better(&one, &best))
			best = one;
	}
	return best;
}

/* One of a best division's parts, and none of that division is better. */
static bool is_right(const struct sim *sim, const struct ask *ask, unsigned int set)
{
	const struct links_score *scores = sim->scores[ask->node];
	struct division own = {scores[set].ring, scores[set].sum}, with = {0};
	struct candidate best;

	if (size_of(set) != ask->gpus || (set & ~ask->free))
		return false;
	best = find_best(sim, ask);
	if (pods_of(ask) == 1)
		return set == best.set;
	if (set & ~best.set)
		return false;
	divide(scores, best.set & ~set, ask->gpus, &scores[set], own, &with);
	return compare_division(with, best.division) == 0;
}

/* ---- what the ledger says ---- */

static int number_of(const char *node)
{
	return node ? node[1] - '0' : -1;
}

void gpus_look(const struct sim *sim, int pair, struct gpus_seen *ret)
{
	const struct ration *ration = &sim->rations[pair];

	memset(ret, 0, sizeof(*ret));
	memset(ret->node, -1, sizeof(ret->node));
	memset(ret->kept_node, -1, sizeof(ret->kept_node));
	for (int i = 0; i < sim->n_pods && sim->plan->whole_gpus; i++) {
		const struct ledger_pod *known = ledger_pod(&ration->core.ledger, sim->pods[i].uid_text);
		const struct nomination *kept = known ? known->nomination : NULL;

		if (!known)
			continue;
		ret->occupancy[i] = (uint8_t)known->occupancy;
		ret->planned[i] = gangs_holds(&ration->core.gangs, known->facts.uid);
		if (known->occupancy != OCCUPANCY_WAITING)
			ret->node[i] = (int8_t)number_of(known->node);
		if (ret->node[i] >= 0 && known->has_placement)
			ret->gpus[i] = api_gpus(sim, ret->node[i], &known->placement);
		if (!kept)
			continue;
		ret->kept_node[i] = (int8_t)number_of(kept->node->facts.name);
		ret->kept[i] = api_gpus(sim, ret->kept_node[i], &kept->shadow.placement);
	}
}

static bool is_mate(const struct sim *sim, const struct gpus_seen *seen, int pod, int other, int node)
{
	uint8_t job = sim->pods[pod].shape.job;

	return other != pod && job && sim->pods[other].shape.job == job && seen->node[other] == node &&
	       seen->occupancy[other] != OCCUPANCY_ORPHAN;
}

/* What is free for the pod, if those of `lifted` are not there. */
static struct ask ask_of(
	const struct sim *sim, int pair, const struct gpus_seen *seen, int pod, int node, uint64_t lifted)
{
	const struct ration *ration = &sim->rations[pair];
	struct ask ask = {.node = node,
		.gpus = (int)request_gpus(&sim->pods[pod].facts.request),
		.pods = sim->pods[pod].shape.job_pods,
		.free = ((1u << sim->plan->n_gpus[node]) - 1) & ~(unsigned int)ration->sick[node]};

	for (int i = 0; i < sim->n_pods; i++) {
		if (i == pod || (lifted & BIT(i)) || seen->node[i] != node)
			continue;
		ask.free &= ~(unsigned int)seen->gpus[i];
		if (!is_mate(sim, seen, pod, i, node))
			continue;
		ask.near |= seen->gpus[i];
		ask.pods--;
	}
	list_for_each (item, &ration->core.ledger.nominations) {
		const struct nomination *kept = list_entry(item, struct nomination, all);

		if (number_of(kept->node->facts.name) == node && fitting_is_kept_from(sim, kept, pod))
			ask.free &= ~(unsigned int)api_gpus(sim, node, &kept->shadow.placement);
	}
	return ask;
}

void gpus_check(struct sim *sim, int pair, const struct gpus_seen *before, int pod, int node, uint8_t gpus)
{
	struct ask ask = ask_of(sim, pair, before, pod, node, 0);

	if (before->kept_node[pod] == node)
		return; /* what was kept for it is what it gets */
	count(sim, COUNT_SETS);
	if (sim->pods[pod].shape.job)
		count(sim, COUNT_JOB_SETS);
	if (!is_right(sim, &ask, gpus))
		sim_violate(sim, "of the free cards a pod gets those that serve it best",
			"u%d on n%d: %#x of %#x, near %#x, %d pods to come, not %#x", pod, node, gpus,
			ask.free, ask.near, ask.pods, find_best(sim, &ask).set);
}

static bool says_links(const struct plan *plan, int n)
{
	for (int a = 0; a < plan->n_gpus[n]; a++)
		for (int b = 0; b < a; b++)
			if (plan->links[n][a][b].kind)
				return true;
	return false;
}

/* Where others of its job are, then where it would be connected best with them. */
static struct links_score worth(const struct sim *sim, const struct ask *ask)
{
	return says_links(sim->plan, ask->node) ? sim->scores[ask->node][find_best(sim, ask).set | ask->near]
						: (struct links_score){0};
}

void gpus_check_rank(struct sim *sim, int pair, int pod, const int *nodes, size_t n)
{
	struct gpus_seen seen;
	struct ask first, other;

	gpus_look(sim, pair, &seen);
	/* The order of nodes does not know of what is kept. And a kube-scheduler whose watch is behind asks
	 * for one that is bound: no answer of ours moves it. */
	if (!list_empty(&sim->rations[pair].core.ledger.nominations) ||
		seen.occupancy[pod] >= OCCUPANCY_RESERVED)
		return;
	first = ask_of(sim, pair, &seen, pod, nodes[0], 0);
	for (size_t i = 1; i < n; i++) {
		other = ask_of(sim, pair, &seen, pod, nodes[i], 0);
		if (pods_of(&first) > 1 || pods_of(&other) > 1)
			continue; /* its part of what is planned is not known */
		if (!first.near != !other.near ? !first.near
					       : links_compare(worth(sim, &first), worth(sim, &other)) < 0)
			sim_violate(sim, "a pod goes where its job is, or its cards are connected best",
				"u%d: n%d before n%d", pod, nodes[0], nodes[i]);
	}
}

/* ---- gangs: the members are seated one after the other, and nobody has said in which order ---- */

static bool slot_all(const struct sim *sim, int pair, const struct gpus_seen *after, int node, uint64_t slots)
{
	if (!slots)
		return true;
	for_each_bit (i, slots) {
		struct ask ask = ask_of(sim, pair, after, i, node, slots);

		if (is_right(sim, &ask, after->gpus[i]) && slot_all(sim, pair, after, node, slots & ~BIT(i)))
			return true;
	}
	return false;
}

static bool is_moved(const struct gpus_seen *a, const struct gpus_seen *b, int pod)
{
	return a->node[pod] != b->node[pod] || a->gpus[pod] != b->gpus[pod];
}

/* True if GPUs are kept for a pod of another gang. A gang that goes before it lets them go, is planned
 * without them, and they are kept again in the same evaluation. */
static bool is_kept_for_another(const struct sim *sim, const struct gpus_seen *seen, int gang)
{
	for (int i = 0; i < sim->n_pods; i++)
		if (seen->kept_node[i] >= 0 && pod_gang(sim, i) && pod_gang(sim, i) != gang)
			return true;
	return false;
}

/* The only gang that was planned in between; 0: none, -1: one cannot tell. */
static int planned_gang(const struct sim *sim, const struct gpus_seen *before, const struct gpus_seen *after)
{
	int gang = 0;

	for (int i = 0; i < sim->n_pods; i++) {
		int g = pod_gang(sim, i);

		if (!is_moved(before, after, i) || after->occupancy[i] != OCCUPANCY_TENTATIVE)
			continue;
		if (!sim->pods[i].shape.whole)
			continue;
		if (gang && g != gang)
			return -1;
		gang = g;
	}
	for (int i = 0; gang && i < sim->n_pods; i++)
		if (before->kept_node[i] != after->kept_node[i] || before->kept[i] != after->kept[i] ||
			(is_moved(before, after, i) && pod_gang(sim, i) != gang))
			return -1;
	return gang && is_kept_for_another(sim, after, gang) ? -1 : gang;
}

void gpus_check_plans(struct sim *sim, int pair, const struct gpus_seen *before)
{
	struct gpus_seen after;
	uint64_t slots[NODES_MAX] = {0}, same[NODES_MAX] = {0};
	int gang;

	if (!sim->plan->whole_gpus)
		return;
	gpus_look(sim, pair, &after);
	gang = planned_gang(sim, before, &after);
	if (gang < 0)
		count(sim, COUNT_PLANS_UNCLEAR);
	if (gang <= 0)
		return;
	for (int i = 0; i < sim->n_pods; i++) {
		bool stays = before->occupancy[i] == OCCUPANCY_TENTATIVE && !before->planned[i] &&
			     !is_moved(before, &after, i);

		if (pod_gang(sim, i) == gang && sim->pods[i].shape.whole &&
			after.occupancy[i] == OCCUPANCY_TENTATIVE)
			*(stays ? &same[after.node[i]] : &slots[after.node[i]]) |= BIT(i);
	}
	for (int n = 0; n < sim->n_nodes; n++) {
		sim->statistics->counts[COUNT_PLANNED_SETS] += (uint64_t)__builtin_popcountll(slots[n]);
		/* Whose GPUs are the same may have been seated anew, and where it was. */
		if (!slot_all(sim, pair, &after, n, slots[n]) &&
			!(slots[n] && slot_all(sim, pair, &after, n, slots[n] | same[n])))
			sim_violate(sim, "each member of a gang gets the cards that serve it best",
				"gang %d on n%d, pods %#llx", gang, n, (unsigned long long)slots[n]);
	}
}

/* ---- what the containers of a job see ---- */

void gpus_check_visible(struct sim *sim, int pair, int pod, int node, const struct placement *placement)
{
	uint8_t own = api_gpus(sim, node, placement), job = own, sees = 0;
	struct gpus_seen seen;

	gpus_look(sim, pair, &seen);
	for (int i = 0; i < sim->n_pods; i++)
		if (is_mate(sim, &seen, pod, i, node))
			job |= seen.gpus[i];
	for (size_t i = 0; i < placement->n_visible; i++) {
		for (int k = 0; k < sim->plan->n_gpus[node]; k++)
			if (strcmp(placement->visible[i], sim->nodes[node].facts.gpus[k].uuid) == 0)
				sees |= (uint8_t)(1 << k);
		if ((int)i < size_of(own) && (sees & ~own))
			sim_violate(sim, "a pod's own cards come first", "u%d on n%d", pod, node);
	}
	if (sees != (job == own ? 0 : job))
		sim_violate(sim, "a pod of a job sees the job's cards", "u%d on n%d sees %#x, not %#x", pod,
			node, sees, job);
}
