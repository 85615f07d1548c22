/* Which gang is tried next. */
#include "core/gang/gang.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/gang/gang-internal.h"

/* How many nodes the plans of one evaluation go through: a few milliseconds (bench/gang.c). The next
 * evaluation continues. */
#define NODES_PER_LOOK 20000
#define PLANS_PER_LOOK 32
#define ASKED_MAX_NS (600 * NS_PER_S)

/* The turn of a gang: the priority of its most important member, and the age of its oldest one. */
struct turn {
	int32_t priority;
	int64_t created;
};

static struct turn turn_of(const struct gang *gang)
{
	struct turn turn = {INT32_MIN, INT64_MAX};

	list_for_each (item, &gang->members) {
		const struct pod_facts *facts = &member_of(item)->facts;

		turn.priority = facts->priority > turn.priority ? facts->priority : turn.priority;
		turn.created = facts->created < turn.created ? facts->created : turn.created;
	}
	return turn;
}

/* Priority, then age, then name: a total order. */
static int compare_turn(const void *pa, const void *pb)
{
	const struct gang *a = *(struct gang *const *)pa, *b = *(struct gang *const *)pb;
	struct turn x = turn_of(a), y = turn_of(b);

	if (x.priority != y.priority)
		return x.priority > y.priority ? -1 : 1;
	if (x.created != y.created)
		return x.created < y.created ? -1 : 1;
	return strcmp(a->key, b->key);
}

bool gang_is_before(const struct gang *gang, const struct gang *other)
{
	return gang != other && compare_turn(&gang, &other) < 0;
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

/* True if kube-scheduler asks this process for the gang's pods; other schedulers or replicas may have gangs
 * too. It asks for each waiting pod at least every 5 minutes (flushUnschedulablePodsLeftover; 1.36.3). */
bool gang_is_asked_for(const struct gang *gang, int64_t now_ns)
{
	list_for_each (item, &gang->members)
		if (member_of(item)->asked_ns && now_ns - member_of(item)->asked_ns < ASKED_MAX_NS)
			return true;
	return false;
}

/* Two gangs whose last plans were given up may have blocked each other over a resource that the ledger does
 * not know. So only one such gang is tried at a time. */
bool gangs_keep_out(const struct gangs *gangs, const struct gang *gang)
{
	const struct gang *other;

	if (!gang->backoff.failures)
		return false;
	table_for_each (&gangs->by_key, cursor, other)
		if (other != gang && gang_has_plan(other) && other->backoff.failures)
			return true;
	return false;
}

static bool may_try(
	const struct gangs *gangs, const struct gang *gang, const struct ledger *ledger, int64_t now_ns)
{
	struct gang_count count = gang_count(gang);
	size_t fixed = count.placed + count.sent;
	uint32_t min = gang_min(gangs, gang);

	return !gang->started && !gang_has_plan(gang) && count.waiting && fixed < min &&
	       fixed + count.waiting >= min && gang_is_asked_for(gang, now_ns) &&
	       now_ns >= gang->backoff.not_before_ns && !gang_found_no_room(gang, ledger, now_ns) &&
	       !gangs_keep_out(gangs, gang);
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
		if (!may_try(gangs, all[i], ledger, now_ns))
			continue;
		plans++;
		gang_try(gangs, all[i], ledger, now_ns, true);
	}
}

/* Without rounds, a ledger that changes all the time would have the first gangs planned anew in each
 * evaluation, and the last ones never. */
bool gangs_try_in_turn(struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns)
{
	size_t plans = 0, most = plans_per_look(ledger);
	bool left = false;

	for (size_t i = 0; all[i]; i++) {
		if (!may_try(gangs, all[i], ledger, now_ns))
			continue;
		if (all[i]->round == gangs->round) {
			left = true;
			continue;
		}
		if (plans == most)
			return true;
		plans++;
		all[i]->round = gangs->round;
		gang_try(gangs, all[i], ledger, now_ns, false);
	}
	gangs->round++;
	return left;
}
