#include "core/gang/gang.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/gang/gang-internal.h"
#include "core/gang/gang-plan.h"

/* If kube-scheduler offers the same nodes again, something else keeps the pod from the other nodes. Then the
 * offer is believed twice as long, up to this time. */
#define NODES_VALID_MAX_NS (320 * NS_PER_S)

void gangs_init(struct gangs *gangs, const struct gang_rules *rules, struct requeue_list *requeues)
{
	*gangs = (struct gangs){
		.rules = *rules, .requeues = requeues, .groups_known = true, .following = true, .round = 1};
	table_init(&gangs->by_key);
	table_init(&gangs->by_uid);
	list_init(&gangs->orders);
	list_init(&gangs->node_sets);
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

static void set_free(struct gangs *gangs, struct gang_nodes *nodes)
{
	list_remove(&nodes->item);
	table_release(&nodes->names);
	free(nodes);
	gangs->n_node_sets--;
}

static void nodes_drop(struct gangs *gangs, struct gang_member *member)
{
	struct gang_nodes *nodes = member->nodes;

	member->nodes = NULL;
	if (nodes && --nodes->users == 0)
		set_free(gangs, nodes);
}

static void member_free(struct gangs *gangs, struct gang_member *member)
{
	list_remove(&member->item);
	nodes_drop(gangs, member);
	pod_facts_release(&member->facts);
	free(member);
}

static void gang_free(struct gangs *gangs, struct gang *gang)
{
	list_for_each_safe (item, after, &gang->members)
		member_free(gangs, member_of(item));
	list_for_each_safe (item, after, &gang->past.done)
		member_free(gangs, member_of(item));
	table_release(&gang->past.owners);
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
		gang_free(gangs, gang);
	/* Node sets that were read from a state and that no member uses. */
	list_for_each_safe (item, after, &gangs->node_sets)
		set_free(gangs, list_entry(item, struct gang_nodes, item));
	table_release(&gangs->by_key);
	table_release(&gangs->by_uid);
}

void gang_tell(const struct gangs *gangs, const struct gang_event *event)
{
	if (gangs->listener)
		gangs->listener(gangs->listener_data, event);
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
	list_init(&gang->past.done);
	table_init(&gang->past.owners);
	gang->key = strdup(key);
	if (!gang->key || table_set(&gangs->by_key, key, gang) < 0) {
		gang_free(gangs, gang);
		return NULL;
	}
	return gang;
}

void gang_drop_if_unused(struct gangs *gangs, struct gang *gang)
{
	if (!list_empty(&gang->members) || gang->has_group || gang->past.owners.count ||
		!list_empty(&gang->past.done))
		return;
	table_remove(&gangs->by_key, gang->key);
	if (gangs->kept == gang)
		gangs->kept = NULL;
	gang_free(gangs, gang);
}

/* This happens at once, because kube-scheduler may ask for the gang's next pod before gangs_look() runs. */
static void end_if_nobody_is_left(struct gang *gang)
{
	/* gangs_look() evaluates no gang without members, whose plan would keep others out as long as its
	 * name is remembered. The next first member gets the full time for others to arrive. */
	if (list_empty(&gang->members))
		gang->plan_ns = gang->past.short_ns = 0;
	if (!gang->started)
		return;
	list_for_each (item, &gang->members)
		if (gang_member_is_shown(member_of(item)))
			return;
	gang->started = false;
}

/* The pod is no longer one of the pods that are placed together. */
static void member_end(struct gangs *gangs, struct gang_member *member)
{
	if (member->stage == GANG_AT_BIND)
		gangs_order(gangs, GANG_TURN_AWAY, member);
	requeue_list_stop(gangs->requeues, member->facts.uid, REQUEUE_GANG);
	list_remove(&member->item);
}

static void has_lost_a_member(struct gangs *gangs, struct gang *gang)
{
	end_if_nobody_is_left(gang);
	gang->started &= gangs->following; /* a LIST may show successors before it tells of all ends */
	gang_is_another(gang);
	gang_drop_if_unused(gangs, gang);
}

void gang_member_leave(struct gangs *gangs, struct gang_member *member)
{
	struct gang *gang = member->gang;

	member_end(gangs, member);
	table_remove(&gangs->by_uid, member->facts.uid);
	member_free(gangs, member);
	has_lost_a_member(gangs, gang);
}

/* The pod's controller had pods that were placed in this gang. */
bool gang_is_successor(const struct gang *gang, const struct pod_facts *facts)
{
	return facts->owner && *facts->owner && table_get(&gang->past.owners, facts->owner);
}

struct gang_member *gang_member_find(const struct gangs *gangs, const char *uid)
{
	struct gang_member *member = gangs->by_uid.count ? table_get(&gangs->by_uid, uid) : NULL;

	return member && member->stage != GANG_DONE ? member : NULL;
}

void gangs_forget_pod(struct gangs *gangs, const char *uid)
{
	struct gang_member *member = gang_member_find(gangs, uid);

	if (member)
		gang_member_leave(gangs, member);
}

void gangs_delete_pod(struct gangs *gangs, const char *uid)
{
	struct gang_member *member = table_get(&gangs->by_uid, uid);

	if (member)
		gang_member_leave(gangs, member);
}

void gang_forget_done(struct gangs *gangs, struct gang *gang)
{
	list_for_each_safe (item, after, &gang->past.done) {
		table_remove(&gangs->by_uid, member_of(item)->facts.uid);
		member_free(gangs, member_of(item));
	}
}

/* Returns NULL when out of memory. */
static struct gang_member *member_new(
	struct gangs *gangs, struct gang *gang, const struct pod_facts *facts, struct list *where)
{
	struct gang_member *member = calloc(1, sizeof(*member));

	if (!member)
		return NULL;
	list_init(&member->item);
	if (pod_facts_copy(facts, &member->facts) < 0 || table_set(&gangs->by_uid, facts->uid, member) < 0) {
		member_free(gangs, member);
		return NULL;
	}
	member->gang = gang;
	list_append(where, &member->item);
	gang_is_another(gang);
	return member;
}

/* The controller creates no pod in place of one that has succeeded, so members that wait for it would wait
 * forever. This happens if a Binding was thought lost, and the pod ran and ended before the other members
 * came. */
static bool counts_when_done(const struct gang *gang, const struct pod_facts *pod)
{
	return !gang->started && pod->succeeded && *pod->node && pod->owner && *pod->owner;
}

static void member_is_done(struct gangs *gangs, struct gang_member *member)
{
	struct gang *gang = member->gang;

	member_end(gangs, member);
	nodes_drop(gangs, member);
	member->stage = GANG_DONE;
	member->listed = true;
	list_append(&gang->past.done, &member->item);
	has_lost_a_member(gangs, gang);
}

static struct gang_member *member_add(
	struct gangs *gangs, const char *key, const struct pod_facts *facts, bool listed, int64_t now_ns)
{
	struct gang *gang = gang_get_or_add(gangs, key);
	bool is_first = gang && list_empty(&gang->members);
	struct gang_member *member = gang ? member_new(gangs, gang, facts, &gang->members) : NULL;

	if (!member) {
		if (gang)
			gang_drop_if_unused(gangs, gang);
		return NULL;
	}
	/* The new member may be in the place of one that has succeeded and is gone since. A LIST will tell.
	 */
	if (!list_empty(&gang->past.done)) {
		gang_forget_done(gangs, gang);
		gang->past.short_ns = gang->past.recall_ns = 0;
	}
	if (is_first)
		gang->past.short_ns = 0;
	end_if_nobody_is_left(gang);
	if (!listed)
		member->asked_ns = now_ns;
	return member;
}

/* Compares the facts that labels and stamps may change. */
static bool asks_for_the_same(const struct pod_facts *a, const struct pod_facts *b)
{
	return a->gang_min == b->gang_min && a->annotations_full == b->annotations_full &&
	       request_gpus(&a->request) == request_gpus(&b->request) &&
	       a->request.unit_mib == b->request.unit_mib;
}

/* kube-scheduler may ask about a pod as it was before the watch showed it bound. A bound pod never loses its
 * node, so facts without a node are older than those that have one, and are ignored. */
static int member_take(struct gang_member *member, const struct pod_facts *facts)
{
	_cleanup_pod_facts_ struct pod_facts copy = {0};
	bool placed = member->stage == GANG_PLACED;

	if (*member->facts.node && !*facts->node)
		return 0;
	if (pod_facts_copy(facts, &copy) < 0)
		return -ENOMEM;
	if (!asks_for_the_same(&copy, &member->facts))
		gang_is_another(member->gang);
	else if (copy.priority != member->facts.priority)
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

/* The pod's gang and min-available are those that it had when it was bound. A Binding that was sent has
 * recorded them; labels that are shown meanwhile count if it is refused. kube-scheduler binds pods without a
 * GPU, and older versions have bound others, without a record: what an open watch showed first counts. */
static void believe(const struct gangs *gangs, struct gang_member *member, struct pod_facts *facts)
{
	if (facts->gang_bound)
		return;
	if (member && member->stage >= GANG_SENT) {
		member->labels_if_refused = member->stage == GANG_SENT && !*facts->node;
		facts->gang = member->facts.gang;
		facts->gang_min = member->facts.gang_min;
	} else if (!member && *facts->node && gangs->following) {
		facts->gang = NULL;
	}
}

/* kube-scheduler may ask for a pod with its old label after the watch has shown the new one, and then with
 * the new one. The pod changes its gang each time, and no event of the watch follows. */
static bool was_listed(const struct ledger *ledger, const char *uid)
{
	const struct ledger_pod *known = ledger_pod(ledger, uid);

	return known && known->listed;
}

static bool has_been_bound(const struct ledger *ledger, const char *uid)
{
	const struct ledger_pod *known = ledger_pod(ledger, uid);

	return known && known->occupancy >= OCCUPANCY_BOUND;
}

int gangs_see_pod(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *shown, bool listed,
	int64_t now_ns)
{
	struct pod_facts as_it_counts = *shown, *facts = &as_it_counts;
	struct gang_member *member;
	char key[520];

	if (!facts->gang && !gangs->by_uid.count)
		return 0;
	member = table_get(&gangs->by_uid, facts->uid);
	if (member && member->stage == GANG_DONE)
		return 0;
	/* kube-scheduler may ask about a bound pod as it was before: it may have left this gang since. */
	if (!member && !*facts->node && has_been_bound(ledger, facts->uid))
		return 0;
	believe(gangs, member, facts);
	if (belongs_to(facts))
		snprintf(key, sizeof(key), "%s/%s", facts->namespace_, facts->gang);
	if (member && (!belongs_to(facts) || strcmp(member->gang->key, key) != 0)) {
		/* If nothing is planned for the pod, what it holds does not belong to its gang. */
		if (member->stage > GANG_WAITING && member->stage < GANG_SENT)
			ledger_drop_hold(ledger, facts->uid);
		if (facts->finished && counts_when_done(member->gang, facts))
			member_is_done(gangs, member);
		else
			gang_member_leave(gangs, member);
		member = NULL;
	}
	if (!belongs_to(facts))
		return 0;
	if (!member)
		member = member_add(gangs, key, facts, listed, now_ns);
	if (!member)
		return -ENOMEM;
	member->listed |= listed || was_listed(ledger, facts->uid);
	return member_take(member, facts);
}

int gangs_has_run(struct gangs *gangs, const struct pod_facts *finished)
{
	struct gang_member *done;
	struct gang *gang;
	char key[520];

	if (!finished->gang || !finished->finished || !*finished->node || !finished->has_placement ||
		!finished->owner || !*finished->owner)
		return 0;
	snprintf(key, sizeof(key), "%s/%s", finished->namespace_, finished->gang);
	gang = table_get(&gangs->by_key, key);
	if (!gang || gang_is_successor(gang, finished))
		return 0;
	if (!finished->gang_forming)
		return table_set(&gang->past.owners, finished->owner, gang);
	if (!counts_when_done(gang, finished) || table_get(&gangs->by_uid, finished->uid))
		return 0;
	done = member_new(gangs, gang, finished, &gang->past.done);
	if (!done)
		return -ENOMEM;
	done->stage = GANG_DONE;
	done->listed = done->recalled = true;
	return 0;
}

void gangs_recalled(struct gangs *gangs, const char *uid)
{
	struct gang_member *member = gang_member_find(gangs, uid);

	if (member)
		member->gang->past.recall_ns = INT64_MAX;
}

int gangs_set_group(struct gangs *gangs, const char *key, const struct gang_group *group)
{
	struct gang *gang = gang_get_or_add(gangs, key);

	if (!gang)
		return -ENOMEM;
	if (!gang->has_group || gang->group.min != group->min)
		gang_is_another(gang);
	gang->has_group = true;
	gang->group = *group;
	return 0;
}

void gangs_set_groups_known(struct gangs *gangs, bool known)
{
	struct gang *gang;

	gangs->groups_known = known;
	table_for_each (&gangs->by_key, cursor, gang)
		gang_changed(gang);
}

void gangs_set_following(struct gangs *gangs, bool following)
{
	struct gang *gang;

	/* Pods that have succeeded may be gone since; the finished pods are asked for again. */
	if (following && !gangs->following)
		table_for_each (&gangs->by_key, cursor, gang) {
			gang_forget_done(gangs, gang);
			gang->past.recall_ns = 0;
		}
	gangs->following = following;
}

void gangs_remove_group(struct gangs *gangs, const char *key)
{
	struct gang *gang = table_get(&gangs->by_key, key);

	if (!gang)
		return;
	gang->has_group = false;
	gang_is_another(gang);
	gang_drop_if_unused(gangs, gang);
}

/* ---- where kube-scheduler would let members go ---- */

static bool same_names(const struct gang_nodes *nodes, const char *const *names, size_t n)
{
	if (nodes->names.count != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!table_get(&nodes->names, names[i]))
			return false;
	return true;
}

static struct gang_nodes *set_new(struct gangs *gangs, const char *const *names, size_t n)
{
	struct gang_nodes *nodes = calloc(1, sizeof(*nodes));

	if (!nodes)
		return NULL;
	table_init(&nodes->names);
	for (size_t i = 0; i < n; i++)
		if (table_set(&nodes->names, names[i], nodes) < 0) {
			table_release(&nodes->names);
			free(nodes);
			return NULL;
		}
	list_append(&gangs->node_sets, &nodes->item);
	if (++gangs->n_node_sets > GANG_NODE_SETS_MAX) {
		struct gang_nodes *oldest = list_entry(gangs->node_sets.next, struct gang_nodes, item);
		struct gang_member *member;

		table_for_each (&gangs->by_uid, cursor, member)
			if (member->nodes == oldest)
				member->nodes = NULL;
		set_free(gangs, oldest);
	}
	return nodes;
}

static struct gang_nodes *set_find(const struct gangs *gangs, const char *const *names, size_t n)
{
	list_for_each (item, &gangs->node_sets) {
		struct gang_nodes *nodes = list_entry(item, struct gang_nodes, item);

		if (same_names(nodes, names, n))
			return nodes;
	}
	return NULL;
}

void gang_nodes_remember(
	struct gangs *gangs, struct gang_member *asking, const char *const *names, size_t n, int64_t now_ns)
{
	bool is_old = now_ns - asking->asked_ns >= asking->nodes_valid_ns;
	bool is_same = asking->nodes && same_names(asking->nodes, names, n);
	struct gang_nodes *nodes = is_same ? asking->nodes : set_find(gangs, names, n);

	asking->asked_ns = now_ns;
	if (!is_same) {
		asking->nodes_valid_ns = GANG_NODES_VALID_NS;
		gang_changed(asking->gang);
	} else if (is_old && asking->nodes_valid_ns < NODES_VALID_MAX_NS) {
		asking->nodes_valid_ns *= 2;
	}
	if (!nodes)
		nodes = set_new(gangs, names, n);
	if (nodes) {
		nodes->users++;
		list_remove(&nodes->item);
		list_append(&gangs->node_sets, &nodes->item);
	}
	nodes_drop(gangs, asking);
	asking->nodes = nodes;
}

/* True if both were made from the same template. */
static bool is_alike(const struct gang_member *a, const struct gang_member *b)
{
	return strcmp(a->facts.owner, b->facts.owner) == 0 &&
	       gang_same_request(&a->facts.request, &b->facts.request);
}

static bool is_valid(const struct gang_member *member, int64_t now_ns)
{
	return member->nodes && now_ns - member->asked_ns < member->nodes_valid_ns;
}

/* The member that was asked for last, of those that are made alike. */
static const struct gang_member *last_alike(const struct gang_member *member, int64_t now_ns)
{
	const struct gang_member *last = NULL;

	list_for_each (item, &member->gang->members) {
		const struct gang_member *other = member_of(item);

		if (is_valid(other, now_ns) && (!last || other->asked_ns > last->asked_ns) &&
			is_alike(member, other))
			last = other;
	}
	return last;
}

/* The pods of one controller are made alike, and are usually adjacent. */
struct gang_slot *gang_slots_new(struct gang_member **members, size_t n, int64_t now_ns)
{
	struct gang_slot *slots = calloc(n + 1, sizeof(*slots));
	const struct gang_member *last = NULL, *from;

	for (size_t i = 0; slots && i < n; i++) {
		if (!i || !is_alike(members[i], members[i - 1]))
			last = last_alike(members[i], now_ns);
		from = last && is_valid(members[i], now_ns) && members[i]->asked_ns == last->asked_ns
			       ? members[i]
			       : last;
		slots[i] = (struct gang_slot){
			.pod = &members[i]->facts, .nodes = from ? &from->nodes->names : NULL};
	}
	return slots;
}
