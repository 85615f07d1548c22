/* Time and turn: gangs that have started, gangs whose time-out is over, and which gang is planned next. */
#include "core/gang/gang.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/gang/gang-internal.h"

/* A controller that replaces pods so late begins anew. */
#define REMEMBERED_NS (3600 * NS_PER_S)
/* A controller makes all of its pods within this time. */
#define ALL_MADE_NS (10 * NS_PER_S)
/* How often an order is repeated while its effect is not seen. */
#define TELL_AGAIN_NS (5 * NS_PER_S)
#define LOOK_AGAIN_NS (50 * NS_PER_MS)
/* Nodes that the plans of one look go through: a few milliseconds (bench/gang.c). The next look goes on. */
#define NODES_PER_LOOK 20000
#define PLANS_PER_LOOK 32
#define ASKED_MAX_NS (600 * NS_PER_S)

/* ---- which gang is tried next ---- */

static int32_t gang_priority(const struct gang *gang)
{
	int32_t highest = INT32_MIN;

	list_for_each (item, &gang->members)
		if (member_of(item)->facts.priority > highest)
			highest = member_of(item)->facts.priority;
	return highest;
}

static int64_t gang_created(const struct gang *gang)
{
	int64_t earliest = INT64_MAX;

	list_for_each (item, &gang->members)
		if (member_of(item)->facts.created < earliest)
			earliest = member_of(item)->facts.created;
	return earliest;
}

/* a comes before b: priority, then age, then name. A total order. */
static bool gang_is_first(const struct gang *a, const struct gang *b)
{
	int32_t a_priority = gang_priority(a), b_priority = gang_priority(b);
	int64_t a_created = gang_created(a), b_created = gang_created(b);

	if (a_priority != b_priority)
		return a_priority > b_priority;
	if (a_created != b_created)
		return a_created < b_created;
	return strcmp(a->key, b->key) < 0;
}

static int compare_turn(const void *pa, const void *pb)
{
	const struct gang *a = *(struct gang *const *)pa, *b = *(struct gang *const *)pb;

	return a == b ? 0 : gang_is_first(a, b) ? -1 : 1;
}

struct gang **gangs_in_turn(const struct gangs *gangs)
{
	struct gang **all = calloc(gangs->by_key.count + 1, sizeof(struct gang *)), *gang;
	size_t n = 0;

	if (!all)
		return NULL;
	table_for_each (&gangs->by_key, cursor, gang)
		if (!list_empty(&gang->members))
			all[n++] = gang;
	qsort(all, n, sizeof(struct gang *), compare_turn);
	return all;
}

/* kube-scheduler asks us for its pods: there are other schedulers' gangs in a cluster, and other replicas of
 * us. It asks for each pod that waits at least every 5 minutes (flushUnschedulablePodsLeftover; 1.36.3). */
bool gang_is_asked_for(const struct gang *gang, int64_t now_ns)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->asked_ns && now_ns - member_of(item)->asked_ns < ASKED_MAX_NS)
			return true;
	return false;
}

static bool gang_may_try(const struct gang *gang, const struct ledger *ledger, int64_t now_ns)
{
	struct gang_count count = gang_count(gang);
	uint32_t min = gang_min(gang);

	return !gang->started && !gang_has_plan(gang) && count.waiting && count.placed + count.sent < min &&
	       count.placed + count.sent + count.waiting >= min && gang_is_asked_for(gang, now_ns) &&
	       now_ns >= gang->not_before_ns && !gang_found_no_room(gang, ledger, now_ns);
}

/* A gang whose last plan was given up has perhaps met another such one, over something that the ledger does
 * not know: of those one tries at a time. */
bool gangs_keep_out(const struct gangs *gangs, const struct gang *gang)
{
	const struct gang *other;

	if (!gang->failures)
		return false;
	table_for_each (&gangs->by_key, cursor, other)
		if (other != gang && gang_has_plan(other) && other->failures)
			return true;
	return false;
}

static size_t plans_per_look(const struct ledger *ledger)
{
	size_t plans = NODES_PER_LOOK / (ledger->nodes.count + 1);

	return plans < 1 ? 1 : plans > PLANS_PER_LOOK ? PLANS_PER_LOOK : plans;
}

void gangs_try_before(struct gangs *gangs, const struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	_cleanup_free_ struct gang **all = gangs_in_turn(gangs);
	size_t plans = 0, most = plans_per_look(ledger);

	for (size_t i = 0; all && all[i] && all[i] != gang && plans < most; i++) {
		if (!gang_may_try(all[i], ledger, now_ns) || gangs_keep_out(gangs, all[i]))
			continue;
		plans++;
		gang_try(gangs, all[i], ledger, now_ns);
	}
}

/* While the ledger changes all the time, what the first ones were told does not hold until the next look: it
 * goes on where this one stops, or the last ones would never be tried. */
bool gangs_try_in_turn(struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns)
{
	size_t plans = 0, most = plans_per_look(ledger), first = 0;
	bool left = false;

	for (size_t i = 0; all[i]; i++)
		if (all[i] == gangs->next_turn)
			first = i;
	gangs->next_turn = NULL;
	for (size_t i = 0; all[i]; i++) {
		if (!gang_may_try(all[i], ledger, now_ns) || gangs_keep_out(gangs, all[i]))
			continue;
		if (i < first) {
			left = true;
			continue;
		}
		if (plans == most) {
			gangs->next_turn = all[i];
			return true;
		}
		plans++;
		gang_try(gangs, all[i], ledger, now_ns);
	}
	return left;
}

/* ---- what goes by time ---- */

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

/* A question that no watch followed: the pod was deleted just before. */
static void forget_unseen(struct gangs *gangs, int64_t now_ns)
{
	struct gang_member *member;

	table_for_each (&gangs->by_uid, cursor, member)
		if (!member->listed && now_ns - member->asked_ns > WATCH_LAG_MAX_NS)
			gang_member_leave(gangs, member);
}

/* Is it whole, or has it been before? A member that is placed without the mark has lost it then, or was
 * placed by somebody else. Only who is shown counts: the answer to a Binding may be ahead of the watch, and
 * another member gone since. */
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

/* Out of memory forgets one. */
static void remember_owners(struct gang *gang)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		member->missed = false;

		if (member->stage == GANG_PLACED && member->facts.owner && *member->facts.owner &&
			!gang_is_successor(gang, &member->facts))
			table_set(&gang->owners, member->facts.owner, gang);
	}
}

static void forget_owners(struct gang *gang)
{
	table_release(&gang->owners);
	table_init(&gang->owners);
}

/* Too few pods for a gang, and their controllers make no more of them. */
static bool are_few(const struct gang *gang, int64_t now_ns)
{
	return gang->few_ns && now_ns - gang->few_ns >= ALL_MADE_NS;
}

/* ... made in place of some that have run. */
static bool is_left_over(struct gang *gang, int64_t now_ns)
{
	if (gang->owners.count && !are_successors(gang))
		forget_owners(gang);
	return gang->owners.count && are_few(gang, now_ns);
}

static void follow_few(struct gang *gang, const struct gang_count *count, int64_t now_ns)
{
	if (count->members >= gang_asked_min(gang, NULL))
		gang->few_ns = 0;
	else if (!gang->few_ns && (!count->shown || !list_empty(&gang->done)) && have_controllers(gang))
		gang->few_ns = now_ns;
	gang->few = are_few(gang, now_ns);
}

/* While a new LIST is read, who is there and who has gone are not of one moment. */
static void follow_coming_about(
	struct gangs *gangs, struct gang *gang, const struct gang_count *count, int64_t now_ns)
{
	bool is_clear = gangs->following && gangs->groups_known;
	uint32_t min;

	follow_few(gang, count, now_ns);
	min = gang_min(gang);
	gang->started = count->shown ? gang->started || (is_clear && was_whole(gang, count, min))
				     : is_clear && is_left_over(gang, now_ns);
	if (gang->started) {
		remember_owners(gang);
		gang_forget_done(gangs, gang);
		gang->failures = 0;
		gang->waiting_ns = 0;
	} else if (!min || count->members < min) {
		gang->waiting_ns = 0;
	} else if (!gang->waiting_ns) {
		gang->waiting_ns = now_ns;
	}
	if (!count->shown || gang->started)
		gang->partly_ns = 0;
	else if (!gang->partly_ns)
		gang->partly_ns = now_ns;
}

static void soonest(int64_t *again_ns, int64_t due_ns, int64_t now_ns)
{
	int64_t in_ns = due_ns > now_ns ? due_ns - now_ns : 0;

	if (in_ns < *again_ns)
		*again_ns = in_ns;
}

/* Perhaps they are left over of a gang that ran before this process began, or while nobody watched. Once it
 * is answered the watch tells the rest. */
static void look_at_few(struct gangs *gangs, struct gang *gang, int64_t now_ns, int64_t *again_ns)
{
	const struct gang_member *member = NULL;

	if (gang->few_ns && !are_few(gang, now_ns))
		soonest(again_ns, gang->few_ns + ALL_MADE_NS, now_ns);
	if (!gangs->leads || !gangs->following || !are_few(gang, now_ns) || gang->owners.count ||
		gang->recalled || gang_count(gang).shown)
		return;
	if (!gang->recall_ns || now_ns - gang->recall_ns >= TELL_AGAIN_NS) {
		list_for_each (item, &gang->members)
			if (!member && !request_is_empty(&member_of(item)->facts.request))
				member = member_of(item);
		if (member)
			gangs_order(gangs, GANG_RECALL, member);
		gang->recall_ns = now_ns;
	}
	soonest(again_ns, gang->recall_ns + TELL_AGAIN_NS, now_ns);
}

static void tell_placed(struct gangs *gangs, struct gang *gang, enum gang_order_kind kind, int64_t now_ns)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (member->stage != GANG_PLACED || !member->facts.gang_forming ||
			(member->ordered_ns && now_ns - member->ordered_ns < TELL_AGAIN_NS))
			continue;
		member->ordered_ns = now_ns;
		gangs_order(gangs, kind, member);
	}
}

static int64_t timeout_of(const struct gangs *gangs, const struct gang *gang)
{
	return gang->has_group && gang->group.timeout_ns ? gang->group.timeout_ns : gangs->rules.timeout_ns;
}

static void look_at_placed(struct gangs *gangs, struct gang *gang, int64_t now_ns, int64_t *again_ns)
{
	bool marked = false;

	if (gang->started)
		tell_placed(gangs, gang, GANG_UNMARK, now_ns);
	else if (gang->partly_ns && now_ns - gang->partly_ns >= timeout_of(gangs, gang))
		tell_placed(gangs, gang, GANG_EVICT, now_ns);
	else if (gang->partly_ns)
		soonest(again_ns, gang->partly_ns + timeout_of(gangs, gang), now_ns);
	list_for_each (item, &gang->members)
		marked |= member_of(item)->stage == GANG_PLACED && member_of(item)->ordered_ns &&
			  member_of(item)->facts.gang_forming;
	if (marked)
		soonest(again_ns, now_ns + TELL_AGAIN_NS, now_ns);
}

static bool was_asked_for_since(const struct gang *gang, int64_t since_ns)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->asked_ns >= since_ns)
			return true;
	return false;
}

/* Requeued, and kube-scheduler has asked for none of them: another replica of us is asked now, or something
 * else keeps them all back. Its next question is waited for: a plan of ours would only have them tried in
 * vain. Not after an outage of the API server, in which no requeue arrives. */
static void give_up_idle(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	if (gangs->following && !was_asked_for_since(gang, gang->plan_ns))
		list_for_each (item, &gang->members)
			member_of(item)->asked_ns = 0;
	gang_give_up(gangs, gang, ledger, "kube-scheduler did not ask for its pods", now_ns);
}

/* Fewer pods may be needed than when the last of those at bind arrived there. */
static void go_at_bind(struct gangs *gangs, const struct gang *gang)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->stage == GANG_AT_BIND) {
			gangs_order(gangs, GANG_GO, member_of(item));
			return;
		}
}

/* Whoever stands at bind waits no longer; INT64_MAX: nobody is there. */
static int64_t barrier_ns(const struct gang *gang)
{
	int64_t first_ns = INT64_MAX;

	list_for_each (item, &gang->members)
		if (member_of(item)->stage == GANG_AT_BIND && member_of(item)->asked_ns < first_ns)
			first_ns = member_of(item)->asked_ns;
	return first_ns == INT64_MAX ? INT64_MAX : first_ns + GANG_BARRIER_NS;
}

/* A plan that holds: is it still one, and in time? */
static void look_at_plan(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	struct gang_count count = gang_count(gang);
	size_t fixed = count.placed + count.sent, coming = count.planned + count.answered;
	uint32_t min = gang_min(gang);

	if ((gang->started || (min && fixed >= min)) && !coming && !count.at_bind)
		gang->plan_ns = 0;
	if (!gang_has_plan(gang))
		return;
	if (now_ns >= barrier_ns(gang))
		gang_give_up(gangs, gang, ledger, "not enough of its pods came to bind in time", now_ns);
	else if (now_ns >= gang->plan_ns + GANG_IDLE_NS)
		give_up_idle(gangs, gang, ledger, now_ns);
	else if (!gang->started && !min)
		gang_give_up(
			gangs, gang, ledger, "nothing says any more how many of its pods it needs", now_ns);
	else if (count.at_bind && gangs->leads && (gang->started || fixed + count.at_bind >= min))
		go_at_bind(gangs, gang);
	else if (!gang->started && fixed + coming + count.at_bind < min &&
		 !(gangs->leads && gang_try(gangs, gang, ledger, now_ns)))
		gang_give_up(
			gangs, gang, ledger, "too few of its pods are left, and no others have room", now_ns);
}

/* Those that had no place beside the others sleep, and from now on each is to be placed by itself. Out of
 * memory: it is tried again in the next look. */
static void look_at_turned_away(struct gangs *gangs, struct gang *gang, int64_t now_ns)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (!gang->started || member->stage != GANG_WAITING || !member->told)
			continue;
		if (requeue_list_found_waiting(gangs->requeues, &member->facts, now_ns) == 0)
			member->told = GANG_NOTHING;
	}
}

static void look_at_gang(
	struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns, int64_t *again_ns)
{
	struct gang_count count;

	gang_refresh(gangs, gang, ledger);
	count = gang_count(gang);
	follow_coming_about(gangs, gang, &count, now_ns);
	if (!gang->started)
		look_at_few(gangs, gang, now_ns, again_ns);
	if (gangs->leads)
		look_at_placed(gangs, gang, now_ns, again_ns);
	if (gang_has_plan(gang))
		look_at_plan(gangs, gang, ledger, now_ns);
	if (gangs->leads)
		look_at_turned_away(gangs, gang, now_ns);
	if (gang_has_plan(gang)) {
		soonest(again_ns, gang->plan_ns + GANG_IDLE_NS, now_ns);
		soonest(again_ns, barrier_ns(gang), now_ns);
	}
	if (gang->not_before_ns > now_ns && !gang_has_plan(gang) && !gang->started)
		soonest(again_ns, gang->not_before_ns, now_ns);
}

/* What people see of a pod (its condition, Events) is what filter said last: "waits for the other pods of its
 * gang", though all have come since and there is no room. So it is to be asked for once more. */
static void look_at_reasons(
	struct gangs *gangs, struct gang *gang, const struct ledger *ledger, int64_t now_ns)
{
	enum gang_reason reason;

	if (gang->started || gang_has_plan(gang))
		return;
	reason = gang_waits_for(gangs, gang, ledger, now_ns);
	if (reason != GANG_TOO_FEW && reason != GANG_NO_ROOM && reason != GANG_NO_MIN &&
		reason != GANG_BAD_GROUP)
		return; /* it is over in a moment by itself */
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (member->stage != GANG_WAITING || !member->told || member->told == reason)
			continue;
		member->told = reason;
		requeue_list_gang_tells(gangs->requeues, member->facts.uid);
	}
}

static bool has_waited_long(const struct gangs *gangs, const struct gang *gang, int64_t now_ns)
{
	return gang->waiting_ns && !gang_has_plan(gang) && gang_is_asked_for(gang, now_ns) &&
	       now_ns - gang->waiting_ns >= gangs->rules.keep_after_ns;
}

/* For the first that has waited too long GPUs are kept, and for no other: two that share what becomes free
 * would both wait for ever. */
static void look_at_patience(
	struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns, int64_t *again_ns)
{
	struct gang *patient = NULL;
	bool waits = false;

	for (size_t i = 0; all[i]; i++) {
		waits |= has_waited_long(gangs, all[i], now_ns);
		if (!patient && has_waited_long(gangs, all[i], now_ns) &&
			gang_keep(gangs, all[i], ledger, now_ns))
			patient = all[i];
		else
			gang_let_go(gangs, all[i], ledger);
		if (all[i]->waiting_ns && now_ns - all[i]->waiting_ns < gangs->rules.keep_after_ns)
			soonest(again_ns, all[i]->waiting_ns + gangs->rules.keep_after_ns, now_ns);
	}
	gangs->kept = patient;
	if (waits)
		soonest(again_ns, now_ns + NS_PER_S, now_ns);
}

static void forget_what_is_over(struct gangs *gangs, int64_t now_ns)
{
	struct gang *gang;

	table_for_each (&gangs->by_key, cursor, gang) {
		if (!list_empty(&gang->members))
			continue;
		if (!gang->empty_ns)
			gang->empty_ns = now_ns;
		if (now_ns - gang->empty_ns < REMEMBERED_NS)
			continue;
		forget_owners(gang);
		gang_forget_done(gangs, gang);
		gang_drop_if_unused(gangs, gang);
	}
}

int64_t gangs_look(struct gangs *gangs, struct ledger *ledger, int64_t now_ns, bool leads)
{
	_cleanup_free_ struct gang **all = NULL;
	int64_t again_ns = INT64_MAX;

	if (!gangs->by_uid.count)
		return INT64_MAX;
	forget_unseen(gangs, now_ns);
	forget_what_is_over(gangs, now_ns);
	all = gangs_in_turn(gangs);
	if (!all)
		return NS_PER_S;
	leads &= gangs->groups_known;
	gangs->leads = leads;
	for (size_t i = 0; all[i]; i++)
		look_at_gang(gangs, all[i], ledger, now_ns, &again_ns);
	if (leads && gangs_try_in_turn(gangs, all, ledger, now_ns))
		soonest(&again_ns, now_ns + LOOK_AGAIN_NS, now_ns);
	for (size_t i = 0; leads && all[i]; i++)
		look_at_reasons(gangs, all[i], ledger, now_ns);
	if (leads)
		look_at_patience(gangs, all, ledger, now_ns, &again_ns);
	return again_ns;
}
