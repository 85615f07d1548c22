#include "plan/relocate-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/array.h"
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

struct measure {
	int64_t runs, whole;
	uint64_t square; /* of free MiB, summed */
};

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

static void search_release(struct relocate_search *search)
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
		relocate_bound_release(&search->bound[i]);
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

static struct measure take_measure(const struct relocate_search *search)
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

/* The evicted pod has ended. Before that is said, the scheduler keeps the GPU of a pod whose containers ran.
 */
static int end_mover(struct relocate_search *search, struct relocate_mover *mover)
{
	struct pod_facts ended = mover->facts; /* borrowed */
	int r;

	ended.finished = ended.succeeded = true;
	r = core_see_pod(search->world->core, &ended, 0, search->world->now_ns);
	relocate_remove(search, mover->facts.uid, mover->facts.node, &mover->requests);
	return r < 0 ? r : 0;
}

/* For the core the pod with the old uid has ended, so it returns with a new uid. */
static int put_back(struct relocate_search *search, struct relocate_mover *mover)
{
	struct plan_world *world = search->world;
	int r = relocate_set_uid(search, &mover->facts);

	if (r == 0)
		r = core_see_pod(world->core, &mover->facts, 0, world->now_ns);
	if (r == 0 && world->kube)
		r = kube_nodes_place(world->kube, mover->facts.node, &mover->requests);
	return r < 0 ? r : 0;
}

/* Tries the pods that wait from *next on, as long as they are not below this priority. They had no
 * room before the move, so only the node that the pod has left can have room for them now; of a gang, for one
 * of its pods at least. */
static int place_waiters(
	struct relocate_search *search, const char *node, int64_t lowest, size_t *next, struct error *err)
{
	int r = 0;

	for (; r >= 0 && *next < search->n_waiters; (*next)++) {
		if (search->waiters[*next].move->priority < lowest)
			break;
		if (relocate_is_next(search, *next) && relocate_has_room(search, *next, node))
			r = relocate_place_waiter(search, *next, err);
	}
	return r < 0 ? r : 0;
}

/* Whether the pod's GPUs must be cordoned. A whole GPU takes no new pod while the old one has it. */
static bool mover_holds(const struct relocate_mover *mover)
{
	return !mover->facts.request.whole;
}

/* Whether the new pod exists while the old one still ends. A StatefulSet's new pod has the name of the old
 * one. A ReplicaSet or a Job (by default) creates it as soon as the old one is being deleted (1.36). */
static bool comes_early(struct json_object *pod)
{
	const char *kind = json_member_string(plan_controller(pod), "kind");

	return !kind || strcmp(kind, "StatefulSet") != 0;
}

/* Tries the new pod after the old one has ended. Returns 1 if the new one is bound, 0 if not. */
static int place_late(struct relocate_search *search, struct relocate_mover *mover,
	struct json_object *next_pod, struct error *err)
{
	size_t next = 0;
	int r;

	if (end_mover(search, mover) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = comes_early(mover->pod) ? 0 : relocate_wait(search, next_pod, NULL, err);
	if (r == 0)
		r = place_waiters(search, mover->facts.node, mover->facts.priority, &next, err);
	return r < 0 ? r : relocate_place(search, next_pod, SIZE_MAX, err);
}

/* Evicts the pod, while its GPUs take no new pods. Returns 1 if it runs again, 0 if not. */
static int carry_out(struct relocate_search *search, struct relocate_mover *mover,
	struct json_object *next_pod, struct error *err)
{
	const struct placement *from = mover_holds(mover) ? &mover->facts.placement : NULL;
	uint64_t cordoned;
	bool early;
	size_t next = 0;
	int r = 0;

	if (plan_cordon_gpus(search->world, mover->facts.node, from, &cordoned) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (comes_early(mover->pod))
		r = relocate_wait(search, next_pod, NULL, err);
	if (r == 0 && comes_early(mover->pod))
		r = relocate_place(search, next_pod, SIZE_MAX, err);
	early = r == 1;
	if (r == 0)
		r = place_late(search, mover, next_pod, err);
	if (plan_uncordon_gpus(search->world, mover->facts.node, cordoned) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	if (r == 0)
		core_pod_is_gone(search->world->core,
			json_member_string(json_member(next_pod, "metadata"), "uid"), true,
			search->world->now_ns);
	if (r != 1)
		return r;
	if (early && end_mover(search, mover) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = place_waiters(search, mover->facts.node, INT32_MIN, &next, err);
	return r < 0 ? r : 1;
}

static int keep(struct relocate_search *search, struct relocate_mover *mover, int64_t whole)
{
	struct relocations *moves = search->moves;
	struct relocation *move;
	struct json_object *metadata = json_member(mover->pod, "metadata");

	if (array_room(&moves->list, moves->n, sizeof(*move)) < 0)
		return -ENOMEM;
	move = &moves->list[moves->n++];
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
		struct relocate_bound *bound = &search->bound[i];

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
	relocate_forget(search);
	return plan_spend_budget(search->world, &search->spent, mover->pod);
}

/* Sets *ret_next to the pod that is created after the eviction; NULL: a label or annotation of the running
 * pod is invalid now, so it does not say what the next pod asks for. */
static int make_next(const struct relocate_mover *mover, struct json_object **ret_next)
{
	_cleanup_json_ struct json_object *next = plan_replacement(mover->pod);
	struct plan_pod pod = {0};
	struct error why;
	int r = next ? plan_pod_read(next, 0, &pod, &why) : -ENOMEM;

	plan_pod_release(&pod);
	*ret_next = r == 0 ? TAKE_PTR(next) : NULL;
	return r == -ENOMEM ? r : 0;
}

/* Returns 1 if the move is kept, 0 if it is taken back. */
static int try_move(
	struct relocate_search *search, struct relocate_mover *mover, enum gain gain, struct error *err)
{
	_cleanup_json_ struct json_object *next_pod = NULL;
	struct measure before = take_measure(search), after;
	int r = make_next(mover, &next_pod);

	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (!next_pod)
		return 0;
	r = carry_out(search, mover, next_pod, err);
	search->moves->tried++;
	if (r < 0)
		return r;
	after = take_measure(search);
	if (r == 1 && gains(gain, &before, &after)) {
		r = keep(search, mover, after.whole - before.whole);
		return r < 0 ? error_set(err, ENOMEM, "out of memory") : 1;
	}
	r = relocate_undo(search, err);
	return r == 0 && put_back(search, mover) < 0 ? error_set(err, ENOMEM, "out of memory") : r;
}

/* ---- which pods are tried ---- */

/* Whether a waiting pod would have room on the pod's node without the pod. */
static bool makes_room(struct relocate_search *search, const struct relocate_mover *mover)
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

/* Sets mover->used and mib; returns whether it is alone on one of its GPUs. */
static bool look_at(struct relocate_search *search, struct relocate_mover *mover)
{
	const struct node_ledger *node = ledger_node(&search->world->core->ledger, mover->facts.node);
	const struct gpu_share *shares[NODE_GPUS_MAX];
	size_t n = placement_gpus(&mover->facts.placement, shares);
	bool alone = false;

	mover->used = 0;
	mover->mib = 0;
	for (size_t i = 0; node && i < n; i++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, shares[i]->uuid);
		uint32_t units = placement_units_on(
			&mover->facts.placement, &mover->facts.request, shares[i]->uuid);
		uint64_t used = gpu ? (uint64_t)gpu->units_used * node->facts.unit_mib : UINT32_MAX;

		alone |= gpu && gpu->units_used == units;
		mover->mib += (uint64_t)units * node->facts.unit_mib;
		if (used > mover->used)
			mover->used = used > UINT32_MAX ? UINT32_MAX : (uint32_t)used;
	}
	return alone;
}

static int compare_movers(const void *a, const void *b)
{
	const struct relocate_mover *x = a, *y = b;

	if (x->used != y->used)
		return x->used < y->used ? -1 : 1;
	if (x->mib != y->mib)
		return x->mib < y->mib ? -1 : 1;
	return strcmp(json_member_string(json_member(x->pod, "metadata"), "uid"),
		json_member_string(json_member(y->pod, "metadata"), "uid"));
}

/* Returns 1 if a move was found. */
static int find_move(struct relocate_search *search, enum gain gain, struct error *err)
{
	char why[PLAN_WHY_SIZE];
	size_t tries = 0;

	for (size_t i = 0; i < search->n_movers; i++) {
		struct relocate_mover *mover = &search->movers[i];
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

/* ---- all ---- */

static int search_moves(struct relocate_search *search, size_t max,
	void (*progress)(void *userdata, size_t found), void *userdata, struct error *err)
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

/* Drops the last moves until one lets pods run or frees a whole GPU. */
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
	struct relocate_search search = {.world = world, .moves = ret_moves};
	int r;

	*ret_moves = (struct relocations){0};
	table_init(&search.spent);
	r = relocate_read_pods(&search, pods, n, err);
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
