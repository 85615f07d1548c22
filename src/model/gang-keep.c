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

/* A card and what would be free on it without what is kept there; negative where more is kept. */
struct card_room {
	const struct gpu_ledger *gpu;
	int64_t units;
};

static int compare_room(const void *pa, const void *pb)
{
	const struct card_room *a = pa, *b = pb;

	if (a->units != b->units)
		return a->units > b->units ? -1 : 1;
	return a->gpu->index < b->gpu->index ? -1 : a->gpu->index > b->gpu->index;
}

static int64_t room_on(const struct node_ledger *node, const struct gpu_ledger *gpu)
{
	int64_t units = (int64_t)gpu->units_total - gpu->units_used;

	list_for_each (item, &node->nominations) {
		const struct ledger_pod *kept = &list_entry(item, struct nomination, item)->shadow;

		units -= placement_units_on(&kept->placement, &kept->facts.request, gpu->uuid);
	}
	return units;
}

/* The emptiest cards that are large enough, best first. Returns how many there are. */
static size_t emptiest_cards(
	const struct node_ledger *node, const struct request *request, struct card_room rooms[NODE_GPUS_MAX])
{
	size_t n = 0;

	if (node_ledger_serves(node, request) != FITS || node_ledger_mixes(node, request))
		return 0;
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct gpu_ledger *gpu = &node->gpus[i];

		if (gpu->healthy && gpu->units_total >= request_units_per_card(request))
			rooms[n++] = (struct card_room){.gpu = gpu, .units = room_on(node, gpu)};
	}
	qsort(rooms, n, sizeof(*rooms), compare_room);
	return n;
}

/* Where the least has to become free. avoid: where we have waited long enough; NULL: nowhere. */
static int nominate_emptiest(struct ledger *ledger, const struct gang_member *member,
	const struct node_ledger *avoid, int64_t expires_ns)
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
		if (node == avoid || emptiest_cards(node, request, rooms) < wanted)
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

/* What is kept for it stays the same, unless it is not free while something else is, or it has not become
 * free for too long: perhaps it never will. */
static void keep_for(const struct gangs *gangs, struct ledger *ledger, struct gang_member *member,
	const struct gang_seat *seat, int64_t now_ns)
{
	const struct nomination *kept = kept_for(ledger, member);
	const struct node_ledger *avoid = NULL;
	bool is_free = kept &&
		       node_ledger_has_room(kept->node, &member->facts.request, &kept->shadow.placement);

	if (is_free || (seat->node && !kept))
		member->kept_ns = now_ns;
	if (kept && !is_free && !seat->node && now_ns - member->kept_ns > gangs->rules.keep_after_ns) {
		avoid = kept->node;
		kept = NULL;
	}
	if (kept && !(seat->node && !is_free)) {
		ledger_nomination_set_end(ledger, member->facts.uid, now_ns + KEPT_NS);
		return;
	}
	if (seat->node && !is_free)
		ledger_nominate(
			ledger, &member->facts, seat->node->facts.name, &seat->placement, now_ns + KEPT_NS);
	else
		nominate_emptiest(ledger, member, avoid, now_ns + KEPT_NS);
	member->kept_ns = now_ns;
	tell_kept(gangs, ledger, member);
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

/* For what never fits nobody is kept waiting. To know it all pods leave the sums and come back: once a second
 * at most in vain, and that holds until nodes come or go. */
static bool fits_at_all(struct gangs *gangs, struct gang *gang, struct ledger *ledger,
	struct gang_seat *seats, size_t n, int64_t now_ns)
{
	if (gang->hopeless_nodes == ledger->nodes.count && now_ns < gang->hopeless_until_ns)
		return false;
	if (gangs->fit_check_ns && now_ns - gangs->fit_check_ns < FIT_CHECK_EVERY_NS)
		return false;
	gangs->fit_checks++;
	if (gang_fits_empty(ledger, seats, n))
		return true;
	gangs->fit_check_ns = now_ns;
	gang->hopeless_nodes = ledger->nodes.count;
	gang->hopeless_until_ns = now_ns + HOPELESS_NS;
	return false;
}

void gang_keep(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	struct gang_member *members[GANG_SEATS_MAX];
	size_t n = waiting_members(gang, members), placed = gang_count(gang).members - n;
	uint32_t min = gang_min(gang, NULL);
	size_t needed = min > placed ? min - placed : 0;
	_cleanup_free_ struct gang_seat *seats = NULL;

	if (n > needed)
		n = needed;
	seats = calloc(n + 1, sizeof(*seats));
	if (!seats)
		return;
	for (size_t i = 0; i < n; i++)
		seats[i] = (struct gang_seat){.pod = &members[i]->facts};
	if (!gang->keeping && !fits_at_all(gangs, gang, ledger, seats, n, now_ns))
		return;
	gang->keeping = true;
	if (gang_plan_most(ledger, seats, n) >= 0)
		for (size_t i = 0; i < n; i++)
			keep_for(gangs, ledger, members[i], &seats[i], now_ns);
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
