/* Keeps GPUs for a gang that has waited too long. */
#include "core/gang/gang.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/gang/gang-internal.h"
#include "core/gang/gang-plan.h"
#include "core/placement/choose.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"

/* Each evaluation renews this time. If evaluations stop, the GPUs are released soon. */
#define KEPT_NS (5 * NS_PER_S)
#define FIT_CHECK_EVERY_NS NS_PER_S

/* ---- room beside what is kept for others ---- */

/* What a GPU has for one member after what is kept there for others; negative where more is kept. */
struct gpu_room {
	const struct gpu_ledger *gpu;
	int64_t units, core, instances;
};

static bool is_kept_for_other(const struct nomination *nomination, const struct pod_facts *pod)
{
	return nomination->pod->occupancy == OCCUPANCY_WAITING &&
	       strcmp(nomination->shadow.facts.uid, pod->uid) != 0;
}

/* now: the pods on the GPU count, too; otherwise the GPU counts as if they had gone. */
static struct gpu_room gpu_room(
	const struct node_ledger *node, const struct gpu_ledger *gpu, const struct pod_facts *pod, bool now)
{
	struct gpu_room room = {.gpu = gpu,
		.units = (int64_t)gpu->units_total - (now ? gpu->units_used : 0),
		.core = (int64_t)CORE_PER_GPU - (now ? gpu->core_used : 0),
		.instances = gpu->instances_max ? (int64_t)gpu->instances_max - (now ? gpu->instances : 0)
						: INT64_MAX};

	list_for_each (item, &node->nominations) {
		const struct nomination *nomination = list_entry(item, struct nomination, item);
		const struct ledger_pod *kept = &nomination->shadow;
		uint32_t units = placement_units_on(&kept->placement, &kept->facts.request, gpu->facts.uuid);

		if (!units || !is_kept_for_other(nomination, pod))
			continue;
		room.units -= units;
		room.core -= placement_core_on(&kept->placement, &kept->facts.request, gpu->facts.uuid);
		if (gpu->instances_max)
			room.instances -= kept->facts.request.instances;
	}
	return room;
}

static bool room_suits(const struct gpu_room *room, const struct request *request)
{
	return room->gpu->facts.healthy && room->units >= (int64_t)request_units_per_gpu(request) &&
	       room->core >= (int64_t)request->core && room->instances >= (int64_t)request->instances;
}

/* True if pods with and without a percentage must not meet on this node, and it is kept for a pod of the
 * other kind. */
static bool kept_mixes(const struct node_ledger *node, const struct pod_facts *pod)
{
	if (node->facts.mode != GPU_MODE_CORE_MEM || node->facts.mixing)
		return false;
	list_for_each (item, &node->nominations) {
		const struct nomination *nomination = list_entry(item, struct nomination, item);

		if (is_kept_for_other(nomination, pod) &&
			!nomination->shadow.facts.request.core != !pod->request.core)
			return true;
	}
	return false;
}

static bool node_suits(const struct node_ledger *node, const struct pod_facts *pod)
{
	return node_ledger_serves(node, &pod->request) == FITS && !kept_mixes(node, pod);
}

/* Is there room for the member after all that is kept for others: at once (now), or when the pods that are
 * there have gone? With this check, what is kept for a gang is always room for all of it. */
static bool place_suits(const struct node_ledger *node, const struct placement *placement,
	const struct pod_facts *pod, bool now)
{
	const struct request *request = &pod->request;
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(placement, gpus);

	if (!node_suits(node, pod) || (now && !node_ledger_has_room(node, request, placement)))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, gpus[i]->uuid);
		struct gpu_room room;

		if (!gpu)
			return false;
		room = gpu_room(node, gpu, pod, now);
		if (!room_suits(&room, request))
			return false;
	}
	return true;
}

static int compare_room(const void *pa, const void *pb)
{
	const struct gpu_room *a = pa, *b = pb;

	if (a->units != b->units)
		return a->units > b->units ? -1 : 1;
	return a->gpu->facts.index < b->gpu->facts.index ? -1 : a->gpu->facts.index > b->gpu->facts.index;
}

/* The member has waited long enough for this GPU, which may never become free. */
static bool is_avoided(const struct nomination *avoid, const struct node_ledger *node,
	const struct gpu_ledger *gpu, const struct pod_facts *pod)
{
	struct gpu_room room;

	if (!avoid || avoid->node != node ||
		!placement_units_on(&avoid->shadow.placement, &avoid->shadow.facts.request, gpu->facts.uuid))
		return false;
	room = gpu_room(node, gpu, pod, true);
	return !room_suits(&room, &pod->request);
}

/* The GPUs that could serve the member when the pods on them have gone. The emptiest comes first, each with
 * what it has now. Left out are GPUs of `avoid` (NULL: none) that are not free, because the member has waited
 * for them long enough. Returns the number of GPUs. */
static size_t emptiest_gpus(const struct node_ledger *node, const struct pod_facts *pod,
	const struct nomination *avoid, struct gpu_room rooms[NODE_GPUS_MAX])
{
	size_t n = 0;

	if (!node_suits(node, pod))
		return 0;
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		struct gpu_room room = gpu_room(node, &node->gpus[i], pod, false);

		if (room_suits(&room, &pod->request) && !is_avoided(avoid, node, &node->gpus[i], pod))
			rooms[n++] = gpu_room(node, &node->gpus[i], pod, true);
	}
	qsort(rooms, n, sizeof(*rooms), compare_room);
	return n;
}

/* ---- one evaluation for one gang ---- */

/* The units that are free on the fullest of the GPUs that the node would have to free for one member. */
struct node_most {
	struct node_ledger *node;
	int64_t most; /* NODE_NONE: too few of its GPUs could serve the member */
};
#define NODE_NONE INT64_MIN

/* Members with the same request share one evaluation of the nodes. Nearly all members of gangs of hundreds
 * do. */
struct keeping {
	struct gangs *gangs;
	struct gang *gang;
	struct ledger *ledger;
	int64_t now_ns;
	struct pod_facts
		anybody; /* borrowed: the request that `nodes` was made for; nothing is kept for this pod */
	bool has_looked; /* `nodes` is valid for that request */
	struct node_most *nodes; /* by name */
	size_t n_nodes;
};

static void keeping_release(struct keeping *keeping)
{
	free(keeping->nodes);
}

static int64_t node_most(
	const struct node_ledger *node, const struct pod_facts *pod, const struct nomination *avoid)
{
	struct gpu_room rooms[NODE_GPUS_MAX];
	uint32_t wanted = request_gpus(&pod->request);

	return emptiest_gpus(node, pod, avoid, rooms) < wanted ? NODE_NONE : rooms[wanted - 1].units;
}

static int compare_name(const void *pa, const void *pb)
{
	const struct node_most *a = pa, *b = pb;

	return strcmp(a->node->facts.name, b->node->facts.name);
}

static int keeping_collect_nodes(struct keeping *keeping)
{
	struct node_ledger *node;

	if (keeping->nodes)
		return 0;
	keeping->nodes = calloc(keeping->ledger->nodes.count + 1, sizeof(*keeping->nodes));
	if (!keeping->nodes)
		return -ENOMEM;
	table_for_each (&keeping->ledger->nodes, cursor, node)
		if (node->facts.n_gpus)
			keeping->nodes[keeping->n_nodes++].node = node;
	qsort(keeping->nodes, keeping->n_nodes, sizeof(*keeping->nodes), compare_name);
	return 0;
}

static bool keeping_is_for(const struct keeping *keeping, const struct gang_member *member)
{
	return keeping->has_looked && gang_same_request(&keeping->anybody.request, &member->facts.request);
}

static int keeping_look(struct keeping *keeping, const struct gang_member *member)
{
	if (keeping_is_for(keeping, member))
		return 0;
	if (keeping_collect_nodes(keeping) < 0)
		return -ENOMEM;
	keeping->anybody = member->facts;
	keeping->anybody.uid = (char *)"";
	for (size_t i = 0; i < keeping->n_nodes; i++)
		keeping->nodes[i].most = node_most(keeping->nodes[i].node, &keeping->anybody, NULL);
	keeping->has_looked = true;
	return 0;
}

/* What is kept on the node has changed. The node may be gone. */
static void keeping_changed(
	struct keeping *keeping, const struct gang_member *member, const struct node_ledger *node)
{
	keeping->has_looked = keeping_is_for(keeping, member);
	for (size_t i = 0; keeping->has_looked && node && i < keeping->n_nodes; i++)
		if (keeping->nodes[i].node == node)
			keeping->nodes[i].most = node_most(node, &keeping->anybody, NULL);
}

static const struct nomination *kept_for(const struct ledger *ledger, const struct gang_member *member)
{
	const struct ledger_pod *known = ledger_pod(ledger, member->facts.uid);

	return known ? known->nomination : NULL;
}

static int keep(struct keeping *keeping, struct gang_member *member, struct node_ledger *node,
	const struct placement *placement)
{
	const struct nomination *kept = kept_for(keeping->ledger, member);
	const struct node_ledger *left = kept ? kept->node : NULL;
	int r = ledger_nominate(
		keeping->ledger, &member->facts, node->facts.name, placement, keeping->now_ns + KEPT_NS);

	member->kept_ns = keeping->now_ns;
	if (r < 0)
		return r;
	keeping_changed(keeping, member, left);
	keeping_changed(keeping, member, node);
	gang_tell(keeping->gangs, &(struct gang_event){.kind = GANG_EVENT_KEPT,
					  .gang = member->gang,
					  .slots = &(struct gang_slot){.pod = &member->facts,
						  .node = node,
						  .placement = *placement},
					  .n_slots = 1});
	return 0;
}

/* Keeps the GPUs of the node that have most free already. */
static int keep_on(struct keeping *keeping, struct gang_member *member, struct node_ledger *node,
	const struct nomination *avoid)
{
	const struct gpu_ledger *gpus[NODE_GPUS_MAX];
	struct gpu_room rooms[NODE_GPUS_MAX];
	_cleanup_placement_ struct placement placement;
	size_t n = emptiest_gpus(node, &member->facts, avoid, rooms);
	int r;

	placement_init(&placement);
	for (size_t i = 0; i < n; i++)
		gpus[i] = rooms[i].gpu;
	r = placement_on_gpus(node, gpus, &member->facts.request, &placement);
	return r < 0 ? r : keep(keeping, member, node, &placement);
}

/* Chooses the node where the least has to become free, but not the GPUs of `avoid`, which were kept for this
 * member until now. */
static int keep_emptiest(struct keeping *keeping, struct gang_member *member, const struct nomination *avoid)
{
	struct node_ledger *best = NULL;
	int64_t most = NODE_NONE;

	member->kept_ns = keeping->now_ns;
	if (keeping_look(keeping, member) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < keeping->n_nodes; i++) {
		struct node_ledger *node = keeping->nodes[i].node;
		int64_t here = avoid && avoid->node == node ? node_most(node, &member->facts, avoid)
							    : keeping->nodes[i].most;

		if (here <= most)
			continue;
		best = node;
		most = here;
	}
	return best ? keep_on(keeping, member, best, avoid) : -ENOSPC;
}

/* What is kept for the member stays the same, with two exceptions: other GPUs are free and these are not, or
 * these have not become free for too long. False: nothing can be kept for the member beside the others. */
static bool keep_for(struct keeping *keeping, struct gang_member *member, const struct gang_slot *slot)
{
	const struct nomination *kept = kept_for(keeping->ledger, member);
	bool is_free = kept && place_suits(kept->node, &kept->shadow.placement, &member->facts, true);

	if (!is_free && slot->node && place_suits(slot->node, &slot->placement, &member->facts, true))
		return keep(keeping, member, slot->node, &slot->placement) == 0;
	if (is_free)
		member->kept_ns = keeping->now_ns;
	if ((!kept || keeping->now_ns - member->kept_ns > keeping->gangs->rules.keep_after_ns) &&
		keep_emptiest(keeping, member, kept) == 0)
		return true;
	ledger_nomination_set_end(keeping->ledger, member->facts.uid, keeping->now_ns + KEPT_NS);
	return kept != NULL;
}

/* Members of the gang that have no place yet. */
static size_t waiting_members(const struct gang *gang, struct gang_member **members)
{
	size_t n = 0;

	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (member->stage == GANG_WAITING && gang_member_needs_gpu(member) && n < GANG_SLOTS_MAX)
			members[n++] = member;
	}
	return n;
}

/* The member that needs least comes first. */
static int compare_need(const void *pa, const void *pb)
{
	const struct gang_member *a = *(struct gang_member *const *)pa;
	const struct gang_member *b = *(struct gang_member *const *)pb;
	int r = gang_compare_size(&a->facts.request, &b->facts.request);

	return r ? r : strcmp(a->facts.uid, b->facts.uid);
}

/* Moves the members for whom GPUs are kept already, or whose slot has a node, before the others. Returns
 * their number. */
static size_t chosen_first(
	const struct ledger *ledger, struct gang_member **members, const struct gang_slot *slots, size_t n)
{
	size_t chosen = 0;

	for (size_t i = 0; i < n; i++) {
		struct gang_member *member = members[i];

		if (slots ? !slots[i].node : !kept_for(ledger, member))
			continue;
		memmove(members + chosen + 1, members + chosen, (i - chosen) * sizeof(struct gang_member *));
		members[chosen++] = member;
	}
	return chosen;
}

/* Called when there is no room for all after each member chose by itself. Keeps what the members would get in
 * an empty cluster. */
static bool keep_as_if_empty(
	struct keeping *keeping, struct gang_member **members, struct gang_slot *slots, size_t n)
{
	gang_slots_release(slots, n);
	if (!gang_fits_empty(keeping->ledger, slots, n, n))
		return false;
	for (size_t i = 0; i < n; i++)
		keep(keeping, members[i], slots[i].node, &slots[i].placement);
	return true;
}

/* The members that are hardest to place choose first. False: there would never be room for all of these
 * members. */
static bool keep_for_all(
	struct keeping *keeping, struct gang_member **members, struct gang_slot *slots, size_t n)
{
	struct ledger *ledger = keeping->ledger;
	bool all = true;

	for (size_t i = n; i-- > 0;) {
		const struct nomination *kept = kept_for(ledger, members[i]);

		if (kept && !place_suits(kept->node, &kept->shadow.placement, &members[i]->facts, false))
			ledger_drop_nomination(ledger, members[i]->facts.uid);
	}
	if (gang_plan_most(ledger, slots, n) < 0)
		return true;
	for (size_t i = n; i-- > 0;)
		all &= keep_for(keeping, members[i], &slots[i]);
	return all || keep_as_if_empty(keeping, members, slots, n);
}

static size_t slots_for(struct gang_slot *slots, struct gang_member *const *members, size_t n, size_t needed)
{
	if (n > needed)
		n = needed;
	for (size_t i = 0; i < n; i++)
		slots[i] = (struct gang_slot){.pod = &members[i]->facts};
	return n;
}

/* Other pods must not wait for a gang that can never fit. To find out, this function takes all pods out of
 * the sums and puts them back. It does so in vain once a second at most. The result holds until a node or the
 * gang changes. */
static bool fits_at_all(struct keeping *keeping, struct gang_slot *slots, size_t n, size_t needed)
{
	struct gangs *gangs = keeping->gangs;
	struct gang *gang = keeping->gang;
	int64_t now_ns = keeping->now_ns;

	if (gang->hopeless_capacity == keeping->ledger->capacity)
		return false;
	if (gangs->fit_check_ns && now_ns - gangs->fit_check_ns < FIT_CHECK_EVERY_NS)
		return false;
	if (gang_fits_empty(keeping->ledger, slots, n, needed))
		return true;
	gangs->fit_check_ns = now_ns;
	gang->hopeless_capacity = keeping->ledger->capacity;
	return false;
}

/* Moves the members for whom GPUs are kept to the front. False: the gang can never fit, so no GPUs are kept
 * for it. */
static bool choose_members(struct keeping *keeping, struct gang_member **members, struct gang_slot *slots,
	size_t n, size_t needed)
{
	bool fits;

	qsort(members, n, sizeof(struct gang_member *), compare_need);
	if (chosen_first(keeping->ledger, members, NULL, n) >= needed)
		return true;
	slots_for(slots, members, n, n);
	fits = fits_at_all(keeping, slots, n, needed);
	if (fits)
		chosen_first(keeping->ledger, members, slots, n);
	gang_slots_release(slots, n);
	return fits;
}

static void drop_nominations(const struct gang *gang, struct ledger *ledger)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->stage != GANG_PLACED)
			ledger_drop_nomination(ledger, member_of(item)->facts.uid);
}

void gang_let_go(struct gangs *gangs, struct gang *gang, struct ledger *ledger)
{
	if (gangs->kept != gang)
		return;
	gangs->kept = NULL;
	drop_nominations(gang, ledger);
}

void gang_goes_before_kept(struct gangs *gangs, const struct gang *gang, struct ledger *ledger)
{
	if (gangs->kept && gang_has_plan(gang) && gang_is_before(gang, gangs->kept))
		gang_let_go(gangs, gangs->kept, ledger);
}

static bool waits_too_long(const struct gangs *gangs, const struct gang *gang, int64_t now_ns)
{
	return gang->waiting_ns && now_ns >= gang->waiting_ns + gangs->rules.keep_after_ns &&
	       gang_is_asked_for(gang, now_ns);
}

void gang_keep_held(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	struct keeping keeping = {.gangs = gangs, .gang = gang, .ledger = ledger, .now_ns = now_ns};

	if (!waits_too_long(gangs, gang, now_ns) || (gangs->kept && gang_is_before(gangs->kept, gang)))
		return;
	if (gangs->kept && gangs->kept != gang)
		gang_let_go(gangs, gangs->kept, ledger);
	gangs->kept = gang;
	list_for_each (item, &gang->members) {
		const struct ledger_pod *known = ledger_pod(ledger, member_of(item)->facts.uid);

		if (known && known->occupancy == OCCUPANCY_TENTATIVE && known->has_placement)
			keep(&keeping, member_of(item), table_get(&ledger->nodes, known->node),
				&known->placement);
	}
}

static bool keep_for_gang(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	_cleanup_(keeping_release) struct keeping keeping = {
		.gangs = gangs, .gang = gang, .ledger = ledger, .now_ns = now_ns};
	struct gang_member *members[GANG_SLOTS_MAX];
	size_t n = waiting_members(gang, members), placed = gang_count(gang).members - n;
	uint32_t min = gang_min(gangs, gang);
	size_t needed = min > placed ? min - placed : 0;
	_cleanup_free_ struct gang_slot *slots = calloc(n + 1, sizeof(*slots));
	bool kept;

	if (!slots || !needed)
		return gangs->kept == gang;
	if (!choose_members(&keeping, members, slots, n, needed)) {
		gang_let_go(gangs, gang, ledger);
		return false;
	}
	for (size_t i = needed; i < n; i++)
		ledger_drop_nomination(ledger, members[i]->facts.uid);
	qsort(members, needed, sizeof(struct gang_member *), compare_need);
	n = slots_for(slots, members, n, needed);
	kept = keep_for_all(&keeping, members, slots, n);
	gang_slots_release(slots, n);
	if (!kept)
		drop_nominations(gang, ledger);
	return kept;
}

int64_t gangs_keep_for_first(struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns)
{
	int64_t again_ns = INT64_MAX;
	struct gang *first = NULL;

	for (size_t i = 0; all[i]; i++) {
		int64_t until_ns = all[i]->waiting_ns + gangs->rules.keep_after_ns;
		bool waits = waits_too_long(gangs, all[i], now_ns) && !gang_has_plan(all[i]);

		if (waits && !first && keep_for_gang(gangs, all[i], ledger, now_ns))
			first = all[i];
		else
			gang_let_go(gangs, all[i], ledger);
		if (waits && now_ns + NS_PER_S < again_ns)
			again_ns = now_ns + NS_PER_S;
		else if (all[i]->waiting_ns && now_ns < until_ns && until_ns < again_ns)
			again_ns = until_ns;
	}
	gangs->kept = first;
	return again_ns;
}
