/* Which gang comes first, and whether it is to be tried now. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/gang/gang.h"
#include "core/gang/gang-internal.h"

/* Nodes that the plans of one look go through: a few milliseconds (bench/gang.c). The next look goes on. */
#define NODES_PER_LOOK 20000
#define PLANS_PER_LOOK 32
#define ASKED_MAX_NS (600 * NS_PER_S)

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

	return !gang->started && !gang->trying && count.waiting && count.placed + count.sent < min &&
	       count.placed + count.sent + count.waiting >= min && gang_is_asked_for(gang, now_ns) &&
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

/* Each gang once a round: while the ledger changes all the time, what the first ones were told does not hold
 * until the next look, and the last ones would never be tried. */
bool gangs_try_in_turn(struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns)
{
	size_t plans = 0, most = plans_per_look(ledger);
	bool left = false;

	for (size_t i = 0; all[i]; i++) {
		if (!gang_may_try(all[i], ledger, now_ns) || gangs_keep_out(gangs, all[i]))
			continue;
		if (all[i]->round == gangs->round) {
			left = true;
			continue;
		}
		if (plans == most)
			return true;
		plans++;
		all[i]->round = gangs->round;
		gang_try(gangs, all[i], ledger, now_ns);
	}
	gangs->round++;
	return left;
}
