#include "model/gang.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/gang-internal.h"

/* kube-scheduler may be ahead of our watch, but not by this much while the watch is open. */
#define UNSEEN_MAX_NS (10 * NS_PER_S)
/* A controller that replaces pods so late begins anew. */
#define REMEMBERED_NS (3600 * NS_PER_S)
/* A controller makes all of its pods within this time. */
#define ALL_MADE_NS (10 * NS_PER_S)
/* How often an order is repeated while its effect is not seen. */
#define TELL_AGAIN_NS (5 * NS_PER_S)
#define LOOK_AGAIN_NS (50 * NS_PER_MS)

void gangs_init(struct gangs *gangs, const struct gang_rules *rules)
{
	*gangs = (struct gangs){.rules = *rules};
	table_init(&gangs->by_key);
	table_init(&gangs->by_uid);
	list_init(&gangs->orders);
	list_init(&gangs->node_sets);
	gangs->round = 1;
}

void gang_order_free(struct gang_order *order)
{
	if (!order)
		return;
	list_remove(&order->item);
	free(order->uid);
	free(order);
}

struct gang_order *gangs_next_order(struct gangs *gangs)
{
	struct gang_order *order;

	if (list_empty(&gangs->orders))
		return NULL;
	order = list_entry(gangs->orders.next, struct gang_order, item);
	list_remove(&order->item);
	return order;
}

void gangs_order(struct gangs *gangs, enum gang_order_kind kind, const struct gang_member *member)
{
	struct gang_order *order = calloc(1, sizeof(*order));

	if (!order)
		return;
	order->kind = kind;
	order->uid = strdup(member->facts.uid);
	if (!order->uid) {
		free(order);
		return;
	}
	list_append(&gangs->orders, &order->item);
}

static void member_free(struct gang_member *member)
{
	list_remove(&member->item);
	gang_nodes_drop(member);
	pod_facts_release(&member->facts);
	free(member);
}

static void gang_free(struct gang *gang)
{
	list_for_each_safe (item, after, &gang->members)
		member_free(member_of(item));
	table_release(&gang->owners);
	free(gang->missing);
	free(gang->key);
	free(gang);
}

void gangs_release(struct gangs *gangs)
{
	struct gang_order *order;
	struct gang *gang;

	while ((order = gangs_next_order(gangs)))
		gang_order_free(order);
	table_for_each (&gangs->by_key, cursor, gang)
		gang_free(gang);
	table_release(&gangs->by_key);
	table_release(&gangs->by_uid);
}

void gang_tell(const struct gangs *gangs, const struct gang_tale *tale)
{
	if (gangs->listener)
		gangs->listener(gangs->listener_data, tale);
}

void gang_changed(struct gang *gang)
{
	gang->looked_at = false;
}

static struct gang *gang_get_or_add(struct gangs *gangs, const char *key)
{
	struct gang *gang = table_get(&gangs->by_key, key);

	if (gang)
		return gang;
	gang = calloc(1, sizeof(*gang));
	if (!gang)
		return NULL;
	list_init(&gang->members);
	table_init(&gang->owners);
	gang->key = strdup(key);
	if (!gang->key || table_set(&gangs->by_key, key, gang) < 0) {
		gang_free(gang);
		return NULL;
	}
	return gang;
}

static void gang_drop_if_unused(struct gangs *gangs, struct gang *gang)
{
	if (!list_empty(&gang->members) || gang->has_group || gang->owners.count)
		return;
	table_remove(&gangs->by_key, gang->key);
	gang_free(gang);
}

/* The end of a pod in any stage; its call of bind is still open in one of them. */
static void member_leave(struct gangs *gangs, struct gang_member *member)
{
	struct gang *gang = member->gang;

	if (member->stage == GANG_AT_BIND)
		gangs_order(gangs, GANG_TURN_AWAY, member);
	if (gang->missing && strcmp(gang->missing, member->facts.name) == 0)
		gang_set_missing(gang, NULL);
	table_remove(&gangs->by_uid, member->facts.uid);
	member_free(member);
	gang_changed(gang);
	gang_drop_if_unused(gangs, gang);
}

void gang_set_missing(struct gang *gang, const struct gang_member *member)
{
	free(gang->missing);
	gang->missing = member ? strdup(member->facts.name) : NULL;
}

/* Made by a controller whose pods have been placed here together. */
static bool is_successor(const struct gang *gang, const struct pod_facts *facts)
{
	return facts->owner && *facts->owner && table_get(&gang->owners, facts->owner);
}

static bool are_successors(const struct gang *gang)
{
	list_for_each (item, &gang->members)
		if (!is_successor(gang, &member_of(item)->facts))
			return false;
	return true;
}

void gangs_forget_pod(struct gangs *gangs, const char *uid)
{
	struct gang_member *member = table_get(&gangs->by_uid, uid);

	if (member)
		member_leave(gangs, member);
}

static struct gang_member *member_add(
	struct gangs *gangs, const char *key, const struct pod_facts *facts, int64_t now_ns)
{
	struct gang *gang = gang_get_or_add(gangs, key);
	struct gang_member *member = gang ? calloc(1, sizeof(*member)) : NULL;

	if (!member || pod_facts_copy(facts, &member->facts) < 0 ||
		table_set(&gangs->by_uid, facts->uid, member) < 0) {
		if (member)
			pod_facts_release(&member->facts);
		free(member);
		if (gang)
			gang_drop_if_unused(gangs, gang);
		return NULL;
	}
	gang->empty_ns = 0;
	gang->came_about &= gang_count(gang).placed > 0;
	member->gang = gang;
	member->seen_ns = now_ns;
	list_append(&gang->members, &member->item);
	gang_changed(gang);
	return member;
}

/* Older events may follow newer ones of a question: what is bound stays so. */
static int member_take(struct gang_member *member, const struct pod_facts *facts)
{
	_cleanup_pod_facts_ struct pod_facts copy = {0};
	bool placed = member->stage == GANG_PLACED;

	if (pod_facts_copy(facts, &copy) < 0)
		return -ENOMEM;
	if (copy.gang_min != member->facts.gang_min || copy.priority != member->facts.priority)
		gang_changed(member->gang);
	pod_facts_release(&member->facts);
	member->facts = copy;
	pod_facts_init(&copy);
	if (!placed && *facts->node) {
		member->stage = GANG_PLACED;
		gang_changed(member->gang);
	}
	return 0;
}

static bool belongs_to(const struct pod_facts *facts)
{
	return facts->gang && !facts->finished && !facts->deleting;
}

int gangs_see_pod(struct gangs *gangs, const struct pod_facts *facts, bool listed, int64_t now_ns)
{
	struct gang_member *member;
	char key[520];

	if (!facts->gang && !gangs->by_uid.count)
		return 0;
	member = table_get(&gangs->by_uid, facts->uid);
	if (belongs_to(facts))
		snprintf(key, sizeof(key), "%s/%s", facts->namespace_, facts->gang);
	if (member && (!belongs_to(facts) || strcmp(member->gang->key, key) != 0)) {
		member_leave(gangs, member);
		member = NULL;
	}
	if (!belongs_to(facts))
		return 0;
	if (!member)
		member = member_add(gangs, key, facts, now_ns);
	if (!member)
		return -ENOMEM;
	member->listed |= listed;
	return member_take(member, facts);
}

int gangs_set_group(struct gangs *gangs, const char *key, const struct gang_group *group)
{
	struct gang *gang = gang_get_or_add(gangs, key);

	if (!gang)
		return -ENOMEM;
	gang->has_group = true;
	gang->group = *group;
	gang_changed(gang);
	return 0;
}

void gangs_remove_group(struct gangs *gangs, const char *key)
{
	struct gang *gang = table_get(&gangs->by_key, key);

	if (!gang)
		return;
	gang->has_group = false;
	gang_changed(gang);
	gang_drop_if_unused(gangs, gang);
}

struct gang_count gang_count(const struct gang *gang)
{
	struct gang_count count = {0};

	list_for_each (item, &gang->members) {
		const struct gang_member *member = member_of(item);

		count.members++;
		count.placed += member->stage == GANG_PLACED;
		count.sent += member->stage == GANG_SENT;
		count.at_bind += member->stage == GANG_AT_BIND;
		count.answered += member->stage == GANG_ANSWERED;
		count.planned += member->stage == GANG_PLANNED;
		/* What asks for no GPU is kube-scheduler's own business: it counts when it is placed. */
		count.waiting += member->stage == GANG_WAITING && !request_is_empty(&member->facts.request);
	}
	return count;
}

uint32_t gang_min(const struct gang *gang, bool *ret_differ)
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

/* A question that no watch followed: the pod was deleted just before. */
static void forget_unseen(struct gangs *gangs, int64_t now_ns)
{
	struct gang_member *member;

	table_for_each (&gangs->by_uid, cursor, member)
		if (!member->listed && now_ns - member->seen_ns > UNSEEN_MAX_NS)
			member_leave(gangs, member);
}

/* Has it been whole before? A member that is placed without the mark was placed in one that was, or by
 * somebody else. */
static bool was_whole(const struct gang *gang, const struct gang_count *count, uint32_t min)
{
	if (min && count->placed >= min)
		return true;
	list_for_each (item, &gang->members) {
		const struct gang_member *member = member_of(item);

		if (member->stage == GANG_PLACED && !member->facts.gang_forming &&
			!request_is_empty(&member->facts.request) && *member->facts.node)
			return true;
	}
	return false;
}

/* Out of memory forgets one. */
static void remember_owners(struct gang *gang)
{
	list_for_each (item, &gang->members) {
		const struct gang_member *member = member_of(item);

		if (member->stage == GANG_PLACED && member->facts.owner && *member->facts.owner &&
			!is_successor(gang, &member->facts))
			table_set(&gang->owners, member->facts.owner, gang);
	}
}

static void forget_owners(struct gang *gang)
{
	table_release(&gang->owners);
	table_init(&gang->owners);
}

/* Too few pods for a gang, made in place of some that have run. */
static bool is_left_over(struct gang *gang, const struct gang_count *count, uint32_t min, int64_t now_ns)
{
	if (gang->owners.count && !are_successors(gang))
		forget_owners(gang);
	if (!gang->owners.count || count->members >= min)
		gang->few_ns = 0;
	else if (!gang->few_ns)
		gang->few_ns = now_ns;
	return gang->few_ns && now_ns - gang->few_ns >= ALL_MADE_NS;
}

static void follow_coming_about(struct gang *gang, const struct gang_count *count, int64_t now_ns)
{
	uint32_t min = gang_min(gang, NULL);

	gang->came_about = count->placed ? gang->came_about || was_whole(gang, count, min)
					 : is_left_over(gang, count, min, now_ns);
	if (gang->came_about) {
		remember_owners(gang);
		gang->failures = 0;
		gang_set_missing(gang, NULL);
		gang->waiting_ns = 0;
	} else if (!min || count->members < min) {
		gang->waiting_ns = 0;
	} else if (!gang->waiting_ns) {
		gang->waiting_ns = now_ns;
	}
	if (!count->placed || gang->came_about)
		gang->partly_ns = 0;
	else if (!gang->partly_ns)
		gang->partly_ns = now_ns;
}

static void tell_placed(struct gangs *gangs, struct gang *gang, enum gang_order_kind kind, int64_t now_ns)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (member->stage != GANG_PLACED || !member->facts.gang_forming ||
			(member->told_ns && now_ns - member->told_ns < TELL_AGAIN_NS))
			continue;
		member->told_ns = now_ns;
		gangs_order(gangs, kind, member);
	}
}

static int64_t timeout_of(const struct gangs *gangs, const struct gang *gang)
{
	return gang->has_group && gang->group.timeout_ns ? gang->group.timeout_ns : gangs->rules.timeout_ns;
}

static void soonest(int64_t *again_ns, int64_t due_ns, int64_t now_ns)
{
	int64_t in_ns = due_ns > now_ns ? due_ns - now_ns : 0;

	if (in_ns < *again_ns)
		*again_ns = in_ns;
}

static void look_at_placed(struct gangs *gangs, struct gang *gang, int64_t now_ns, int64_t *again_ns)
{
	bool marked = false;

	if (gang->came_about)
		tell_placed(gangs, gang, GANG_UNMARK, now_ns);
	else if (gang->partly_ns && now_ns - gang->partly_ns >= timeout_of(gangs, gang))
		tell_placed(gangs, gang, GANG_EVICT, now_ns);
	else if (gang->partly_ns)
		soonest(again_ns, gang->partly_ns + timeout_of(gangs, gang), now_ns);
	list_for_each (item, &gang->members)
		marked |= member_of(item)->stage == GANG_PLACED && member_of(item)->told_ns &&
			  member_of(item)->facts.gang_forming;
	if (marked)
		soonest(again_ns, now_ns + TELL_AGAIN_NS, now_ns);
}

static void look_at_nudges(struct gangs *gangs, struct gang *gang, int64_t now_ns, int64_t *again_ns)
{
	list_for_each (item, &gang->members) {
		struct gang_member *member = member_of(item);

		if (!member->nudge_ns || member->stage != GANG_PLANNED)
			continue;
		if (member->nudge_ns > now_ns) {
			soonest(again_ns, member->nudge_ns, now_ns);
			continue;
		}
		gangs_order(gangs, GANG_NUDGE, member);
		member->nudge_ns = now_ns + GANG_BARRIER_NS;
		soonest(again_ns, member->nudge_ns, now_ns);
	}
}

/* A plan that holds: is it still one, and in time? */
static void look_at_plan(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	struct gang_count count = gang_count(gang);
	size_t fixed = count.placed + count.sent;

	if (gang->came_about || fixed >= gang_min(gang, NULL)) {
		if (!count.planned && !count.answered && !count.at_bind)
			gang->trying = false;
		if (!count.at_bind)
			gang->barrier_ns = 0;
	}
	if (!gang->trying)
		return;
	fixed += count.planned + count.answered + count.at_bind;
	if (gang->barrier_ns && now_ns >= gang->barrier_ns)
		gang_give_up(gangs, gang, ledger, "not enough of its pods came to bind in time", now_ns);
	else if (now_ns >= gang->idle_ns)
		gang_give_up(gangs, gang, ledger, "kube-scheduler did not ask for its pods", now_ns);
	else if (!gang->came_about && fixed < gang_min(gang, NULL) &&
		 !(gangs->leads && gang_try(gangs, gang, ledger, now_ns)))
		gang_give_up(
			gangs, gang, ledger, "too few of its pods are left, and no others have room", now_ns);
}

/* Those that had no place beside the others sleep, and from now on each is to be placed by itself. */
static void wake_the_others(struct gangs *gangs, struct gang *gang)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->stage == GANG_WAITING && member_of(item)->turned_away)
			gangs_order(gangs, GANG_NUDGE, member_of(item));
}

static void look_at_gang(
	struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns, int64_t *again_ns)
{
	struct gang_count count;
	bool before = gang->came_about;

	gang_refresh(gang, ledger);
	count = gang_count(gang);
	follow_coming_about(gang, &count, now_ns);
	if (gang->came_about && !before && gangs->leads)
		wake_the_others(gangs, gang);
	if (gang->few_ns && !gang->came_about)
		soonest(again_ns, gang->few_ns + ALL_MADE_NS, now_ns);
	if (gangs->leads)
		look_at_placed(gangs, gang, now_ns, again_ns);
	if (gang->trying)
		look_at_plan(gangs, gang, ledger, now_ns);
	look_at_nudges(gangs, gang, now_ns, again_ns);
	if (gang->trying)
		soonest(again_ns,
			gang->barrier_ns && gang->barrier_ns < gang->idle_ns ? gang->barrier_ns
									     : gang->idle_ns,
			now_ns);
	if (gang->not_before_ns > now_ns && !gang->trying && !gang->came_about)
		soonest(again_ns, gang->not_before_ns, now_ns);
}

static bool has_waited_long(const struct gangs *gangs, const struct gang *gang, int64_t now_ns)
{
	return gang->waiting_ns && !gang->trying && gang_is_asked_for(gang, now_ns) &&
	       now_ns - gang->waiting_ns >= gangs->rules.keep_after_ns;
}

/* For the first that has waited too long cards are kept, and for no other: two that share what becomes free
 * would both wait for ever. */
static void look_at_patience(
	struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns, int64_t *again_ns)
{
	struct gang *patient = NULL;
	bool waits = false;

	for (size_t i = 0; all[i]; i++) {
		waits |= has_waited_long(gangs, all[i], now_ns);
		if (!patient && has_waited_long(gangs, all[i], now_ns)) {
			gang_keep(gangs, all[i], ledger, now_ns);
			if (all[i]->keeping)
				patient = all[i];
		} else if (all[i]->keeping) {
			gang_let_go(all[i], ledger);
		}
		if (all[i]->waiting_ns && now_ns - all[i]->waiting_ns < gangs->rules.keep_after_ns)
			soonest(again_ns, all[i]->waiting_ns + gangs->rules.keep_after_ns, now_ns);
	}
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
	gangs->leads = leads;
	for (size_t i = 0; all[i]; i++)
		look_at_gang(gangs, all[i], ledger, now_ns, &again_ns);
	if (leads && gangs_try_in_turn(gangs, all, ledger, now_ns))
		soonest(&again_ns, now_ns + LOOK_AGAIN_NS, now_ns);
	if (leads)
		look_at_patience(gangs, all, ledger, now_ns, &again_ns);
	return again_ns;
}
