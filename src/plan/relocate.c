#include "plan/relocate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/core.h"
#include "core/events.h"
#include "core/policies.h"
#include "core/registry/node-ledger.h"
#include "kube/json.h"
#include "plan/eviction.h"
#include "plan/node-change.h"

enum gain { GAIN_RUNS, GAIN_WHOLE, GAIN_FRAGMENTS, GAIN_MAX };

/* A pod that may be moved. */
struct mover {
	struct json_object *pod;
	struct pod_facts facts; /* with its present uid in the core, node and placement */
	struct quantities requests;
	bool moved;
	uint32_t used; /* of its fullest GPU, in MiB; for the order */
	uint64_t mib;  /* of its own */
};

/* A pod that waits, without a uid. */
struct waiter {
	const struct plan_move *move;
	struct json_object *object;
	struct pod_facts facts;
	bool runs;
};

/* What one trial has bound. */
struct bound {
	char *uid, *node;
	struct quantities requests;
	size_t waiter; /* SIZE_MAX: it is the pod that is moved */
	struct plan_outcome outcome;
};

struct measure {
	int64_t runs, whole;
	uint64_t square; /* of free MiB, summed */
};

struct search {
	struct plan_world *world;
	struct mover *movers;
	struct waiter *waiters;
	struct plan_moves order; /* the pods that wait, in kube-scheduler's order */
	size_t n_movers, n_waiters, number;
	struct table spent;
	struct bound *bound;
	size_t n_bound;
	struct relocations *moves;
};

static void bound_release(struct bound *bound)
{
	free(bound->uid);
	free(bound->node);
	quantities_release(&bound->requests);
	plan_outcome_release(&bound->outcome);
}

void relocations_release(struct relocations *moves)
{
	for (size_t i = 0; i < moves->n; i++) {
		plan_outcome_release(&moves->list[i].from);
		plan_outcome_release(&moves->list[i].to);
		plan_moves_release(&moves->list[i].runs);
	}
	free(moves->list);
	*moves = (struct relocations){0};
}

static void search_release(struct search *search)
{
	for (size_t i = 0; i < search->n_movers; i++) {
		pod_facts_release(&search->movers[i].facts);
		quantities_release(&search->movers[i].requests);
	}
	for (size_t i = 0; i < search->n_waiters; i++) {
		json_object_put(search->waiters[i].object);
		pod_facts_release(&search->waiters[i].facts);
	}
	for (size_t i = 0; i < search->n_bound; i++)
		bound_release(&search->bound[i]);
	free(search->movers);
	free(search->waiters);
	free(search->bound);
	plan_moves_release(&search->order);
	table_release(&search->spent);
}

/* ---- what is measured ---- */

int64_t plan_whole_free(const struct plan_world *world)
{
	const struct node_ledger *node;
	int64_t whole = 0;

	table_for_each (&world->core->ledger.nodes, cursor, node)
		whole += node->sums.whole;
	return whole;
}

static struct measure take_measure(const struct search *search)
{
	struct measure measure = {.whole = plan_whole_free(search->world)};
	const struct node_ledger *node;

	for (size_t i = 0; i < search->n_waiters; i++)
		measure.runs += search->waiters[i].runs;
	table_for_each (&search->world->core->ledger.nodes, cursor, node)
		for (size_t i = 0; i < node->facts.n_gpus; i++) {
			uint64_t mib = (uint64_t)gpu_free_units(&node->gpus[i]) * node->facts.unit_mib;

			if (node->gpus[i].facts.healthy)
				measure.square += mib * mib;
		}
	return measure;
}

static bool gains(enum gain gain, const struct measure *before, const struct measure *after)
{
	if (after->runs != before->runs || gain == GAIN_RUNS)
		return after->runs > before->runs;
	if (after->whole != before->whole || gain == GAIN_WHOLE)
		return after->whole > before->whole;
	return after->square > before->square;
}

/* ---- one trial ---- */

static int set_uid(struct search *search, struct pod_facts *facts)
{
	char uid[40];

	snprintf(uid, sizeof(uid), "plan-%zu", ++search->number);
	free(facts->uid);
	facts->uid = strdup(uid);
	return facts->uid ? 0 : -ENOMEM;
}

static void remove_from(
	struct search *search, const char *uid, const char *node, const struct quantities *requests)
{
	struct plan_world *world = search->world;

	core_pod_is_gone(world->core, uid, true, world->now_ns);
	if (world->kube)
		kube_nodes_remove(world->kube, node, requests);
}

/* The evicted pod has ended. Before that is said, the scheduler keeps the GPU of a pod whose containers ran.
 */
static int end_mover(struct search *search, struct mover *mover)
{
	struct pod_facts ended = mover->facts; /* borrowed */
	int r;

	ended.finished = ended.succeeded = true;
	r = core_see_pod(search->world->core, &ended, 0, search->world->now_ns);
	remove_from(search, mover->facts.uid, mover->facts.node, &mover->requests);
	return r < 0 ? r : 0;
}

/* The core has forgotten the old uid for good, so the pod comes back under a new one. */
static int put_back(struct search *search, struct mover *mover)
{
	struct plan_world *world = search->world;
	int r = set_uid(search, &mover->facts);

	if (r == 0)
		r = core_see_pod(world->core, &mover->facts, 0, world->now_ns);
	if (r == 0 && world->kube)
		r = kube_nodes_place(world->kube, mover->facts.node, &mover->requests);
	return r < 0 ? r : 0;
}

static void forget_bound(struct search *search, bool undo)
{
	while (search->n_bound) {
		struct bound *bound = &search->bound[--search->n_bound];

		if (undo) {
			remove_from(search, bound->uid, bound->node, &bound->requests);
			if (bound->waiter != SIZE_MAX)
				search->waiters[bound->waiter].runs = false;
		}
		bound_release(bound);
	}
}

/* Tries one pod. Returns 1 if it is bound, 0 if not. */
static int place(struct search *search, struct json_object *object, size_t waiter, struct error *err)
{
	struct bound *grown = reallocarray(search->bound, search->n_bound + 1, sizeof(*grown)),
		     new = {.waiter = waiter};
	struct plan_pod pod = {0};
	int r;

	if (!grown)
		return error_set(err, ENOMEM, "out of memory");
	search->bound = grown;
	r = plan_pod_read(object, ++search->number, &pod, err);
	if (r == 0)
		r = plan_place(search->world, &pod, &new.outcome, err);
	if (r == 0 && new.outcome.placed) {
		new.uid = strdup(pod.facts.uid);
		new.node = strdup(new.outcome.node);
		new.requests = pod.requests;
		pod.requests = (struct quantities){0};
		r = new.uid &&new.node ? 1 : error_set(err, ENOMEM, "out of memory");
	}
	plan_pod_release(&pod);
	if (r <= 0) {
		bound_release(&new);
		return r;
	}
	search->bound[search->n_bound++] = new;
	if (waiter != SIZE_MAX)
		search->waiters[waiter].runs = true;
	return 1;
}

/* Tries the pods that wait from *next on, as long as they are not below this priority. They had no
 * room before the move, so only the node that the pod has left can have room for them now. */
static int place_waiters(
	struct search *search, const char *node, int64_t lowest, size_t *next, struct error *err)
{
	struct ledger *ledger = &search->world->core->ledger;
	int r = 0;

	for (; r >= 0 && *next < search->n_waiters; (*next)++) {
		struct waiter *waiter = &search->waiters[*next];

		if (waiter->move->priority < lowest)
			break;
		if (waiter->runs)
			continue;
		r = ledger_choose(ledger, node, &waiter->facts, NULL);
		if (r == FITS)
			r = place(search, waiter->object, *next, err);
	}
	return r < 0 ? r : 0;
}

/* A whole GPU takes no new pod as long as the old one has it. */
static bool mover_holds(const struct mover *mover)
{
	return !mover->facts.request.whole;
}

/* Whether the new pod exists while the old one still ends. A StatefulSet's new pod has the name of the old
 * one. A ReplicaSet or a Job (by default) makes it as soon as the old one is told to end (1.36). */
static bool comes_early(struct json_object *pod)
{
	const char *kind = json_member_string(plan_controller(pod), "kind");

	return !kind || strcmp(kind, "StatefulSet") != 0;
}

/* The old pod has ended first. Returns 1 if the new one is bound then, 0 if not. */
static int place_late(
	struct search *search, struct mover *mover, struct json_object *next_pod, struct error *err)
{
	size_t next = 0;
	int r;

	if (end_mover(search, mover) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = place_waiters(search, mover->facts.node, mover->facts.priority, &next, err);
	return r < 0 ? r : place(search, next_pod, SIZE_MAX, err);
}

/* Evicts the pod, while its GPUs take no new pods. Returns 1 if it runs again, 0 if not. */
static int carry_out(struct search *search, struct mover *mover, struct error *err)
{
	_cleanup_json_ struct json_object *next_pod = plan_replacement(mover->pod);
	const struct placement *from = mover_holds(mover) ? &mover->facts.placement : NULL;
	uint64_t held = plan_cordon_gpus(search->world, mover->facts.node, from);
	bool early = false;
	size_t next = 0;
	int r = next_pod ? 0 : error_set(err, ENOMEM, "out of memory");

	if (r == 0 && comes_early(mover->pod)) {
		r = place(search, next_pod, SIZE_MAX, err);
		early = r == 1;
	}
	if (r == 0)
		r = place_late(search, mover, next_pod, err);
	plan_uncordon_gpus(search->world, mover->facts.node, held);
	if (r != 1)
		return r;
	if (early && end_mover(search, mover) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = place_waiters(search, mover->facts.node, INT32_MIN, &next, err);
	return r < 0 ? r : 1;
}

static int keep(struct search *search, struct mover *mover, int64_t whole)
{
	struct relocations *moves = search->moves;
	struct relocation *grown = reallocarray(moves->list, moves->n + 1, sizeof(*grown)), *move;
	struct json_object *metadata = json_member(mover->pod, "metadata");

	if (!grown)
		return -ENOMEM;
	moves->list = grown;
	move = &grown[moves->n++];
	*move = (struct relocation){.pod = mover->pod,
		.namespace_ = json_member_string(metadata, "namespace"),
		.name = json_member_string(metadata, "name"),
		.whole = whole,
		.holds = mover_holds(mover),
		.from = {.placed = true, .node = strdup(mover->facts.node)},
		.runs = {.list = calloc(search->n_bound, sizeof(*move->runs.list))}};
	if (!move->from.node || !move->runs.list ||
		placement_copy(&mover->facts.placement, &move->from.placement) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < search->n_bound; i++) {
		struct bound *bound = &search->bound[i];

		if (bound->waiter == SIZE_MAX) {
			move->to = bound->outcome;
			bound->outcome = (struct plan_outcome){0};
			continue;
		}
		move->runs.list[move->runs.n] = *search->waiters[bound->waiter].move;
		move->runs.list[move->runs.n].fate = PLAN_RUNS;
		move->runs.list[move->runs.n++].outcome = bound->outcome;
		bound->outcome = (struct plan_outcome){0};
	}
	mover->moved = true;
	forget_bound(search, false);
	return plan_spend_budget(search->world, &search->spent, mover->pod);
}

/* Returns 1 if the move is kept, 0 if it is taken back. */
static int try_move(struct search *search, struct mover *mover, enum gain gain, struct error *err)
{
	struct measure before = take_measure(search), after;
	int r = carry_out(search, mover, err);

	search->moves->tried++;
	if (r < 0)
		return r;
	after = take_measure(search);
	if (r == 1 && gains(gain, &before, &after)) {
		r = keep(search, mover, after.whole - before.whole);
		return r < 0 ? error_set(err, ENOMEM, "out of memory") : 1;
	}
	forget_bound(search, true);
	return put_back(search, mover) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

/* ---- which pods are tried ---- */

/* Without the pod, one that waits would have room on its node. */
static bool makes_room(struct search *search, const struct mover *mover)
{
	struct ledger *ledger = &search->world->core->ledger;
	struct ledger_pod *pod = table_get(&ledger->pods, mover->facts.uid);
	struct node_ledger *node = table_get(&ledger->nodes, mover->facts.node);
	bool room = false;

	if (!pod || !node)
		return false;
	node_ledger_remove(node, pod);
	for (size_t i = 0; i < search->n_waiters && !room; i++)
		room = !search->waiters[i].runs &&
		       ledger_choose(ledger, mover->facts.node, &search->waiters[i].facts, NULL) == FITS;
	node_ledger_add(node, pod);
	return room;
}

/* Sets mover->used and mib; returns whether no other pod is on its GPUs. */
static bool look_at(struct search *search, struct mover *mover)
{
	const struct node_ledger *node = ledger_node(&search->world->core->ledger, mover->facts.node);
	const struct gpu_share *shares[NODE_GPUS_MAX];
	size_t n = placement_gpus(&mover->facts.placement, shares);
	bool alone = true;

	mover->used = 0;
	mover->mib = 0;
	for (size_t i = 0; node && i < n; i++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, shares[i]->uuid);
		uint32_t units = placement_units_on(
			&mover->facts.placement, &mover->facts.request, shares[i]->uuid);
		uint64_t used = gpu ? (uint64_t)gpu->units_used * node->facts.unit_mib : UINT32_MAX;

		alone &= gpu && gpu->units_used == units;
		mover->mib += (uint64_t)units * node->facts.unit_mib;
		if (used > mover->used)
			mover->used = used > UINT32_MAX ? UINT32_MAX : (uint32_t)used;
	}
	return alone;
}

static int compare_movers(const void *a, const void *b)
{
	const struct mover *x = a, *y = b;

	if (x->used != y->used)
		return x->used < y->used ? -1 : 1;
	if (x->mib != y->mib)
		return x->mib < y->mib ? -1 : 1;
	return strcmp(json_member_string(json_member(x->pod, "metadata"), "uid"),
		json_member_string(json_member(y->pod, "metadata"), "uid"));
}

/* Returns 1 if a move was found. */
static int find_move(struct search *search, enum gain gain, struct error *err)
{
	char why[PLAN_WHY_SIZE];
	size_t tries = 0;

	for (size_t i = 0; i < search->n_movers; i++) {
		struct mover *mover = &search->movers[i];
		int r;

		if (mover->moved || (gain == GAIN_RUNS && !makes_room(search, mover)) ||
			(gain == GAIN_WHOLE && !look_at(search, mover)))
			continue;
		r = plan_may_evict(search->world, &search->spent, mover->pod, why);
		if (r < 0)
			return error_set(err, ENOMEM, "out of memory");
		if (r != PLAN_RUNS)
			continue;
		if (tries++ == RELOCATE_TRIES) {
			search->moves->tries_ended = true;
			break;
		}
		r = try_move(search, mover, gain, err);
		if (r != 0)
			return r;
	}
	return 0;
}

/* ---- the pods ---- */

static bool is_considered(const struct plan_world *world, const struct pod_facts *facts)
{
	return !facts->gang && !facts->request.group && !core_policy_space(world->core, facts->namespace_);
}

static int add_mover(struct search *search, struct json_object *pod)
{
	const char *uid = json_member_string(json_member(pod, "metadata"), "uid"),
		   *phase = json_member_string(json_member(pod, "status"), "phase");
	const struct ledger_pod *held = uid ? ledger_pod(&search->world->core->ledger, uid) : NULL;
	struct mover *mover = &search->movers[search->n_movers];

	if (!held || held->occupancy != OCCUPANCY_BOUND || !held->has_placement || held->resize ||
		held->facts.deleting || !phase || strcmp(phase, "Running") != 0 ||
		!is_considered(search->world, &held->facts) ||
		json_member(json_member(pod, "spec"), "resourceClaims"))
		return 0;
	mover->pod = pod;
	pod_facts_init(&mover->facts);
	search->n_movers++;
	if (pod_facts_copy(&held->facts, &mover->facts) < 0)
		return -ENOMEM;
	placement_release(&mover->facts.placement);
	if (placement_copy(&held->placement, &mover->facts.placement) < 0)
		return -ENOMEM;
	mover->facts.has_placement = true;
	return quantities_of_pod(pod, &mover->requests);
}

/* The pod is tried as it is; kube-scheduler would do that without a move, too. */
static int add_waiter(struct search *search, const struct plan_move *move, struct error *err)
{
	const char *uid = json_member_string(json_member(move->pod, "metadata"), "uid");
	const struct ledger_pod *known = uid ? ledger_pod(&search->world->core->ledger, uid) : NULL;
	struct waiter *waiter = &search->waiters[search->n_waiters];
	struct plan_pod pod = {0};
	struct error ignored;
	int r;

	waiter->object = plan_replacement(move->pod);
	if (!waiter->object)
		return error_set(err, ENOMEM, "out of memory");
	r = plan_pod_read(waiter->object, ++search->number, &pod, &ignored);
	if (r < 0 || !is_considered(search->world, &pod.facts) ||
		(known && (known->occupancy != OCCUPANCY_WAITING || known->nomination))) {
		search->moves->unconsidered++;
		search->moves->waited++;
	} else if (!request_is_empty(&pod.facts.request)) {
		waiter->move = move;
		waiter->facts = pod.facts;
		pod_facts_init(&pod.facts);
		search->n_waiters++;
		plan_pod_release(&pod);
		return place(search, waiter->object, search->n_waiters - 1, err);
	}
	json_object_put(waiter->object);
	plan_pod_release(&pod);
	return 0;
}

static int read_pods(struct search *search, struct json_object *const *pods, size_t n, struct error *err)
{
	int r = 0;

	search->movers = calloc(n + 1, sizeof(*search->movers));
	search->waiters = calloc(n + 1, sizeof(*search->waiters));
	if (!search->movers || !search->waiters)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (add_mover(search, pods[i]) < 0)
			return error_set(err, ENOMEM, "out of memory");
	r = plan_list_waiting(pods, n, &search->order);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r >= 0 && i < search->order.n; i++)
		r = add_waiter(search, &search->order.list[i], err);
	search->moves->fits_now = search->n_bound;
	search->moves->waited += search->n_waiters - search->n_bound;
	forget_bound(search, false);
	return r < 0 ? r : 0;
}

/* ---- all ---- */

static int search_moves(struct search *search, size_t max, void (*progress)(void *userdata, size_t found),
	void *userdata, struct error *err)
{
	int r = 1;

	while (r == 1 && search->moves->n < max) {
		if (progress)
			progress(userdata, search->moves->n);
		for (size_t i = 0; i < search->n_movers; i++)
			look_at(search, &search->movers[i]);
		if (search->n_movers)
			qsort(search->movers, search->n_movers, sizeof(*search->movers), compare_movers);
		r = 0;
		for (int gain = 0; r == 0 && gain < GAIN_MAX; gain++)
			r = find_move(search, (enum gain)gain, err);
	}
	return r < 0 ? r : 0;
}

/* The last move is one after which pods run or a whole GPU is free. */
static void drop_vain_moves(struct relocations *moves)
{
	while (moves->n && !moves->list[moves->n - 1].runs.n && moves->list[moves->n - 1].whole <= 0) {
		struct relocation *move = &moves->list[--moves->n];

		moves->dropped++;
		plan_outcome_release(&move->from);
		plan_outcome_release(&move->to);
		plan_moves_release(&move->runs);
	}
}

int plan_relocate(struct plan_world *world, struct json_object *const *pods, size_t n, size_t max,
	void (*progress)(void *userdata, size_t found), void *userdata, struct relocations *ret_moves,
	struct error *err)
{
	struct search search = {.world = world, .moves = ret_moves};
	int r;

	*ret_moves = (struct relocations){0};
	table_init(&search.spent);
	r = read_pods(&search, pods, n, err);
	ret_moves->whole_before = plan_whole_free(world);
	if (r == 0)
		r = search_moves(&search, max, progress, userdata, err);
	drop_vain_moves(ret_moves);
	ret_moves->waits = ret_moves->waited;
	ret_moves->whole = ret_moves->whole_before;
	for (size_t i = 0; i < ret_moves->n; i++) {
		ret_moves->waits -= ret_moves->list[i].runs.n;
		ret_moves->whole += ret_moves->list[i].whole;
	}
	search_release(&search);
	return r;
}
