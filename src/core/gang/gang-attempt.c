#include "core/gang/gang.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/gang/gang-internal.h"
#include "core/gang/gang-plan.h"
#include "core/placement/decide.h"

/* The same time as for single pods (decide.c): PreBind may wait for volumes, and bind comes only after it. */
#define HOLD_NS (600 * NS_PER_S)
#define BACKOFF_FIRST_NS NS_PER_S
#define BACKOFF_DOUBLINGS 5 /* 32 s at most */

static const char *reason_text(enum gang_reason reason)
{
	static const char *const texts[] = {[GANG_NOTHING] = NULL,
		[GANG_NOT_READ] = "the cluster's PodGroups are not read yet",
		[GANG_NO_MIN] = "its gang has no PodGroup and no min-available",
		[GANG_BAD_GROUP] = "its PodGroup's minMember is not a number from 1 to 1000",
		[GANG_TOO_FEW] = "waits for the other pods of its gang",
		[GANG_NO_ROOM] = "no room for its whole gang",
		[GANG_NOT_YET] = "its gang is tried again in a moment",
		[GANG_NOT_NEEDED] = "no room beside the others of its gang"};

	return texts[reason];
}

static void member_wait(struct gangs *gangs, struct gang_member *member)
{
	member->stage = GANG_WAITING;
	requeue_list_gang_has_none(gangs->requeues, member->facts.uid);
}

void gang_refresh(struct gangs *gangs, struct gang *gang, const struct ledger *ledger)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);
		const struct ledger_pod *known = ledger_pod(ledger, member->facts.uid);
		enum occupancy has = known ? known->occupancy : OCCUPANCY_WAITING;

		if ((member->stage == GANG_PLANNED || member->stage == GANG_ANSWERED) &&
			has != OCCUPANCY_TENTATIVE)
			member_wait(gangs, member);
		else if (member->stage == GANG_SENT && has != OCCUPANCY_RESERVED)
			member->stage = has == OCCUPANCY_BOUND ? GANG_PLACED : GANG_WAITING;
	}
}

static bool is_free(const struct gang_member *member)
{
	return (member->stage == GANG_WAITING || member->stage == GANG_PLANNED) &&
	       gang_member_needs_gpu(member);
}

static size_t free_members(const struct gang *gang, struct gang_member **members, size_t *ret_fixed)
{
	size_t n = 0;

	*ret_fixed = 0;
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (is_free(member) && n < GANG_SLOTS_MAX)
			members[n++] = member;
		else if (member->stage != GANG_WAITING)
			++*ret_fixed;
	}
	return n;
}

static bool holds_already(const struct ledger *ledger, const struct gang_slot *slot)
{
	const struct ledger_pod *known = ledger_pod(ledger, slot->pod->uid);

	return known && known->occupancy == OCCUPANCY_TENTATIVE && known->has_placement && slot->node &&
	       strcmp(known->node, slot->node->facts.name) == 0 &&
	       placement_equal(&known->placement, &slot->placement);
}

/* First drops the holds of all members, because members may exchange their places. */
static int hold_all(struct ledger *ledger, const struct gang_slot *slots, size_t n, int64_t now_ns)
{
	for (size_t i = 0; i < n; i++)
		if (!holds_already(ledger, &slots[i]))
			ledger_drop_hold(ledger, slots[i].pod->uid);
	for (size_t i = 0; i < n; i++) {
		int r;

		if (!slots[i].node || holds_already(ledger, &slots[i]))
			continue;
		r = ledger_hold(ledger, slots[i].pod, slots[i].node->facts.name, &slots[i].placement,
			now_ns + HOLD_NS);
		if (r < 0)
			return r;
	}
	return 0;
}

/* If memory runs out, kube-scheduler tries the member by itself, at the latest after some minutes. */
static void mark_planned(struct gangs *gangs, struct gang_member **members, const struct gang_slot *slots,
	size_t n, int64_t now_ns)
{
	for (size_t i = 0; i < n; i++) {
		struct gang_member *member = members[i];

		if (!slots[i].node) {
			member_wait(gangs, member);
			continue;
		}
		if (member->stage == GANG_WAITING)
			(void)requeue_list_gang_has_place(gangs->requeues, &member->facts, now_ns);
		member->stage = GANG_PLANNED;
	}
}

static void note_no_room(struct gang *gang, const struct ledger *ledger, int64_t now_ns)
{
	gang->no_room = (struct gang_no_room){
		.generation = ledger->generation, .until_ns = now_ns + GANG_NODES_VALID_NS};
}

bool gang_try(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns, bool asked)
{
	struct gang_member *members[GANG_SLOTS_MAX];
	uint32_t min = gang_min(gangs, gang);
	size_t fixed, n = free_members(gang, members, &fixed);
	size_t needed = min > fixed ? min - fixed : 1;
	_cleanup_free_ struct gang_slot *slots = gang_slots_new(members, n, now_ns);
	int r = -ENOMEM;

	gang_goes_before_kept(gangs, gang, ledger);
	if (slots)
		r = gang_plan(ledger, slots, n, needed);
	if (r >= 0)
		gang_tell(gangs, &(struct gang_event){.kind = GANG_EVENT_PLAN,
					 .gang = gang,
					 .asked = asked,
					 .slots = slots,
					 .n_slots = n,
					 .needed = needed,
					 .placed = (size_t)r});
	if (r > 0 && hold_all(ledger, slots, n, now_ns) < 0)
		r = -ENOMEM;
	if (r > 0)
		mark_planned(gangs, members, slots, n, now_ns);
	if (slots)
		gang_slots_release(slots, n);
	if (r <= 0) {
		if (gang_has_plan(gang) && fixed < min)
			gang_keep_held(gangs, gang, ledger, now_ns);
		for (size_t i = 0; i < n; i++) {
			ledger_drop_hold(ledger, members[i]->facts.uid);
			member_wait(gangs, members[i]);
		}
		note_no_room(gang, ledger, now_ns);
		return false;
	}
	gang->plan_ns = now_ns;
	gang_let_go(gangs, gang, ledger);
	return true;
}

/* All members wait again. */
static void disperse(
	struct gangs *gangs, struct gang *gang, struct ledger *ledger, const char *why, int64_t now_ns)
{
	gang_keep_held(gangs, gang, ledger, now_ns);
	gang_tell(gangs, &(struct gang_event){.kind = GANG_EVENT_GIVEN_UP, .gang = gang, .text = why});
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (member->stage == GANG_AT_BIND)
			gangs_order(gangs, GANG_TURN_AWAY, member);
		if (member->stage != GANG_PLANNED && member->stage != GANG_ANSWERED &&
			member->stage != GANG_AT_BIND)
			continue;
		ledger_drop_hold(ledger, member->facts.uid);
		member_wait(gangs, member);
	}
	gang->plan_ns = 0;
	gang_changed(gang);
}

void gang_give_up(
	struct gangs *gangs, struct gang *gang, struct ledger *ledger, const char *why, int64_t now_ns)
{
	uint32_t doublings = gang->backoff.failures < BACKOFF_DOUBLINGS ? gang->backoff.failures
									: BACKOFF_DOUBLINGS;
	bool waits;

	/* Marks the member that the members at bind wait for. To tell users, the first such member is enough.
	 */
	waits = gang_count(gang).at_bind;
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		member->missed = waits && (member->stage == GANG_PLANNED || member->stage == GANG_ANSWERED);
		waits &= !member->missed;
	}
	disperse(gangs, gang, ledger, why, now_ns);
	if (gang->started)
		return;
	gang->backoff.not_before_ns = now_ns + (BACKOFF_FIRST_NS << doublings);
	gang->backoff.failures++;
}

void gangs_give_up(
	struct gangs *gangs, struct ledger *ledger, const char *uid, const char *why, int64_t now_ns)
{
	struct gang_member *member = gang_member_find(gangs, uid);

	if (member)
		gang_give_up(gangs, member->gang, ledger, why, now_ns);
}

static bool goes_singly(const struct gangs *gangs, const struct gang *gang)
{
	struct gang_count count = gang_count(gang);
	uint32_t min = gangs->groups_known ? gang_min(gangs, gang) : 0;

	return gang->started || (min && count.placed + count.sent >= min);
}

enum gang_reason gang_waits_for(
	const struct gangs *gangs, const struct gang *gang, const struct ledger *ledger, int64_t now_ns)
{
	struct gang_count count = gang_count(gang);
	uint32_t min = gang_min(gangs, gang);
	size_t placed = count.placed + count.sent, planned = count.planned + count.answered + count.at_bind;

	if (!gangs->groups_known)
		return GANG_NOT_READ;
	if (!min)
		return gang->has_group ? GANG_BAD_GROUP : GANG_NO_MIN;
	if (placed + planned + count.waiting < min)
		return GANG_TOO_FEW;
	if (gang_has_plan(gang))
		return GANG_NOTHING;
	if (now_ns < gang->backoff.not_before_ns)
		return GANG_NOT_YET;
	return gang_found_no_room(gang, ledger, now_ns) ? GANG_NO_ROOM : GANG_NOTHING;
}

/* Returns the member's node if the member holds a place on a node that it may go to; otherwise NULL. */
static const char *planned_node(const struct gang_member *member, const struct ledger *ledger)
{
	const struct ledger_pod *known = ledger_pod(ledger, member->facts.uid);

	if ((member->stage != GANG_PLANNED && member->stage != GANG_ANSWERED) || !known || !known->node)
		return NULL;
	if (member->nodes && !table_get(&member->nodes->names, known->node))
		return NULL;
	return known->node;
}

static const char *answer_node(
	struct gangs *gangs, struct gang_member *member, const struct ledger *ledger, int64_t now_ns)
{
	const char *node = planned_node(member, ledger);

	if (!node)
		return NULL;
	member->stage = GANG_ANSWERED;
	member->told = GANG_NOTHING;
	requeue_list_stop(gangs->requeues, member->facts.uid, REQUEUE_GANG);
	member->gang->plan_ns = now_ns;
	return node;
}

/* kube-scheduler asks for the member again, so it has forgotten the member's previous scheduling cycle. */
static void ask_anew(struct gangs *gangs, struct gang_member *member, struct ledger *ledger,
	const char *const *names, size_t n, int64_t now_ns)
{
	if (member->stage == GANG_AT_BIND) {
		gangs_order(gangs, GANG_TURN_AWAY, member);
		member->stage = GANG_ANSWERED;
	}
	gang_nodes_remember(gangs, member, names, n, now_ns);
	gang_refresh(gangs, member->gang, ledger);
	/* The member cannot keep its place: a new plan may move it. */
	if (member->stage == GANG_ANSWERED && !planned_node(member, ledger))
		member->stage = GANG_PLANNED;
}

/* The members that have their places already may still be enough. A plan that no member has used yet was
 * wrong about the nodes where the pods may go; that does not count as a failure. */
static void leave_without_room(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	struct gang_count count = gang_count(gang);
	size_t fixed = count.placed + count.sent + count.answered + count.at_bind;

	if (!gang_has_plan(gang) || fixed >= gang_min(gangs, gang))
		return;
	if (fixed) {
		gang_give_up(gangs, gang, ledger, reason_text(GANG_NO_ROOM), now_ns);
		return;
	}
	disperse(gangs, gang, ledger, reason_text(GANG_NO_ROOM), now_ns);
	note_no_room(gang, ledger, now_ns);
}

static const char *find_node(struct gangs *gangs, struct gang_member *member, struct ledger *ledger,
	int64_t now_ns, enum gang_reason *ret_reason)
{
	struct gang *gang = member->gang;
	const char *node = gang_has_plan(gang) ? answer_node(gangs, member, ledger, now_ns) : NULL;

	if (node)
		return node;
	*ret_reason = gang_waits_for(gangs, gang, ledger, now_ns);
	if (*ret_reason)
		return NULL;
	*ret_reason = GANG_NOT_YET;
	if (!gang_has_plan(gang) && gangs_keep_out(gangs, gang))
		return NULL;
	if (!gang_has_plan(gang))
		gangs_try_before(gangs, gang, ledger, now_ns);
	*ret_reason = GANG_NO_ROOM;
	if (!gang_try(gangs, gang, ledger, now_ns, true)) {
		leave_without_room(gangs, gang, ledger, now_ns);
		return NULL;
	}
	*ret_reason = GANG_NOT_NEEDED;
	return answer_node(gangs, member, ledger, now_ns);
}

enum gang_answer gangs_filter(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *pod,
	const char *const *names, size_t n, int64_t now_ns, const char **ret_node, const char **ret_text)
{
	struct gang_member *member;
	const char *node;

	*ret_text = reason_text(GANG_NOT_YET);
	member = gang_member_find(gangs, pod->uid);
	if (!pod->gang && !member)
		return GANG_NONE;
	if (member) /* a pod whose Binding was refused may leave its gang */
		gang_refresh(gangs, member->gang, ledger);
	if (gangs_see_pod(gangs, ledger, pod, false, now_ns) < 0)
		return GANG_WAIT;
	member = gang_member_find(gangs, pod->uid);
	if (!pod->gang || !member || member->stage == GANG_PLACED)
		return GANG_NONE;
	ask_anew(gangs, member, ledger, names, n, now_ns);
	if (goes_singly(gangs, member->gang)) {
		if (member->stage != GANG_SENT)
			member_wait(gangs, member);
		member->told = GANG_NOTHING;
		requeue_list_stop(gangs->requeues, pod->uid, REQUEUE_GANG);
		return GANG_NONE;
	}
	node = find_node(gangs, member, ledger, now_ns, &member->told);
	if (node) {
		*ret_node = node;
		return GANG_NODE;
	}
	*ret_text = reason_text(member->told);
	(void)requeue_list_waits_for_gang(gangs->requeues, pod, now_ns);
	return GANG_WAIT;
}

/* A member may come to bind without a place on this node. Its gang's plan may have been given up while
 * PreBind waited for the member's volumes, or another process may have answered filter. The member needs a
 * place here before the gang's next plan: the plan has no place for a member at bind, and ends what is kept
 * for it. */
static bool has_place_on(
	const struct gang_member *member, struct ledger *ledger, const char *node, int64_t now_ns)
{
	const struct ledger_pod *known = ledger_pod(ledger, member->facts.uid);

	if (known && known->occupancy == OCCUPANCY_TENTATIVE && strcmp(known->node, node) == 0)
		return true;
	return decide_hold(ledger, &member->facts, node, now_ns) == 0;
}

bool gangs_bind(struct gangs *gangs, struct ledger *ledger, const char *uid, const char *node, int64_t now_ns)
{
	struct gang_member *member = gang_member_find(gangs, uid);
	struct gang *gang = member ? member->gang : NULL;
	struct gang_count count;

	if (!gang)
		return false;
	gang_refresh(gangs, gang, ledger); /* refused Bindings no longer count */
	if (member->stage >= GANG_SENT || goes_singly(gangs, gang))
		return false;
	/* Another process answered filter; it knew how many members the gang needs, and this process does not
	 * yet. */
	if (!gangs->groups_known || !gang_min(gangs, gang) || !has_place_on(member, ledger, node, now_ns)) {
		gangs_order(gangs, GANG_TURN_AWAY, member);
		return true;
	}
	member->stage = GANG_AT_BIND;
	member->asked_ns = now_ns;
	gang->plan_ns = now_ns;
	count = gang_count(gang);
	if (count.placed + count.sent + count.at_bind >= gang_min(gangs, gang))
		gangs_order(gangs, GANG_GO, member);
	return true;
}

void gangs_sent(struct gangs *gangs, const char *uid)
{
	struct gang_member *member = gang_member_find(gangs, uid);

	if (member && member->stage != GANG_PLACED)
		member->stage = GANG_SENT;
}

bool gangs_are_mates(const struct gangs *gangs, const char *uid, const char *other)
{
	const struct gang_member *a = gang_member_find(gangs, uid), *b = gang_member_find(gangs, other);

	return a && b && a->gang == b->gang;
}

const struct pod_facts *gangs_facts(const struct gangs *gangs, const char *uid)
{
	const struct gang_member *member = gang_member_find(gangs, uid);

	return member ? &member->facts : NULL;
}

bool gangs_is_forming(const struct gangs *gangs, const char *uid)
{
	const struct gang_member *member = gang_member_find(gangs, uid);

	/* The pods that are left over of a gang that has run are not part of another gang. */
	return member && !(member->gang->started && !gang_count(member->gang).shown);
}

bool gangs_rules_out(const struct gangs *gangs, const struct pod_facts *pod)
{
	const struct gang_member *member = pod->gang ? gang_member_find(gangs, pod->uid) : NULL;

	return member && !goes_singly(gangs, member->gang);
}

bool gangs_holds(const struct gangs *gangs, const char *uid)
{
	const struct gang_member *member = gang_member_find(gangs, uid);

	return member && member->stage == GANG_PLANNED;
}

/* ---- for a ResourcePolicy, which narrows the nodes of a gang ---- */

/* kube-scheduler knows the member's node. For the member that it asks about now, it has forgotten the node.
 */
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
	if (goes_singly(gangs, member->gang) || (waits_for && waits_for != GANG_NO_ROOM))
		return false;
	gang_goes_before_kept(gangs, member->gang, ledger);
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
	n = free_members(member->gang, members, &fixed);
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
	       !goes_singly(gangs, member->gang);
}

/* ---- for people ---- */

/* Counts the members that find room, without the search of a plan, which has found no room for min of them.
 * The result may be less than the search would place. */
static int count_room(const struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	struct gang_member *members[GANG_SLOTS_MAX];
	size_t fixed, n = free_members(gang, members, &fixed);
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
	ret_view->text = reason_text(reason);
	if (reason == GANG_NO_ROOM)
		ret_view->n_room = count_room(member->gang, ledger, now_ns);
	return true;
}
