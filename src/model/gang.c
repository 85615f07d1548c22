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
#define ASKED_MAX_NS (600 * NS_PER_S)
/* How often an order is repeated while its effect is not seen. */
#define TELL_AGAIN_NS (5 * NS_PER_S)
/* Plans that one look makes: a few milliseconds. The next look goes on. */
#define PLANS_PER_LOOK 32
#define LOOK_AGAIN_NS (50 * NS_PER_MS)

void gangs_init(struct gangs *gangs, const struct gang_rules *rules)
{
	*gangs = (struct gangs){.rules = *rules};
	table_init(&gangs->by_key);
	table_init(&gangs->by_uid);
	list_init(&gangs->orders);
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

void gang_nodes_drop(struct gang_member *member)
{
	struct gang_nodes *nodes = member->nodes;

	member->nodes = NULL;
	if (!nodes || --nodes->users)
		return;
	table_release(&nodes->names);
	free(nodes);
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
	gang->key = strdup(key);
	if (!gang->key || table_set(&gangs->by_key, key, gang) < 0) {
		gang_free(gang);
		return NULL;
	}
	return gang;
}

static void gang_drop_if_unused(struct gangs *gangs, struct gang *gang)
{
	if (!list_empty(&gang->members) || gang->has_group)
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
	table_remove(&gangs->by_uid, member->facts.uid);
	member_free(member);
	gang_changed(gang);
	gang_drop_if_unused(gangs, gang);
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

bool gang_is_first(const struct gang *a, const struct gang *b)
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

/* NULL-terminated, in turn; NULL when out of memory. */
static struct gang **gangs_in_turn(const struct gangs *gangs)
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

static void follow_coming_about(struct gang *gang, const struct gang_count *count, int64_t now_ns)
{
	uint32_t min = gang_min(gang, NULL);

	gang->came_about = count->placed && (gang->came_about || was_whole(gang, count, min));
	if (gang->came_about) {
		gang->failures = 0;
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
	if (now_ns >= gang->idle_ns || (gang->barrier_ns && now_ns >= gang->barrier_ns) ||
		(!gang->came_about && fixed < gang_min(gang, NULL) &&
			!(gangs->leads && gang_try(gangs, gang, ledger, now_ns))))
		gang_give_up(gangs, gang, ledger, now_ns);
}

/* kube-scheduler asks us for its pods: there are other schedulers' gangs in a cluster, and other replicas of
 * us. It asks for each pod that waits at least every 5 minutes (flushUnschedulablePodsLeftover; 1.36.3). */
static bool is_asked_for(const struct gang *gang, int64_t now_ns)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->asked_ns && now_ns - member_of(item)->asked_ns < ASKED_MAX_NS)
			return true;
	return false;
}

static bool may_try(const struct gang *gang, const struct ledger *ledger, int64_t now_ns)
{
	struct gang_count count = gang_count(gang);
	uint32_t min = gang_min(gang, NULL);

	return !gang->came_about && !gang->trying && min && count.waiting &&
	       count.placed + count.sent + count.waiting >= min && is_asked_for(gang, now_ns) &&
	       now_ns >= gang->not_before_ns &&
	       !(gang->looked_at && gang->looked_generation == ledger->generation &&
		       now_ns < gang->looked_until_ns);
}

/* A gang whose last plan was given up has perhaps met another such one, over something that the ledger does
 * not know: of those one tries at a time. */
bool gangs_keep_out(const struct gangs *gangs, const struct gang *gang)
{
	const struct gang *other;

	if (!gang->failures)
		return false;
	table_for_each (&gangs->by_key, cursor, other)
		if (other != gang && other->trying && other->failures)
			return true;
	return false;
}

void gangs_try_before(struct gangs *gangs, const struct gang *gang, struct ledger *ledger, int64_t now_ns)
{
	_cleanup_free_ struct gang **all = gangs_in_turn(gangs);
	size_t plans = 0;

	for (size_t i = 0; all && all[i] && all[i] != gang && plans < PLANS_PER_LOOK; i++) {
		if (!may_try(all[i], ledger, now_ns) || gangs_keep_out(gangs, all[i]))
			continue;
		plans++;
		gang_try(gangs, all[i], ledger, now_ns);
	}
}

static void look_at_gang(
	struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns, int64_t *again_ns)
{
	struct gang_count count;

	gang_refresh(gang, ledger);
	count = gang_count(gang);
	follow_coming_about(gang, &count, now_ns);
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
	return gang->waiting_ns && !gang->trying && is_asked_for(gang, now_ns) &&
	       now_ns - gang->waiting_ns >= gangs->rules.keep_after_ns;
}

/* For the first that has waited too long cards are kept, and for no other: two that share what becomes free
 * would both wait for ever. */
static void look_at_patience(
	struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns, int64_t *again_ns)
{
	struct gang *patient = NULL;

	for (size_t i = 0; all[i]; i++) {
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
	if (patient)
		soonest(again_ns, now_ns + NS_PER_S, now_ns);
}

int64_t gangs_look(struct gangs *gangs, struct ledger *ledger, int64_t now_ns, bool leads)
{
	_cleanup_free_ struct gang **all = NULL;
	int64_t again_ns = INT64_MAX;
	size_t plans = 0;

	if (!gangs->by_uid.count)
		return INT64_MAX;
	forget_unseen(gangs, now_ns);
	all = gangs_in_turn(gangs);
	if (!all)
		return NS_PER_S;
	gangs->leads = leads;
	for (size_t i = 0; all[i]; i++)
		look_at_gang(gangs, all[i], ledger, now_ns, &again_ns);
	for (size_t i = 0; all[i] && leads && plans < PLANS_PER_LOOK; i++) {
		if (!may_try(all[i], ledger, now_ns) || gangs_keep_out(gangs, all[i]))
			continue;
		plans++;
		gang_try(gangs, all[i], ledger, now_ns);
	}
	if (leads)
		look_at_patience(gangs, all, ledger, now_ns, &again_ns);
	if (plans == PLANS_PER_LOOK)
		soonest(&again_ns, now_ns + LOOK_AGAIN_NS, now_ns);
	return again_ns;
}
