/* Where kube-scheduler would let the members of gangs go, as it said when it asked. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/gang/gang-internal.h"
#include "core/gang/gang-plan.h"

/* Where kube-scheduler says the same again, something else keeps the pod from the other nodes: that is
 * believed twice as long. */
#define NODES_VALID_MAX_NS (320 * NS_PER_S)

static void set_free(struct gangs *gangs, struct gang_nodes *nodes)
{
	list_remove(&nodes->item);
	table_release(&nodes->names);
	free(nodes);
	gangs->n_node_sets--;
}

void gang_nodes_drop(struct gangs *gangs, struct gang_member *member)
{
	struct gang_nodes *nodes = member->nodes;

	member->nodes = NULL;
	if (nodes && --nodes->users == 0)
		set_free(gangs, nodes);
}

static void drop_oldest(struct gangs *gangs)
{
	struct gang_nodes *oldest = list_entry(gangs->node_sets.next, struct gang_nodes, item);
	struct gang_member *member;

	table_for_each (&gangs->by_uid, cursor, member)
		if (member->nodes == oldest)
			member->nodes = NULL;
	set_free(gangs, oldest);
}

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
	if (++gangs->n_node_sets > GANG_NODE_SETS_MAX)
		drop_oldest(gangs);
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

static void use(struct gangs *gangs, struct gang_nodes *nodes)
{
	list_remove(&nodes->item);
	list_append(&gangs->node_sets, &nodes->item);
}

void gang_nodes_remember(
	struct gangs *gangs, struct gang_member *asking, const char *const *names, size_t n, int64_t now_ns)
{
	bool is_old = now_ns - asking->asked_ns >= asking->nodes_valid_ns;
	struct gang_nodes *nodes;

	asking->asked_ns = now_ns;
	if (asking->nodes && same_names(asking->nodes, names, n)) {
		if (is_old && asking->nodes_valid_ns < NODES_VALID_MAX_NS)
			asking->nodes_valid_ns *= 2;
		use(gangs, asking->nodes);
		return;
	}
	asking->nodes_valid_ns = GANG_NODES_VALID_NS;
	gang_changed(asking->gang);
	nodes = set_find(gangs, names, n);
	if (!nodes)
		nodes = set_new(gangs, names, n);
	if (nodes) {
		nodes->users++;
		use(gangs, nodes);
	}
	gang_nodes_drop(gangs, asking);
	asking->nodes = nodes;
}

static bool is_alike(const struct gang_member *a, const struct gang_member *b)
{
	const struct request *x = &a->facts.request, *y = &b->facts.request;

	return strcmp(a->facts.owner, b->facts.owner) == 0 && x->whole == y->whole && x->units == y->units &&
	       x->core == y->core && request_gpus(x) == request_gpus(y) && x->unit_mib == y->unit_mib;
}

static bool is_valid(const struct gang_member *member, int64_t now_ns)
{
	return member->nodes && now_ns - member->asked_ns < member->nodes_valid_ns;
}

/* Of those that are made alike, who asked last. */
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

/* The pods of one controller are made alike, and stand side by side mostly. */
struct gang_slot *gang_slots_new(struct gang_member **members, size_t n, int64_t now_ns)
{
	struct gang_slot *slots = calloc(n + 1, sizeof(*slots));
	const struct gang_member *last = NULL;

	for (size_t i = 0; slots && i < n; i++) {
		const struct gang_member *from;

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
