/* How a gang stands, and what goes by time: gangs that have started, and gangs whose time-out is over. */
#include "core/gang/gang.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/gang/gang-internal.h"
#include "core/preemption/preemption.h"

/* If a controller creates pods later than this, its gang begins anew. */
#define REMEMBERED_NS (3600 * NS_PER_S)
/* How often an order is repeated until its effect is seen. */
#define TELL_AGAIN_NS (5 * NS_PER_S)
#define LOOK_AGAIN_NS (50 * NS_PER_MS)

/* ---- how a gang stands ---- */

bool gang_has_plan(const struct gang *gang)
{
	return gang->plan_ns != 0;
}

struct gang_count gang_count(const struct gang *gang)
{
	struct gang_count count = {0};

	list_for_each (item, &gang->members) {
		const struct gang_member *member = member_of(item);

		count.members++;
		count.placed += member->stage == GANG_PLACED;
		count.shown += gang_member_is_shown(member);
		count.sent += member->stage == GANG_SENT;
		count.at_bind += member->stage == GANG_AT_BIND;
		count.answered += member->stage == GANG_ANSWERED;
		count.planned += member->stage == GANG_PLANNED;
		count.waiting += member->stage == GANG_WAITING && gang_member_needs_gpu(member);
	}
	return count;
}

uint32_t gang_asked_min(const struct gang *gang, bool *ret_differ)
{
	uint32_t min = 0;
	bool differ = false;

	if (!gang->has_group)
		list_for_each (item, &gang->members) {
			uint32_t own = member_of(item)->facts.gang_min;

			differ |= min && own && own != min;
			min = own > min ? own : min;
		}
	if (ret_differ)
		*ret_differ = differ;
	return gang->has_group ? gang->group.min : min;
}

static bool is_short(const struct gangs *gangs, const struct gang *gang)
{
	return gang->past.short_ns && gangs->looked_ns - gang->past.short_ns >= GANG_ALL_MADE_NS;
}

static bool has_members_of(const struct gang *gang, const char *owner)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->facts.owner && strcmp(member_of(item)->facts.owner, owner) == 0)
			return true;
	return false;
}

/* If the controllers create no pods in place of those that have succeeded, the remaining members need only
 * each other. The finished pods may include pods of an older Job whose gang had the same name. These count
 * only for members of the same controller. */
uint32_t gang_min(const struct gangs *gangs, const struct gang *gang)
{
	uint32_t min = gang_asked_min(gang, NULL), done = 0;

	if (is_short(gangs, gang))
		list_for_each (item, &gang->past.done)
			done += !member_of(item)->recalled ||
				has_members_of(gang, member_of(item)->facts.owner);
	return min > done ? min - done : min > 0;
}

bool gang_member_is_shown(const struct gang_member *member)
{
	return member->stage == GANG_PLACED && *member->facts.node;
}

/* A pod that asks for no GPU is placed by kube-scheduler and counts when it is placed. Filter rejects a pod
 * whose annotations are full. If such a pod counted, the others would be planned and would wait at bind for
 * it in vain. */
bool gang_member_needs_gpu(const struct gang_member *member)
{
	return !request_is_empty(&member->facts.request) && !member->facts.annotations_full;
}

void gang_changed(struct gang *gang)
{
	gang->no_room.until_ns = 0;
}

bool gang_found_no_room(const struct gang *gang, const struct ledger *ledger, int64_t now_ns)
{
	return now_ns < gang->no_room.until_ns && gang->no_room.generation == ledger->generation;
}

void gang_is_another(struct gang *gang)
{
	gang->hopeless_capacity = 0;
	gang_changed(gang);
}

/* ---- what goes by time ---- */

struct look {
	struct gangs *gangs;
	struct ledger *ledger;
	int64_t now_ns;
	int64_t again_ns; /* from now on; INT64_MAX: when something changes */
	bool leads;	  /* plans are ours to make */
};

static void again_at(struct look *look, int64_t due_ns)
{
	int64_t in_ns = due_ns > look->now_ns ? due_ns - look->now_ns : 0;

	if (due_ns != INT64_MAX && in_ns < look->again_ns)
		look->again_ns = in_ns;
}

static bool are_successors(const struct gang *gang)
{
	list_for_each (item, &gang->members)
		if (!gang_is_successor(gang, &member_of(item)->facts))
			return false;
	return true;
}

static bool have_controllers(const struct gang *gang)
{
	list_for_each (item, &gang->members)
		if (!member_of(item)->facts.owner || !*member_of(item)->facts.owner)
			return false;
	return true;
}

/* Is the gang complete, or was it before? A placed member without the mark has lost it when the gang was
 * complete, or another scheduler placed it. Only members that the watch has shown count. The answer to a
 * Binding may be ahead of the watch, and another member may be gone since. */
static bool was_whole(const struct gang *gang, const struct gang_count *count, uint32_t min)
{
	if (min && count->shown >= min)
		return true;
	list_for_each (item, &gang->members) {
		const struct gang_member *member = member_of(item);

		if (gang_member_is_shown(member) && !member->facts.gang_forming &&
			!request_is_empty(&member->facts.request))
			return true;
	}
	return false;
}

static void forget_owners(struct gang *gang)
{
	table_release(&gang->past.owners);
	table_init(&gang->past.owners);
}

/* True if the gang has too few members, and their controllers created them in place of members that have run.
 * A member of another controller may leave again, so the controllers are remembered meanwhile. */
static bool is_left_over(const struct gangs *gangs, const struct gang *gang)
{
	return are_successors(gang) && is_short(gangs, gang);
}

static void follow_short(struct gang *gang, const struct gang_count *count, int64_t now_ns)
{
	struct gang_past *past = &gang->past;

	if (count->members >= gang_asked_min(gang, NULL))
		past->short_ns = 0;
	else if (!past->short_ns && (!count->shown || !list_empty(&past->done)) && have_controllers(gang))
		past->short_ns = now_ns;
}

/* If memory runs out, a controller is not remembered. */
static void has_started(struct gangs *gangs, struct gang *gang)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);
		const char *owner = member->facts.owner;

		member->missed = false;
		if (member->stage == GANG_PLACED && owner && *owner &&
			!gang_is_successor(gang, &member->facts))
			table_set(&gang->past.owners, owner, gang);
	}
	gang_forget_done(gangs, gang);
	gang->backoff.failures = 0;
}

/* While a new LIST is read, the pods that exist and those that are gone are not of one moment. */
static void follow_coming_about(const struct look *look, struct gang *gang, const struct gang_count *count)
{
	bool is_clear = look->gangs->following && look->gangs->groups_known, had_started = gang->started;
	uint32_t min;

	follow_short(gang, count, look->now_ns);
	min = gang_min(look->gangs, gang);
	gang->started = count->shown ? gang->started || (is_clear && was_whole(gang, count, min))
				     : is_clear && is_left_over(look->gangs, gang);
	if (gang->started && !had_started && !are_successors(gang))
		forget_owners(gang); /* of an older gang of this name */
	if (gang->started)
		has_started(look->gangs, gang);
	if (gang->started || !min || count->members < min)
		gang->waiting_ns = 0;
	else if (!gang->waiting_ns)
		gang->waiting_ns = look->now_ns;
	if (gang->started || !count->shown)
		gang->partly_ns = 0;
	else if (!gang->partly_ns)
		gang->partly_ns = look->now_ns;
}

/* The members may be left over of a gang that ran before this process began, or while no watch was open. The
 * recall asks for its finished pods. After the answer, the watch shows the rest. */
static void look_at_short(struct look *look, struct gang *gang, const struct gang_count *count)
{
	struct gang_past *past = &gang->past;
	const struct gang_member *member = NULL;

	if (past->short_ns && !is_short(look->gangs, gang))
		again_at(look, past->short_ns + GANG_ALL_MADE_NS);
	if (!look->leads || !look->gangs->following || !is_short(look->gangs, gang) || are_successors(gang) ||
		past->recall_ns == INT64_MAX || count->shown)
		return;
	if (look->now_ns >= past->recall_ns) {
		list_for_each (item, &gang->members)
			if (!member && !request_is_empty(&member_of(item)->facts.request))
				member = member_of(item);
		if (member)
			gangs_order(look->gangs, GANG_RECALL, member);
		past->recall_ns = look->now_ns + TELL_AGAIN_NS;
	}
	again_at(look, past->recall_ns);
}

static void order_for_placed(const struct look *look, struct gang *gang, enum gang_order_kind kind)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (member->stage != GANG_PLACED || !member->facts.gang_forming ||
			(member->ordered_ns && look->now_ns - member->ordered_ns < TELL_AGAIN_NS))
			continue;
		member->ordered_ns = look->now_ns;
		gangs_order(look->gangs, kind, member);
	}
}

static void look_at_placed(struct look *look, struct gang *gang)
{
	int64_t timeout_ns = gang->has_group && gang->group.timeout_ns ? gang->group.timeout_ns
								       : look->gangs->rules.timeout_ns;

	if (gang->started)
		order_for_placed(look, gang, GANG_UNMARK);
	else if (gang->partly_ns && look->now_ns - gang->partly_ns >= timeout_ns)
		order_for_placed(look, gang, GANG_EVICT);
	else if (gang->partly_ns)
		again_at(look, gang->partly_ns + timeout_ns);
	list_for_each (item, &gang->members)
		if (member_of(item)->stage == GANG_PLACED && member_of(item)->ordered_ns &&
			member_of(item)->facts.gang_forming)
			again_at(look, look->now_ns + TELL_AGAIN_NS);
}

static bool was_asked_for_since(const struct gang *gang, int64_t since_ns)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->asked_ns >= since_ns)
			return true;
	return false;
}

/* The members were requeued, and kube-scheduler has asked for none of them. It may ask another replica now,
 * or something else keeps all of them back. Until it asks again, a plan would be in vain. This does not hold
 * after an outage of the API server, in which no requeue arrives. */
static void give_up_idle(const struct look *look, struct gang *gang)
{
	if (look->gangs->following && !was_asked_for_since(gang, gang->plan_ns))
		list_for_each (item, &gang->members)
			member_of(item)->asked_ns = 0;
	gang_give_up(
		look->gangs, gang, look->ledger, "kube-scheduler did not ask for its pods", look->now_ns);
}

/* The gang may need fewer pods than when the last member arrived at bind. */
static void go_at_bind(struct gangs *gangs, const struct gang *gang)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->stage == GANG_AT_BIND) {
			gangs_order(gangs, GANG_GO, member_of(item));
			return;
		}
}

/* When the members at bind stop waiting; INT64_MAX: no member is at bind. */
static int64_t barrier_ns(const struct gang *gang)
{
	int64_t first_ns = INT64_MAX;

	list_for_each (item, &gang->members)
		if (member_of(item)->stage == GANG_AT_BIND && member_of(item)->asked_ns < first_ns)
			first_ns = member_of(item)->asked_ns;
	return first_ns == INT64_MAX ? INT64_MAX : first_ns + GANG_BARRIER_NS;
}

/* Checks whether the gang's plan is still possible, and in time. */
static void look_at_plan(const struct look *look, struct gang *gang)
{
	struct gangs *gangs = look->gangs;
	struct ledger *ledger = look->ledger;
	struct gang_count count = gang_count(gang);
	size_t fixed = count.placed + count.sent, coming = count.planned + count.answered;
	uint32_t min = gang_min(gangs, gang);
	int64_t now_ns = look->now_ns;

	if ((gang->started || (min && fixed >= min)) && !coming && !count.at_bind)
		gang->plan_ns = 0;
	else if (now_ns >= barrier_ns(gang))
		gang_give_up(gangs, gang, ledger, "not enough of its pods came to bind in time", now_ns);
	else if (now_ns >= gang->plan_ns + GANG_IDLE_NS)
		give_up_idle(look, gang);
	else if (!gang->started && !min)
		gang_give_up(
			gangs, gang, ledger, "nothing says any more how many of its pods it needs", now_ns);
	else if (count.at_bind && look->leads && (gang->started || fixed + count.at_bind >= min))
		go_at_bind(gangs, gang);
	else if (!gang->started && fixed + coming + count.at_bind < min &&
		 !(look->leads && gang_try(gangs, gang, ledger, now_ns, false)))
		gang_give_up(
			gangs, gang, ledger, "too few of its pods are left, and no others have room", now_ns);
}

/* Members that had no place beside the others become waiting pods, and are scheduled individually from now
 * on. If memory runs out, the next evaluation tries again. */
static void look_at_turned_away(const struct look *look, struct gang *gang)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (!gang->started || member->stage != GANG_WAITING || !member->told)
			continue;
		if (requeue_list_found_waiting(look->gangs->requeues, &member->facts, look->now_ns) < 0)
			continue;
		/* Filter has searched for no eviction for it, since its gang waited as a whole. */
		if (!member->facts.never_preempts && !preemption_is_pointless(look->ledger, &member->facts))
			requeue_list_may_evict(look->gangs->requeues, member->facts.uid);
		member->told = GANG_NOTHING;
	}
}

static void look_at_gang(struct look *look, struct gang *gang)
{
	struct gang_count count;

	gang_refresh(look->gangs, gang, look->ledger);
	count = gang_count(gang);
	follow_coming_about(look, gang, &count);
	if (!gang->started)
		look_at_short(look, gang, &count);
	if (look->leads)
		look_at_placed(look, gang);
	if (gang_has_plan(gang))
		look_at_plan(look, gang);
	if (look->leads)
		look_at_turned_away(look, gang);
	if (gang_has_plan(gang)) {
		again_at(look, gang->plan_ns + GANG_IDLE_NS);
		again_at(look, barrier_ns(gang));
	} else if (gang->backoff.not_before_ns > look->now_ns && !gang->started) {
		again_at(look, gang->backoff.not_before_ns);
	}
}

/* Users see what filter said last of a pod (its condition, Events). It may still say "waits for the other
 * pods of its gang", though all of them exist and there is no room. So kube-scheduler must ask for the pod
 * once more. */
static void look_at_reasons(const struct look *look, struct gang *gang)
{
	enum gang_reason reason;

	if (gang->started || gang_has_plan(gang))
		return;
	reason = gang_waits_for(look->gangs, gang, look->ledger, look->now_ns);
	if (reason != GANG_TOO_FEW && reason != GANG_NO_ROOM && reason != GANG_NO_MIN &&
		reason != GANG_BAD_GROUP)
		return; /* any other reason ends soon by itself */
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (member->stage != GANG_WAITING || !member->told || member->told == reason)
			continue;
		member->told = reason;
		requeue_list_gang_tells(look->gangs->requeues, member->facts.uid);
	}
}

static void forget_what_is_over(struct gangs *gangs, int64_t now_ns)
{
	struct gang *gang;

	table_for_each (&gangs->by_key, cursor, gang) {
		if (!list_empty(&gang->members))
			continue;
		if (!gang->past.short_ns)
			gang->past.short_ns = now_ns;
		if (now_ns - gang->past.short_ns < REMEMBERED_NS)
			continue;
		forget_owners(gang);
		gang_forget_done(gangs, gang);
		gang_drop_if_unused(gangs, gang);
	}
}

/* An evaluation may itself free something after a gang found no room: GPUs are no longer kept for another
 * gang, or for the one that was planned. So it is followed by another one. GPUs that are kept may change with
 * each evaluation, so the next one comes after the same second as for a gang for which GPUs are kept. */
static void plan_and_keep(struct look *look, struct gang **all)
{
	uint64_t planned_at = look->ledger->generation;

	if (gangs_try_in_turn(look->gangs, all, look->ledger, look->now_ns))
		again_at(look, look->now_ns + LOOK_AGAIN_NS);
	for (size_t i = 0; all[i]; i++)
		look_at_reasons(look, all[i]);
	again_at(look, gangs_keep_for_first(look->gangs, all, look->ledger, look->now_ns));
	if (look->ledger->generation != planned_at)
		again_at(look, look->now_ns + NS_PER_S);
}

static struct gang_member *find_refused_relabelled(
	const struct look *look, const struct pod_facts **ret_facts)
{
	struct gang_member *member;

	table_for_each (&look->gangs->by_uid, cursor, member) {
		const struct ledger_pod *known = ledger_pod(look->ledger, member->facts.uid);

		if (member->labels_if_refused && known && known->listed &&
			known->occupancy < OCCUPANCY_RESERVED) {
			*ret_facts = &known->facts;
			return member;
		}
	}
	return NULL;
}

/* The labels that the watch showed while a member's Binding was on its way count now, if the Binding was not
 * applied. The member may leave its gang. */
static void see_labels_of_refused(const struct look *look)
{
	const struct pod_facts *facts;
	struct gang_member *member;

	while ((member = find_refused_relabelled(look, &facts))) {
		member->labels_if_refused = false;
		gang_refresh(look->gangs, member->gang, look->ledger);
		gangs_see_pod(look->gangs, look->ledger, facts, true, look->now_ns);
	}
}

int64_t gangs_look(struct gangs *gangs, struct ledger *ledger, int64_t now_ns, bool leads)
{
	struct look look = {.gangs = gangs,
		.ledger = ledger,
		.now_ns = now_ns,
		.again_ns = INT64_MAX,
		.leads = leads && gangs->groups_known};
	_cleanup_free_ struct gang **all = NULL;
	struct gang_member *member;

	if (!gangs->by_uid.count)
		return INT64_MAX;
	/* kube-scheduler asked for these pods, but the watch never showed them: they were deleted just
	 * before. */
	table_for_each (&look.gangs->by_uid, cursor, member)
		if (!member->listed && look.now_ns - member->asked_ns > WATCH_LAG_MAX_NS)
			gang_member_leave(look.gangs, member);
	see_labels_of_refused(&look);
	forget_what_is_over(gangs, now_ns);
	all = gangs_in_turn(gangs);
	if (!all)
		return NS_PER_S;
	gangs->looked_ns = now_ns;
	for (size_t i = 0; all[i]; i++)
		look_at_gang(&look, all[i]);
	if (look.leads)
		plan_and_keep(&look, all);
	return look.again_ns;
}
