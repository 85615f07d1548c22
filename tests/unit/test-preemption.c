/* Who must go. The random nodes are compared with all subsets of their pods.
 *
 * RATION_SEED (default 1) and RATION_HISTORIES (default 3000): node i uses the seed RATION_SEED + i. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/preemption/budget.h"
#include "core/preemption/preemption.h"
#include "core/registry/nomination.h"
#include "model-fixture.h"

struct world {
	struct ledger ledger;
	struct budgets budgets;
	struct table given;
	struct preemption_plan plan;
};

static int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	ledger_init(&w->ledger);
	budgets_init(&w->budgets);
	table_init(&w->given);
	*state = w;
	return 0;
}

static int world_teardown(void **state)
{
	struct world *w = *state;
	size_t wrong = ledger_check(&w->ledger, NULL);

	preemption_plan_release(&w->plan);
	ledger_release(&w->ledger);
	budgets_release(&w->budgets);
	table_release(&w->given);
	free(w);
	return wrong ? -1 : 0;
}

static void node(struct world *w, const char *name, size_t n, const uint32_t *units)
{
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, n, units);
	assert_int_equal(ledger_set_node(&w->ledger, &facts), 0);
}

/* The same, isolated: at most so many containers on a GPU; 0: any number. */
static void isolated_node(
	struct world *w, const char *name, size_t n, const uint32_t *units, uint32_t instances_max)
{
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, n, units);
	facts.mode = GPU_MODE_CGPU;
	facts.instances_max = instances_max;
	assert_int_equal(ledger_set_node(&w->ledger, &facts), 0);
}

/* GPU NULL: unplaced. flags: d deleting, m mirror, l labelled app=x */
static void core_pod_on(struct world *w, const char *node_name, const char *uid, uint32_t units,
	uint32_t core, int32_t priority, int64_t started, const char *gpu, const char *flags)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	fixture_pod(&pod, uid, units, "");
	pod.request.core = pod.request.containers[0].core = core;
	fixture_bind(&pod, node_name, gpu);
	pod.priority = priority;
	pod.started = started;
	pod.deleting = strchr(flags, 'd');
	pod.mirror = strchr(flags, 'm');
	pod.labels = strchr(flags, 'l') ? strdup("app=x\n") : NULL;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

static void pod_on(struct world *w, const char *node_name, const char *uid, uint32_t units, int32_t priority,
	int64_t started, const char *gpu, const char *flags)
{
	core_pod_on(w, node_name, uid, units, 0, priority, started, gpu, flags);
}

static void pod(struct world *w, const char *uid, uint32_t units, int32_t priority, const char *gpu)
{
	pod_on(w, "n", uid, units, priority, 1000, gpu, "");
}

static void budget(struct world *w, int64_t allowed)
{
	struct budget *b = calloc(1, sizeof(*b));

	b->uid = strdup("budget");
	b->namespace_ = strdup("default");
	b->name = strdup("budget");
	b->allowed = allowed;
	assert_int_equal(
		selector_require(&b->selector, "app", SELECTOR_IN, (const char *const[]){"x"}, 1), 0);
	assert_int_equal(budgets_set(&w->budgets, b), 0);
}

static int core_plan_with(struct world *w, uint32_t units, uint32_t core, int32_t priority,
	const char *node_name, struct preemption_question question)
{
	_cleanup_pod_facts_ struct pod_facts asker;
	int r;

	fixture_pod(&asker, "asker", units, "");
	asker.request.core = asker.request.containers[0].core = core;
	asker.priority = priority;
	question.pod = &asker;
	question.budgets = &w->budgets;
	question.given = &w->given;
	preemption_plan_release(&w->plan);
	r = preemption_plan_node(&w->ledger, node_name, &question, &w->plan);
	assert_int_equal(ledger_check(&w->ledger, NULL), 0);
	return r;
}

static int plan_with(struct world *w, uint32_t units, int32_t priority, const char *node_name,
	struct preemption_question question)
{
	return core_plan_with(w, units, 0, priority, node_name, question);
}

static int plan(struct world *w, uint32_t units, int32_t priority)
{
	return plan_with(w, units, priority, "n", (struct preemption_question){0});
}

/* The victims' uids in the plan's order, each with a blank after it. */
static const char *victims(struct world *w)
{
	static char text[256];

	text[0] = '\0';
	for (size_t i = 0; i < w->plan.n_victims; i++) {
		strcat(text, w->plan.victims[i]->facts.uid);
		strcat(text, " ");
	}
	return text;
}

static const char *gpu(struct world *w)
{
	return w->plan.placement.containers[0].gpus[0].uuid;
}

static void four_gpus_of_fifteen_with_eight_used_each_lose_one_gpus_pod(void **state)
{
	struct world *w = *state;

	node(w, "n", 4, (const uint32_t[]){15, 15, 15, 15});
	pod_on(w, "n", "a", 8, 0, 100, "GPU-n-0", "");
	pod_on(w, "n", "b", 8, 0, 300, "GPU-n-1", "");
	pod_on(w, "n", "c", 8, 0, 200, "GPU-n-2", "");
	pod_on(w, "n", "d", 8, 5, 400, "GPU-n-3", "");
	assert_int_equal(plan(w, 10, 1000), FITS);
	assert_string_equal(victims(w), "b "); /* of the least important ones the last started */
	assert_string_equal(gpu(w), "GPU-n-1");
	assert_int_equal(w->plan.n_violations, 0);
	assert_false(w->plan.waits);
}

static void equal_and_higher_priorities_and_static_pods_stay(void **state)
{
	struct world *w = *state;

	node(w, "n", 3, (const uint32_t[]){15, 15, 15});
	pod(w, "equal", 8, 1000, "GPU-n-0");
	pod(w, "above", 8, 1001, "GPU-n-1");
	pod_on(w, "n", "static", 8, 0, 100, "GPU-n-2", "m");
	assert_int_equal(plan(w, 10, 1000), REJECT_FULL);
	assert_int_equal(w->plan.n_victims, 0);
	assert_int_equal(plan(w, 16, 1000), REJECT_TOO_LARGE);
}

static void the_highest_priority_among_the_victims_counts_before_their_number(void **state)
{
	struct world *w = *state;

	node(w, "n", 2, (const uint32_t[]){15, 15});
	pod(w, "one", 8, 10, "GPU-n-0");
	pod(w, "small1", 4, 1, "GPU-n-1");
	pod(w, "small2", 4, 2, "GPU-n-1");
	assert_int_equal(plan(w, 15, 1000), FITS);
	assert_string_equal(victims(w), "small2 small1 ");
}

static void the_fewest_go_when_priorities_are_equal(void **state)
{
	struct world *w = *state;

	node(w, "n", 1, (const uint32_t[]){15});
	for (int i = 0; i < 5; i++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "s%d", i);
		pod(w, uid, 1, 0, "GPU-n-0");
	}
	pod(w, "large", 10, 0, "GPU-n-0");
	assert_int_equal(plan(w, 5, 1000), FITS);
	assert_string_equal(victims(w), "large ");
}

static void a_gpu_with_its_maximum_of_containers_loses_its_least_important_one(void **state)
{
	struct world *w = *state;

	isolated_node(w, "n", 2, (const uint32_t[]){15, 15}, 3);
	pod(w, "a", 1, 7, "GPU-n-0");
	pod(w, "b", 1, 5, "GPU-n-0");
	pod(w, "c", 4, 6, "GPU-n-0");
	for (int i = 0; i < 3; i++)
		pod(w, (char[]){'d' + i, '\0'}, 1, 9, "GPU-n-1");
	assert_int_equal(plan(w, 5, 1000), FITS);
	assert_string_equal(victims(w), "b ");
	assert_string_equal(gpu(w), "GPU-n-0");
	/* Units are short too: who has most of them, and with him room for a container. */
	assert_int_equal(plan(w, 12, 1000), FITS);
	assert_string_equal(victims(w), "c ");
}

static void a_pod_with_more_containers_than_a_gpu_may_have_evicts_nobody(void **state)
{
	_cleanup_pod_facts_ struct pod_facts asker;
	struct preemption_question question = {.pod = &asker};
	struct world *w = *state;

	isolated_node(w, "n", 1, (const uint32_t[]){15}, 1);
	pod(w, "a", 1, 0, "GPU-n-0");
	fixture_pod(&asker, "asker", 1, "");
	assert_int_equal(request_add(&asker.request, "second", CONTAINER_MAIN, 1, "1", NULL, NULL), 0);
	asker.priority = 1000;
	question.budgets = &w->budgets;
	assert_int_equal(preemption_plan_node(&w->ledger, "n", &question, &w->plan), REJECT_INSTANCES);
}

static void nobody_goes_from_where_the_pod_fits(void **state)
{
	struct world *w = *state;

	node(w, "n", 2, (const uint32_t[]){15, 15});
	pod(w, "a", 8, 0, "GPU-n-0");
	assert_int_equal(plan(w, 15, 1000), FITS);
	assert_string_equal(victims(w), "");
	assert_string_equal(gpu(w), "GPU-n-1");
}

static void pods_that_are_going_anyway_are_waited_for(void **state)
{
	struct world *w = *state;

	node(w, "n", 2, (const uint32_t[]){15, 15});
	pod(w, "a", 8, 0, "GPU-n-0");
	pod_on(w, "n", "going", 8, 2000, 0, "GPU-n-1", "d");
	assert_int_equal(plan(w, 10, 1000), FITS);
	assert_string_equal(victims(w), "");
	assert_true(w->plan.waits);
	assert_string_equal(gpu(w), "GPU-n-1");
	assert_int_equal(
		plan_with(w, 10, 1000, "n", (struct preemption_question){.ignore_deleting = true}), FITS);
	assert_string_equal(victims(w), "a ");
	assert_false(w->plan.waits);
}

static void a_pod_on_two_gpus_needs_room_on_both(void **state)
{
	_cleanup_pod_facts_ struct pod_facts asker;
	struct preemption_question question = {.pod = &asker};
	struct world *w = *state;

	node(w, "n", 3, (const uint32_t[]){15, 15, 15});
	pod(w, "a", 8, 30, "GPU-n-0");
	pod(w, "b", 8, 20, "GPU-n-1");
	pod(w, "c", 8, 10, "GPU-n-2");
	fixture_pod(&asker, "asker", 20, "");
	assert_int_equal(request_set_gpus(&asker.request, 2, NULL), 0);
	asker.priority = 1000;
	question.budgets = &w->budgets;
	assert_int_equal(preemption_plan_node(&w->ledger, "n", &question, &w->plan), FITS);
	assert_string_equal(victims(w), "b c ");
	assert_int_equal(w->plan.placement.containers[0].n_gpus, 2);
	assert_int_equal(w->plan.placement.containers[0].gpus[0].units, 10);
}

static void spared_pods_stay(void **state)
{
	struct world *w = *state;
	struct table spared;

	node(w, "n", 2, (const uint32_t[]){15, 15});
	pod(w, "a", 8, 0, "GPU-n-0");
	pod(w, "b", 8, 500, "GPU-n-1");
	table_init(&spared);
	assert_int_equal(table_set(&spared, "a", w), 0);
	assert_int_equal(plan_with(w, 10, 1000, "n", (struct preemption_question){.spared = &spared}), FITS);
	assert_string_equal(victims(w), "b ");
	table_release(&spared);
}

static void pods_that_go_in_any_case_are_used_first(void **state)
{
	struct world *w = *state;

	node(w, "n", 2, (const uint32_t[]){15, 15});
	pod(w, "a", 8, 0, "GPU-n-0");
	pod(w, "b", 8, 0, "GPU-n-1");
	pod(w, "b2", 7, 0, "GPU-n-1");
	assert_int_equal(table_set(&w->given, "b", w), 0);
	assert_int_equal(table_set(&w->given, "unknown", w), 0);
	assert_int_equal(plan(w, 8, 1000), FITS);
	assert_string_equal(victims(w), "b ");
	assert_string_equal(gpu(w), "GPU-n-1");
	/* One more must go, from either GPU: with equal priorities and one victim each the lowest index
	 * wins. */
	assert_int_equal(plan(w, 15, 1000), FITS);
	assert_int_equal(w->plan.n_victims, 2);
	assert_string_equal(gpu(w), "GPU-n-0");
}

static void budgets_are_respected_and_violated_only_where_allowed(void **state)
{
	struct world *w = *state;

	node(w, "n", 2, (const uint32_t[]){15, 15});
	pod_on(w, "n", "safe", 8, 0, 100, "GPU-n-0", "l");
	pod(w, "important", 8, 900, "GPU-n-1");
	budget(w, 0);
	assert_int_equal(plan(w, 10, 1000), FITS);
	assert_string_equal(victims(w), "important ");
	ledger_remove_pod(&w->ledger, "important");
	pod(w, "important", 8, 2000, "GPU-n-1");
	assert_int_equal(plan(w, 10, 1000), REJECT_FULL);
	assert_int_equal(
		plan_with(w, 10, 1000, "n", (struct preemption_question){.may_violate = true}), FITS);
	assert_string_equal(victims(w), "safe ");
	assert_int_equal(w->plan.n_violations, 1);
}

static void a_budget_counts_all_victims_together(void **state)
{
	struct world *w = *state;

	node(w, "n", 1, (const uint32_t[]){15});
	pod_on(w, "n", "a", 5, 0, 100, "GPU-n-0", "l");
	pod_on(w, "n", "b", 5, 0, 100, "GPU-n-0", "l");
	pod_on(w, "n", "c", 5, 0, 100, "GPU-n-0", "l");
	budget(w, 1);
	assert_int_equal(plan(w, 5, 1000), FITS);
	assert_int_equal(w->plan.n_victims, 1);
	assert_int_equal(plan(w, 10, 1000), REJECT_FULL);
	assert_int_equal(
		plan_with(w, 15, 1000, "n", (struct preemption_question){.may_violate = true}), FITS);
	assert_int_equal(w->plan.n_violations, 2);
}

/* 5 units and 15 percent are free; 12 units and 35 percent are missing. The largest two, of both sums
 * together, are a and c, and have 10 units. */
static void a_budgets_two_places_go_to_the_two_that_suffice_together(void **state)
{
	struct world *w = *state;
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){20});
	facts.mode = GPU_MODE_CORE_MEM;
	assert_int_equal(ledger_set_node(&w->ledger, &facts), 0);
	budget(w, 2);
	core_pod_on(w, "n", "a", 9, 10, 0, 1000, "GPU-n-0", "l");
	core_pod_on(w, "n", "b", 5, 25, 0, 1000, "GPU-n-0", "l");
	core_pod_on(w, "n", "c", 1, 50, 0, 1000, "GPU-n-0", "l");
	assert_int_equal(core_plan_with(w, 17, 50, 1, "n", (struct preemption_question){0}), FITS);
	assert_int_equal(w->plan.n_victims, 2);
	assert_int_equal(w->plan.n_violations, 0);
	assert_string_not_equal(w->plan.victims[0]->facts.uid, "c");
	assert_string_not_equal(w->plan.victims[1]->facts.uid, "c");
}

static void pods_without_a_gpu_go_when_the_node_as_a_whole_is_short(void **state)
{
	struct world *w = *state;

	node(w, "n", 1, (const uint32_t[]){15});
	pod(w, "stray", 8, 0, NULL);
	pod(w, "stray2", 2, -5, NULL);
	assert_int_equal(plan(w, 10, 1000), FITS);
	assert_string_equal(victims(w), "stray ");
	assert_int_equal(plan(w, 15, 1000), FITS);
	assert_string_equal(victims(w), "stray stray2 ");
}

static void a_pod_on_a_gpu_goes_when_only_the_node_as_a_whole_is_short(void **state)
{
	struct world *w = *state;

	node(w, "n", 1, (const uint32_t[]){15});
	pod(w, "stray", 8, 2000, NULL);
	pod(w, "placed", 4, 0, "GPU-n-0");
	assert_int_equal(plan(w, 7, 1000), FITS);
	assert_string_equal(victims(w), "placed ");
	assert_int_equal(plan(w, 8, 1000), REJECT_FULL);
}

static void bindings_on_their_way_are_stopped_only_where_allowed(void **state)
{
	_cleanup_placement_ struct placement placement;
	_cleanup_pod_facts_ struct pod_facts reserved;
	struct world *w = *state;

	node(w, "n", 1, (const uint32_t[]){15});
	fixture_pod(&reserved, "r", 8, "");
	fixture_place(&placement, &reserved.request, "GPU-n-0");
	assert_int_equal(ledger_reserve(&w->ledger, &reserved, "n", &placement), 0);
	assert_int_equal(plan(w, 10, 1000), REJECT_FULL);
	assert_int_equal(
		plan_with(w, 10, 1000, "n", (struct preemption_question){.may_stop_bindings = true}), FITS);
	assert_string_equal(victims(w), "r ");
}

static void gpus_kept_for_equals_are_not_planned_with_twice(void **state)
{
	_cleanup_placement_ struct placement placement;
	_cleanup_pod_facts_ struct pod_facts other;
	struct world *w = *state;

	node(w, "n", 2, (const uint32_t[]){15, 15});
	pod_on(w, "n", "a", 8, 0, 200, "GPU-n-0", "");
	pod_on(w, "n", "b", 8, 0, 100, "GPU-n-1", "");
	fixture_pod(&other, "other", 10, "");
	other.priority = 1000;
	fixture_place(&placement, &other.request, "GPU-n-0");
	assert_int_equal(ledger_nominate(&w->ledger, &other, "n", &placement, NOMINATION_LASTS), 0);
	assert_int_equal(plan(w, 10, 1000), FITS);
	assert_string_equal(victims(w), "b ");
	assert_int_equal(plan(w, 10, 1001), FITS);
	assert_string_equal(victims(w), "a ");
}

static void plans_of_two_nodes_are_ordered_as_kube_scheduler_orders_them(void **state)
{
	struct world *w = *state;
	struct preemption_plan first;

	node(w, "n", 1, (const uint32_t[]){15});
	node(w, "m", 1, (const uint32_t[]){15});
	pod_on(w, "n", "a", 8, 0, 100, "GPU-n-0", "");
	pod_on(w, "m", "b", 8, 0, 200, "GPU-m-0", "");
	assert_int_equal(plan_with(w, 10, 9, "m", (struct preemption_question){0}), FITS);
	first = w->plan;
	w->plan = (struct preemption_plan){0};
	assert_int_equal(plan_with(w, 10, 9, "n", (struct preemption_question){0}), FITS);
	assert_true(preemption_plan_compare(&first, &w->plan) < 0); /* started later */
	assert_true(preemption_plan_compare(&w->plan, &first) > 0);
	first.n_violations = 1;
	assert_true(preemption_plan_compare(&first, &w->plan) > 0);
	preemption_plan_release(&first);
}

static void it_is_pointless_below_everybody(void **state)
{
	_cleanup_pod_facts_ struct pod_facts asker;
	struct world *w = *state;

	node(w, "n", 1, (const uint32_t[]){15});
	fixture_pod(&asker, "asker", 3, "");
	assert_true(preemption_is_pointless(&w->ledger, &asker));
	pod(w, "a", 8, 5, "GPU-n-0");
	asker.priority = 5;
	assert_true(preemption_is_pointless(&w->ledger, &asker));
	asker.priority = 6;
	assert_false(preemption_is_pointless(&w->ledger, &asker));
}

/* Random nodes against all subsets. */

#define R_GPUS 3
#define R_PODS 9

struct r_pod {
	uint32_t units, core;
	int gpu; /* R_GPUS: unplaced */
	int32_t priority;
	bool labelled;
};

static uint64_t draw(uint64_t *random, uint64_t below)
{
	uint64_t z = *random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % below;
}

struct r_node {
	int instances_max;
	bool mixing;
};

/* Who asks: units of one GPU, and a percentage of it. */
struct r_need {
	uint32_t units, core;
};

static bool subset_fits(
	const struct r_pod *pods, unsigned gone, struct r_need need, const struct r_node *node)
{
	int there[R_GPUS + 1] = {0};
	int64_t left[R_GPUS + 1] = {10, 10, 10, 0}, sum = 0;
	int64_t power[R_GPUS + 1] = {100, 100, 100, 0}, power_sum = 0;
	bool gpu_free = false;

	for (int i = 0; i < R_PODS; i++) {
		if (gone & 1U << i)
			continue;
		if (!node->mixing && (pods[i].core > 0) != (need.core > 0))
			return false;
		left[pods[i].gpu] -= pods[i].units;
		power[pods[i].gpu] -= pods[i].core;
		there[pods[i].gpu]++;
	}
	for (int i = 0; i < R_GPUS; i++) {
		gpu_free |= left[i] >= need.units && (!need.core || power[i] >= need.core) &&
			    (!node->instances_max || there[i] < node->instances_max);
		sum += left[i] > 0 ? left[i] : 0;
		power_sum += power[i] > 0 ? power[i] : 0;
	}
	return gpu_free && sum + left[R_GPUS] >= need.units &&
	       (!need.core || power_sum + power[R_GPUS] >= need.core);
}

struct r_best {
	bool found;
	int32_t highest;
	int count;
};

/* The least highest priority, and with it the fewest, of all that go over no budget. */
static struct r_best brute_force(const struct r_pod *pods, struct r_need need, int32_t priority, int allowed,
	const struct r_node *node)
{
	struct r_best best = {0};

	for (unsigned gone = 0; gone < 1U << R_PODS; gone++) {
		int32_t highest = INT32_MIN;
		int count = 0, labelled = 0;
		bool legal = true;

		for (int i = 0; i < R_PODS; i++) {
			if (!(gone & 1U << i))
				continue;
			legal &= pods[i].priority < priority;
			labelled += pods[i].labelled;
			count++;
			highest = pods[i].priority > highest ? pods[i].priority : highest;
		}
		if (!legal || (allowed >= 0 && labelled > allowed) || !subset_fits(pods, gone, need, node))
			continue;
		if (!best.found || highest < best.highest || (highest == best.highest && count < best.count))
			best = (struct r_best){true, highest, count};
	}
	return best;
}

static unsigned plan_as_set(const struct preemption_plan *p)
{
	unsigned gone = 0;

	for (size_t i = 0; i < p->n_victims; i++)
		gone |= 1U << atoi(p->victims[i]->facts.uid);
	return gone;
}

static void core_mem_node(struct world *w, const struct r_node *node)
{
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, "n", GPU_POLICY_BINPACK, R_GPUS, (const uint32_t[]){10, 10, 10});
	facts.mode = GPU_MODE_CORE_MEM;
	facts.mixing = node->mixing;
	facts.instances_max = (uint32_t)node->instances_max;
	assert_int_equal(ledger_set_node(&w->ledger, &facts), 0);
}

static void check_random_node(uint64_t seed)
{
	struct r_pod pods[R_PODS];
	struct world *w;
	uint64_t random = seed;
	struct r_need need = {.units = (uint32_t)draw(&random, 10) + 1};
	int32_t priority = (int32_t)draw(&random, 5);
	bool unplaced = draw(&random, 4) == 0;
	int allowed = (int)draw(&random, 4) - 1; /* -1: no budget */
	struct r_node node = {.instances_max = draw(&random, 2) ? 1 + (int)draw(&random, 4) : 0};
	bool with_core = draw(&random, 2);
	struct preemption_question question = {0};
	struct r_best best;
	unsigned gone;
	int r;

	assert_int_equal(world_setup((void **)&w), 0);
	node.mixing = !with_core || draw(&random, 3);
	need.core = with_core && draw(&random, 4) ? 5 + 5 * (uint32_t)draw(&random, 20) : 0;
	core_mem_node(w, &node);
	if (allowed >= 0)
		budget(w, allowed);
	for (int i = 0; i < R_PODS; i++) {
		char uid[8], uuid[16];

		pods[i] = (struct r_pod){.units = (uint32_t)draw(&random, 6) + 1,
			.core = with_core && draw(&random, 4) ? 5 + 5 * (uint32_t)draw(&random, 10) : 0,
			.gpu = (int)draw(&random, unplaced ? R_GPUS + 1 : R_GPUS),
			.priority = (int32_t)draw(&random, 4),
			.labelled = draw(&random, 2)};
		snprintf(uid, sizeof(uid), "%d", i);
		snprintf(uuid, sizeof(uuid), "GPU-n-%d", pods[i].gpu);
		core_pod_on(w, "n", uid, pods[i].units, pods[i].core, pods[i].priority,
			(int64_t)draw(&random, 5), pods[i].gpu < R_GPUS ? uuid : NULL,
			pods[i].labelled ? "l" : "");
	}
	best = brute_force(pods, need, priority, allowed, &node);
	r = core_plan_with(w, need.units, need.core, priority, "n", question);
	gone = plan_as_set(&w->plan);
	if (r == FITS) {
		assert_true(best.found);
		assert_true(subset_fits(pods, gone, need, &node));
		assert_int_equal(w->plan.n_violations, 0);
		for (int i = 0; i < R_PODS; i++) {
			if (!(gone & 1U << i))
				continue;
			assert_true(pods[i].priority < priority);
			assert_false(subset_fits(pods, gone & ~(1U << i), need, &node));
		}
	}
	/* With pods that have no GPU the choice is good, not the best: they are the last to be thought of.
	 * And where memory and computing power are short at once, the fewest are not always found. */
	if (!unplaced) {
		assert_int_equal(r == FITS, best.found);
		if (!need.core)
			assert_int_equal(w->plan.n_victims, best.found ? best.count : 0);
		if (best.count)
			assert_int_equal(w->plan.victims[0]->facts.priority, best.highest);
	}
	assert_int_equal(world_teardown((void **)&w), 0);
}

static uint64_t current_seed;

static void random_nodes_agree_with_all_subsets(void **state)
{
	uint64_t seed = getenv("RATION_SEED") ? strtoull(getenv("RATION_SEED"), NULL, 10) : 1;
	uint64_t n = getenv("RATION_HISTORIES") ? strtoull(getenv("RATION_HISTORIES"), NULL, 10) : 3000;

	for (current_seed = seed; current_seed < seed + n; current_seed++)
		check_random_node(current_seed);
	current_seed = 0;
}

static int tell_failed_seed(void **state)
{
	if (current_seed)
		print_error("failed with RATION_SEED=%llu RATION_HISTORIES=1\n",
			(unsigned long long)current_seed);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
		T(four_gpus_of_fifteen_with_eight_used_each_lose_one_gpus_pod),
		T(equal_and_higher_priorities_and_static_pods_stay),
		T(the_highest_priority_among_the_victims_counts_before_their_number),
		T(the_fewest_go_when_priorities_are_equal),
		T(a_gpu_with_its_maximum_of_containers_loses_its_least_important_one),
		T(a_pod_with_more_containers_than_a_gpu_may_have_evicts_nobody),
		T(nobody_goes_from_where_the_pod_fits),
		T(pods_that_are_going_anyway_are_waited_for),
		T(a_pod_on_two_gpus_needs_room_on_both),
		T(spared_pods_stay),
		T(pods_that_go_in_any_case_are_used_first),
		T(budgets_are_respected_and_violated_only_where_allowed),
		T(a_budget_counts_all_victims_together),
		T(a_budgets_two_places_go_to_the_two_that_suffice_together),
		T(pods_without_a_gpu_go_when_the_node_as_a_whole_is_short),
		T(a_pod_on_a_gpu_goes_when_only_the_node_as_a_whole_is_short),
		T(bindings_on_their_way_are_stopped_only_where_allowed),
		T(gpus_kept_for_equals_are_not_planned_with_twice),
		T(plans_of_two_nodes_are_ordered_as_kube_scheduler_orders_them),
		T(it_is_pointless_below_everybody),
		cmocka_unit_test_teardown(random_nodes_agree_with_all_subsets, tell_failed_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
