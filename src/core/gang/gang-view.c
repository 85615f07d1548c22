/* How a gang stands, for people. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "core/gang/gang.h"
#include "core/gang/gang-internal.h"
#include "core/gang/gang-plan.h"

/* Without the search of a plan, which has found none: at most as many as it would have placed. */
static int count_room(const struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	struct gang_member *members[GANG_SLOTS_MAX];
	size_t fixed, n = gang_free_members(gang, members, &fixed);
	_cleanup_free_ struct gang_slot *slots = gang_slots_new(members, n, now_ns);
	int r = slots ? gang_plan_most(ledger, slots, n) : 0;

	if (slots)
		gang_slots_release(slots, n);
	return (int)fixed + (r > 0 ? r : 0);
}

static struct gang_view view_of(const struct gangs *gangs, const struct gang *gang)
{
	struct gang_count count = gang_count(gang);
	struct gang_view view = {
		.key = gang->key,
		.n_members = count.members,
		.n_placed = count.placed,
		.n_planned = count.planned + count.answered + count.at_bind + count.sent,
		.n_at_bind = count.at_bind,
		.started = gang->started,
		.keeping = gangs->kept == gang,
		.failures = gang->backoff.failures,
		.not_before_ns = gang->backoff.not_before_ns,
		.waiting_ns = gang->waiting_ns,
		.n_room = -1,
	};

	gang_asked_min(gang, &view.mins_differ);
	view.min = gang_min(gangs, gang);
	list_for_each (item, &gang->members)
		if (member_of(item)->missed)
			view.missing = member_of(item)->facts.name;
	return view;
}

bool gangs_find(const struct gangs *gangs, struct ledger *ledger, const char *uid, int64_t now_ns,
	struct gang_view *ret_view)
{
	const struct gang_member *member = gang_member_find(gangs, uid);
	enum gang_reason reason = GANG_NOTHING;

	if (!member)
		return false;
	*ret_view = view_of(gangs, member->gang);
	if (!ret_view->started)
		reason = gang_waits_for(gangs, member->gang, ledger, now_ns);
	ret_view->text = gang_reason_text(reason);
	if (reason == GANG_NO_ROOM)
		ret_view->n_room = count_room(member->gang, ledger, now_ns);
	return true;
}
