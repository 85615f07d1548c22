#include "model/gang.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/gang-internal.h"
#include "model/gang-plan.h"
#include "model/node-ledger.h"
#include "model/nomination.h"

/* Renewed while we look; if we do not look any more, nothing is kept for long. */
#define KEPT_NS (5 * NS_PER_S)
#define FIT_CHECK_EVERY_NS NS_PER_S
#define HOPELESS_NS (600 * NS_PER_S)

/* What a card has for one member beside what is kept there for others; negative where more is kept. */
struct card_room {
	const struct gpu_ledger *gpu;
	int64_t units, core, instances;
};

static bool is_kept_for_other(const struct nomination *nomination, const struct gang_member *member)
{
	return nomination->pod->occupancy == OCCUPANCY_WAITING &&
	       strcmp(nomination->shadow.facts.uid, member->facts.uid) != 0;
}

/* now: beside those who are there, too; otherwise as if they had gone. */
static struct card_room card_room(const struct node_ledger *node, const struct gpu_ledger *gpu,
	const struct gang_member *member, bool now)
{
	struct card_room room = {.gpu = gpu,
		.units = (int64_t)gpu->units_total - (now ? gpu->units_used : 0),
		.core = (int64_t)CORE_PER_CARD - (now ? gpu->core_used : 0),
		.instances = gpu->instances_max ? (int64_t)gpu->instances_max - (now ? gpu->instances : 0)
						: INT64_MAX};

	list_for_each (item, &node->nominations) {
		const struct nomination *nomination = list_entry(item, struct nomination, item);
		const struct ledger_pod *kept = &nomination->shadow;
		uint32_t units = placement_units_on(&kept->placement, &kept->facts.request, gpu->uuid);

		if (!units || !is_kept_for_other(nomination, member))
			continue;
		room.units -= units;
		room.core -= placement_core_on(&kept->placement, &kept->facts.request, gpu->uuid);
		if (gpu->instances_max)
			room.instances -= kept->facts.request.instances;
	}
	return room;
}

static bool room_suits(const struct card_room *room, const struct request *request)
{
	return room->gpu->healthy && room->units >= (int64_t)request_units_per_card(request) &&
	       room->core >= (int64_t)request->core && room->instances >= (int64_t)request->instances;
}

/* Pods with and without a percentage may not meet there, and what is kept is for the other kind. */
static bool kept_mixes(const struct node_ledger *node, const struct gang_member *member)
{
	if (node->facts.mode != GPU_MODE_CORE_MEM || node->facts.mixing)
		return false;
	list_for_each (item, &node->nominations) {
		const struct nomination *nomination = list_entry(item, struct nomination, item);

		if (is_kept_for_other(nomination, member) &&
			!nomination->shadow.facts.request.core != !member->facts.request.core)
			return true;
	}
	return false;
}

static bool node_suits(const struct node_ledger *node, const struct gang_member *member)
{
	return node_ledger_serves(node, &member->facts.request) == FITS && !kept_mixes(node, member);
}

static const struct gpu_ledger *card_of(const struct node_ledger *node, const char *uuid)
{
	for (size_t i = 0; i < node->facts.n_gpus; i++)
		if (strcmp(node->gpus[i].uuid, uuid) == 0)
			return &node->gpus[i];
	return NULL;
}

/* Could the member be there beside all that is kept for others: at once (now), or when those who are there
 * have gone? So what is kept for a gang is always room for all of it. */
static bool place_suits(const struct node_ledger *node, const struct placement *placement,
	const struct gang_member *member, bool now)
{
	const struct request *request = &member->facts.request;
	const struct card_share *cards[NODE_GPUS_MAX];
	size_t n = placement_cards(placement, cards);

	if (!node_suits(node, member) || (now && !node_ledger_has_room(node, request, placement)))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct gpu_ledger *gpu = card_of(node, cards[i]->uuid);
		struct card_room room;

		if (!gpu)
			return false;
		room = card_room(node, gpu, member, now);
		if (!room_suits(&room, request))
			return false;
	}
	return true;
}

static int compare_room(const void *pa, const void *pb)
{
	const struct card_room *a = pa, *b = pb;

	if (a->units != b->units)
		return a->units > b->units ? -1 : 1;
	return a->gpu->index < b->gpu->index ? -1 : a->gpu->index > b->gpu->index;
}

/* A card where the member has waited long enough: perhaps it never becomes free. */
static bool is_avoided(const struct nomination *avoid, const struct node_ledger *node,
	const struct gpu_ledger *gpu, const struct gang_member *member)
{
	struct card_room room;

	if (!avoid || avoid->node != node ||
		!placement_units_on(&avoid->shadow.placement, &avoid->shadow.facts.request, gpu->uuid))
		return false;
	room = card_room(node, gpu, member, true);
	return !room_suits(&room, &member->facts.request);
}

/* The emptiest cards that could serve the member, best first. Returns how many there are. */
static size_t emptiest_cards(const struct node_ledger *node, const struct gang_member *member,
	const struct nomination *avoid, struct card_room rooms[NODE_GPUS_MAX])
{
	size_t n = 0;

	if (!node_suits(node, member))
		return 0;
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		struct card_room room = card_room(node, &node->gpus[i], member, false);

		if (room_suits(&room, &member->facts.request) &&
			!is_avoided(avoid, node, &node->gpus[i], member))
			rooms[n++] = card_room(node, &node->gpus[i], member, true);
	}
	qsort(rooms, n, sizeof(*rooms), compare_room);
	return n;
}

/* Where the least has to become free. */
static int nominate_emptiest(struct ledger *ledger, const struct gang_member *member,
	const struct nomination *avoid, int64_t expires_ns)
{
	const struct request *request = &member->facts.request;
	struct card_room rooms[NODE_GPUS_MAX];
	const struct gpu_ledger *cards[NODE_GPUS_MAX];
	uint32_t wanted = request_cards(request);
	struct node_ledger *node, *best = NULL;
	_cleanup_placement_ struct placement placement;
	int64_t most = INT64_MIN;
	int r;

	placement_init(&placement);
	table_for_each (&ledger->nodes, cursor, node) {
		if (emptiest_cards(node, member, avoid, rooms) < wanted)
			continue;
		if (best && (rooms[wanted - 1].units < most ||
				    (rooms[wanted - 1].units == most &&
					    strcmp(node->facts.name, best->facts.name) > 0)))
			continue;
		best = node;
		most = rooms[wanted - 1].units;
		for (uint32_t i = 0; i < wanted; i++)
			cards[i] = rooms[i].gpu;
	}
	if (!best)
		return -ENOSPC;
	r = placement_on_cards(best, cards, request, &placement);
	return r < 0 ? r : ledger_nominate(ledger, &member->facts, best->facts.name, &placement, expires_ns);
}

static const struct nomination *kept_for(const struct ledger *ledger, const struct gang_member *member)
{
	const struct ledger_pod *known = ledger_pod(ledger, member->facts.uid);

	return known ? known->nomination : NULL;
}

static void tell_kept(
	const struct gangs *gangs, const struct ledger *ledger, const struct gang_member *member)
{
	const struct nomination *kept = kept_for(ledger, member);

	if (kept)
		gang_tell(gangs, &(struct gang_tale){.kind = GANG_TALE_KEPT,
					 .gang = member->gang,
					 .seats = &(struct gang_seat){.pod = &member->facts,
						 .node = kept->node,
						 .placement = kept->shadow.placement},
					 .n_seats = 1});
}

static int keep_seat(const struct gangs *gangs, struct ledger *ledger, struct gang_member *member,
	const struct gang_seat *seat, int64_t now_ns)
{
	int r = ledger_nominate(
		ledger, &member->facts, seat->node->facts.name, &seat->placement, now_ns + KEPT_NS);

	member->kept_ns = now_ns;
	if (r == 0)
		tell_kept(gangs, ledger, member);
	return r;
}

/* What is kept for it stays the same, unless it is not free while something else is, or it has not become
 * free for too long. False: nothing can be kept for it beside the others. */
static bool keep_for(const struct gangs *gangs, struct ledger *ledger, struct gang_member *member,
	const struct gang_seat *seat, int64_t now_ns)
{
	const struct nomination *kept = kept_for(ledger, member);
	bool is_free = kept && place_suits(kept->node, &kept->shadow.placement, member, true);

	if (!is_free && seat->node && place_suits(seat->node, &seat->placement, member, true))
		return keep_seat(gangs, ledger, member, seat, now_ns) == 0;
	if (is_free)
		member->kept_ns = now_ns;
	if (!kept || now_ns - member->kept_ns > gangs->rules.keep_after_ns) {
		member->kept_ns = now_ns;
		if (nominate_emptiest(ledger, member, kept, now_ns + KEPT_NS) == 0) {
			tell_kept(gangs, ledger, member);
			return true;
		}
	}
	ledger_nomination_set_end(ledger, member->facts.uid, now_ns + KEPT_NS);
	return kept != NULL;
}

/* Members of the gang that have no place yet. */
static size_t waiting_members(const struct gang *gang, struct gang_member **members)
{
	size_t n = 0;

	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (member->stage == GANG_WAITING && !request_is_empty(&member->facts.request) &&
			n < GANG_SEATS_MAX)
			members[n++] = member;
	}
	return n;
}

/* Who needs least comes first. */
static int compare_need(const void *pa, const void *pb)
{
	const struct gang_member *a = *(struct gang_member *const *)pa;
	const struct gang_member *b = *(struct gang_member *const *)pb;
	const struct request *x = &a->facts.request, *y = &b->facts.request;

	if (request_cards(x) != request_cards(y))
		return request_cards(x) < request_cards(y) ? -1 : 1;
	if (x->units != y->units)
		return x->units < y->units ? -1 : 1;
	if (x->core != y->core)
		return x->core < y->core ? -1 : 1;
	return strcmp(a->facts.uid, b->facts.uid);
}

/* Those for whom something is kept already, or who have a seat, before the others. Returns how many they are.
 */
static size_t chosen_first(
	const struct ledger *ledger, struct gang_member **members, const struct gang_seat *seats, size_t n)
{
	size_t chosen = 0;

	for (size_t i = 0; i < n; i++) {
		struct gang_member *member = members[i];

		if (seats ? !seats[i].node : !kept_for(ledger, member))
			continue;
		memmove(members + chosen + 1, members + chosen, (i - chosen) * sizeof(struct gang_member *));
		members[chosen++] = member;
	}
	return chosen;
}

/* Kept one by one there is not room for all: then what a cluster without anybody else would give them. */
static bool keep_as_if_empty(const struct gangs *gangs, struct ledger *ledger, struct gang_member **members,
	struct gang_seat *seats, size_t n, int64_t now_ns)
{
	gang_seats_release(seats, n);
	if (!gang_fits_empty(ledger, seats, n, n))
		return false;
	for (size_t i = 0; i < n; i++)
		keep_seat(gangs, ledger, members[i], &seats[i], now_ns);
	return true;
}

/* The hardest to place choose first. False: with these members there would never be room for all. */
static bool keep_for_all(const struct gangs *gangs, struct ledger *ledger, struct gang_member **members,
	struct gang_seat *seats, size_t n, int64_t now_ns)
{
	bool all = true;

	for (size_t i = n; i-- > 0;) {
		const struct nomination *kept = kept_for(ledger, members[i]);

		if (kept && !place_suits(kept->node, &kept->shadow.placement, members[i], false))
			ledger_drop_nomination(ledger, members[i]->facts.uid);
	}
	if (gang_plan_most(ledger, seats, n) < 0)
		return true;
	for (size_t i = n; i-- > 0;)
		all &= keep_for(gangs, ledger, members[i], &seats[i], now_ns);
	return all || keep_as_if_empty(gangs, ledger, members, seats, n, now_ns);
}

static size_t seats_for(struct gang_seat *seats, struct gang_member *const *members, size_t n, size_t needed)
{
	if (n > needed)
		n = needed;
	for (size_t i = 0; i < n; i++)
		seats[i] = (struct gang_seat){.pod = &members[i]->facts};
	return n;
}

/* For what never fits nobody is kept waiting. To know it all pods leave the sums and come back: once a second
 * at most in vain, and that holds until nodes or members come or go. */
static bool fits_at_all(struct gangs *gangs, struct gang *gang, struct ledger *ledger,
	struct gang_seat *seats, size_t n, size_t needed, int64_t now_ns)
{
	if (gang->hopeless_nodes == ledger->nodes.count && now_ns < gang->hopeless_until_ns)
		return false;
	if (gangs->fit_check_ns && now_ns - gangs->fit_check_ns < FIT_CHECK_EVERY_NS)
		return false;
	gangs->fit_checks++;
	if (gang_fits_empty(ledger, seats, n, needed))
		return true;
	gangs->fit_check_ns = now_ns;
	gang->hopeless_nodes = ledger->nodes.count;
	gang->hopeless_until_ns = now_ns + HOPELESS_NS;
	return false;
}

/* Who of the members cards are kept for, in front. False: for what never fits nobody is kept waiting. */
static bool choose_members(struct gangs *gangs, struct gang *gang, struct ledger *ledger,
	struct gang_member **members, struct gang_seat *seats, size_t n, size_t needed, int64_t now_ns)
{
	bool fits;

	qsort(members, n, sizeof(struct gang_member *), compare_need);
	if (chosen_first(ledger, members, NULL, n) >= needed)
		return true;
	seats_for(seats, members, n, n);
	fits = fits_at_all(gangs, gang, ledger, seats, n, needed, now_ns);
	if (fits)
		chosen_first(ledger, members, seats, n);
	gang_seats_release(seats, n);
	return fits;
}

void gang_keep(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	struct gang_member *members[GANG_SEATS_MAX];
	size_t n = waiting_members(gang, members), placed = gang_count(gang).members - n;
	uint32_t min = gang_min(gang, NULL);
	size_t needed = min > placed ? min - placed : 0;
	_cleanup_free_ struct gang_seat *seats = calloc(n + 1, sizeof(*seats));

	if (!seats || !needed)
		return;
	if (!choose_members(gangs, gang, ledger, members, seats, n, needed, now_ns)) {
		gang_let_go(gang, ledger);
		return;
	}
	gang->keeping = true;
	for (size_t i = needed; i < n; i++)
		ledger_drop_nomination(ledger, members[i]->facts.uid);
	qsort(members, needed, sizeof(struct gang_member *), compare_need);
	n = seats_for(seats, members, n, needed);
	if (!keep_for_all(gangs, ledger, members, seats, n, now_ns))
		gang_let_go(gang, ledger);
	gang_seats_release(seats, n);
}

void gang_let_go(struct gang *gang, struct ledger *ledger)
{
	if (!gang->keeping)
		return;
	gang->keeping = false;
	list_for_each (item, &gang->members)
		if (member_of(item)->stage != GANG_PLACED)
			ledger_drop_nomination(ledger, member_of(item)->facts.uid);
}
