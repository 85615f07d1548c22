/* Where a gang may go is decided by somebody else as well (units of a ResourcePolicy): what he has to know
 * for it. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "core/gang/gang.h"
#include "core/gang/gang-internal.h"
#include "core/gang/gang-plan.h"

/* Somebody else has been told where it goes. Of the one who asks kube-scheduler has forgotten it. */
static bool has_place(const struct gang_member *member, const struct gang_member *asking)
{
	return member != asking && member->stage >= GANG_ANSWERED;
}

static size_t needed_with(const struct gangs *gangs, const struct gang_member *asking, const char **ret_mate)
{
	uint32_t min = gang_min(gangs, asking->gang);
	size_t placed = 0;

	*ret_mate = NULL;
	list_for_each (item, &asking->gang->members)
		if (has_place(member_of(item), asking)) {
			*ret_mate = member_of(item)->facts.uid;
			placed++;
		}
	return min > placed ? min - placed : 1;
}

bool gangs_seek(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *pod, int64_t now_ns,
	size_t *ret_needed, const char **ret_mate)
{
	struct gang_member *member;
	enum gang_reason waits_for;

	if (!pod->gang || gangs_see_pod(gangs, ledger, pod, false, now_ns) < 0)
		return false;
	member = gang_member_find(gangs, pod->uid);
	if (!member || member->stage == GANG_PLACED)
		return false;
	gang_refresh(gangs, member->gang, ledger);
	waits_for = gang_waits_for(gangs, member->gang, ledger, now_ns);
	if (gang_goes_singly(gangs, member->gang) || (waits_for && waits_for != GANG_NO_ROOM))
		return false;
	*ret_needed = needed_with(gangs, member, ret_mate);
	return true;
}

bool gangs_fit_on(const struct gangs *gangs, struct ledger *ledger, const char *uid,
	const struct table *nodes, size_t needed)
{
	struct gang_member *member = gang_member_find(gangs, uid), *members[GANG_SLOTS_MAX + 1];
	_cleanup_free_ struct gang_slot *slots = calloc(GANG_SLOTS_MAX + 1, sizeof(*slots));
	size_t fixed, n;
	int r;

	if (!member || !slots)
		return false;
	n = gang_free_members(member->gang, members, &fixed);
	if (member->stage == GANG_ANSWERED || member->stage == GANG_AT_BIND)
		members[n++] = member;
	for (size_t i = 0; i < n; i++)
		slots[i] = (struct gang_slot){.pod = &members[i]->facts, .nodes = nodes};
	r = gang_plan(ledger, slots, n, needed);
	gang_slots_release(slots, n);
	return r > 0;
}

void gangs_for_waiting(const struct gangs *gangs, const char *uid,
	void (*call)(void *userdata, const char *uid), void *userdata)
{
	const struct gang_member *member = gang_member_find(gangs, uid);

	if (!member)
		return;
	list_for_each (item, &member->gang->members)
		if (!has_place(member_of(item), member) && !request_is_empty(&member_of(item)->facts.request))
			call(userdata, member_of(item)->facts.uid);
}

bool gangs_has_none(const struct gangs *gangs, const char *uid)
{
	const struct gang_member *member = gang_member_find(gangs, uid);

	return member && member->stage == GANG_WAITING && !gang_has_plan(member->gang) &&
	       !gang_goes_singly(gangs, member->gang);
}
