/* Computing power: percentages of a GPU beside its units, and who may be on a node with whom. */
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
#include "base/clock.h"
#include "core/placement/explain.h"
#include "core/preemption/budget.h"
#include "core/preemption/preemption.h"
#include "core/registry/nomination.h"
#include "core/requeue.h"
#include "model-fixture.h"

struct world {
	struct ledger ledger;
	struct node_facts node; /* "n", a core_mem node */
	struct budgets budgets;
};

static void world_open(struct world *w, enum gpu_policy policy, size_t n_gpus, const uint32_t *units)
{
	ledger_init(&w->ledger);
	budgets_init(&w->budgets);
	fixture_node(&w->node, "n", policy, n_gpus, units);
	w->node.mode = GPU_MODE_CORE_MEM;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

static void set_node(struct world *w)
{
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

static void world_close(struct world *w)
{
	size_t over;

	assert_int_equal(ledger_check(&w->ledger, &over), 0);
	assert_int_equal(over, 0);
	node_facts_release(&w->node);
	ledger_release(&w->ledger);
	budgets_release(&w->budgets);
}

#define FOUR_OF_15 ((const uint32_t[]){15, 15, 15, 15})

/* core 0: memory only; a pod of one container. */
static void core_pod(struct pod_facts *ret_facts, const char *uid, uint32_t units, uint32_t core)
{
	char units_text[16], core_text[16];

	fixture_pod(ret_facts, uid, 0, "");
	snprintf(units_text, sizeof(units_text), "%u", units);
	snprintf(core_text, sizeof(core_text), "%u", core);
	assert_int_equal(request_add(&ret_facts->request, "main", CONTAINER_MAIN, 0, units_text,
				 core ? core_text : NULL, NULL),
		0);
}

static void occupy_with(
	struct world *w, const char *uid, uint32_t units, uint32_t core, int32_t priority, const char *uuid)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	core_pod(&pod, uid, units, core);
	pod.priority = priority;
	fixture_bind(&pod, "n", uuid);
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

static void occupy(struct world *w, const char *uid, uint32_t units, uint32_t core, const char *uuid)
{
	occupy_with(w, uid, units, core, 0, uuid);
}

static enum reject_reason reject_reason_of(struct world *w, uint32_t units, uint32_t core)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	core_pod(&pod, "asking", units, core);
	return ledger_choose(&w->ledger, "n", &pod, NULL);
}

static const char *chosen(struct world *w, uint32_t units, uint32_t core, char buf[GPU_UUID_SIZE])
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};

	core_pod(&pod, "asking", units, core);
	*buf = '\0';
	if (ledger_choose(&w->ledger, "n", &pod, &placement) == FITS) {
		assert_int_equal(placement.containers[0].gpus[0].core, core);
		memcpy(buf, placement.containers[0].gpus[0].uuid, GPU_UUID_SIZE);
	}
	return buf;
}

/* seeds/4: "If n pods each request 30% and n is no greater than 3, all pods are scheduled to the same GPU".
 */
static void three_pods_of_30_percent_share_a_gpu_and_the_fourth_takes_another(void **state)
{
	char uuid[GPU_UUID_SIZE], uid[8];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 4, FOUR_OF_15);
	for (int i = 0; i < 12; i++) {
		snprintf(uid, sizeof(uid), "p%d", i);
		chosen(&w, 2, 30, uuid);
		assert_string_equal(
			uuid, ((const char *[]){"GPU-n-0", "GPU-n-1", "GPU-n-2", "GPU-n-3"})[i / 3]);
		occupy(&w, uid, 2, 30, uuid);
	}
	assert_int_equal(reject_reason_of(&w, 2, 30), REJECT_CORE);
	assert_int_equal(reject_reason_of(&w, 2, 10), FITS);
	assert_int_equal(reject_reason_of(&w, 2, 15), REJECT_CORE);
	/* Units are short too: that comes first. */
	assert_int_equal(reject_reason_of(&w, 10, 15), REJECT_FULL);
	ledger_remove_pod(&w.ledger, "p7");
	assert_string_equal(chosen(&w, 2, 30, uuid), "GPU-n-2");
	world_close(&w);
}

static void a_gpu_has_a_hundred_points_and_no_more(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	assert_int_equal(reject_reason_of(&w, 1, 100), FITS);
	occupy(&w, "a", 1, 95, "GPU-n-0");
	assert_int_equal(reject_reason_of(&w, 1, 5), FITS);
	assert_int_equal(reject_reason_of(&w, 1, 10), REJECT_CORE);
	occupy(&w, "b", 1, 5, "GPU-n-0");
	assert_int_equal(reject_reason_of(&w, 1, 5), REJECT_CORE);
	assert_int_equal(ledger_node(&w.ledger, "n")->gpus[0].core_used, 100);
	world_close(&w);
}

static void containers_that_run_at_once_add_up_and_may_be_more_than_a_gpu_has(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	core_pod(&pod, "p", 1, 60);
	assert_int_equal(request_add(&pod.request, "second", CONTAINER_MAIN, 1, "1", "40", NULL), 0);
	assert_int_equal(ledger_choose(&w.ledger, "n", &pod, NULL), FITS);
	assert_int_equal(request_add(&pod.request, "third", CONTAINER_MAIN, 2, "1", "5", NULL), 0);
	assert_int_equal(ledger_choose(&w.ledger, "n", &pod, NULL), REJECT_CORE);
	world_close(&w);
}

static void units_core_and_containers_must_fit_on_the_same_gpu(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 3, (const uint32_t[]){15, 15, 15});
	w.node.instances_max = 2;
	set_node(&w);
	occupy(&w, "a", 12, 20, "GPU-n-0");
	occupy(&w, "b", 1, 80, "GPU-n-1");
	occupy(&w, "c", 1, 5, "GPU-n-2");
	occupy(&w, "d", 1, 5, "GPU-n-2");
	assert_int_equal(reject_reason_of(&w, 4, 30), REJECT_INSTANCES); /* GPU 2 has units and power */
	assert_string_equal(chosen(&w, 4, 20, uuid), "GPU-n-1");
	assert_string_equal(chosen(&w, 3, 30, uuid), "GPU-n-0");
	world_close(&w);
}

/* Units first, then computing power in the same sense. */
static void of_equal_units_binpack_takes_less_and_spread_more_power(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	for (int spread = 0; spread < 2; spread++) {
		world_open(
			&w, spread ? GPU_POLICY_SPREAD : GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
		occupy(&w, "a", 5, 10, "GPU-n-0");
		occupy(&w, "b", 5, 60, "GPU-n-1");
		assert_string_equal(chosen(&w, 1, 30, uuid), spread ? "GPU-n-0" : "GPU-n-1");
		occupy(&w, "c", 1, 5, "GPU-n-0");
		assert_string_equal(chosen(&w, 1, 30, uuid), spread ? "GPU-n-1" : "GPU-n-0");
		world_close(&w);
	}
}

static void a_percentage_needs_a_core_mem_node(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	w.node.mode = GPU_MODE_CGPU;
	set_node(&w);
	assert_int_equal(reject_reason_of(&w, 1, 30), REJECT_MODE);
	assert_int_equal(reject_reason_of(&w, 1, 0), FITS);
	w.node.mode = GPU_MODE_SHARE;
	set_node(&w);
	assert_int_equal(reject_reason_of(&w, 1, 30), REJECT_MODE);
	world_close(&w);
}

/* seeds/4: "You cannot run both types on the same node at the same time." */
static void pods_with_and_without_a_percentage_do_not_mix(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	assert_int_equal(reject_reason_of(&w, 1, 0), FITS);
	assert_int_equal(reject_reason_of(&w, 1, 30), FITS);
	occupy(&w, "with", 1, 30, "GPU-n-0");
	assert_int_equal(reject_reason_of(&w, 1, 0), REJECT_MIXED);
	assert_int_equal(reject_reason_of(&w, 1, 30), FITS);
	ledger_remove_pod(&w.ledger, "with");
	assert_int_equal(reject_reason_of(&w, 1, 0), FITS);
	occupy(&w, "without", 1, 0, "GPU-n-0");
	assert_int_equal(reject_reason_of(&w, 1, 30), REJECT_MIXED);
	assert_int_equal(reject_reason_of(&w, 1, 0), FITS);
	/* Nor where nobody placed it: it may be started by hand yet. */
	ledger_remove_pod(&w.ledger, "without");
	occupy(&w, "stray", 1, 0, NULL);
	assert_int_equal(reject_reason_of(&w, 1, 30), REJECT_MIXED);
	world_close(&w);
}

static void who_asks_for_a_percentage_in_one_container_is_a_pod_with_one(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	core_pod(&pod, "p", 1, 30);
	assert_int_equal(request_add(&pod.request, "second", CONTAINER_MAIN, 1, "1", NULL, NULL), 0);
	occupy(&w, "with", 1, 30, "GPU-n-0");
	assert_int_equal(ledger_choose(&w.ledger, "n", &pod, NULL), FITS);
	world_close(&w);
}

static void mixed_jobs_are_possible_where_they_are_allowed(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	w.node.mixing = true;
	set_node(&w);
	occupy(&w, "with", 1, 95, "GPU-n-0");
	assert_string_equal(chosen(&w, 14, 0, uuid), "GPU-n-0");
	occupy(&w, "without", 1, 0, "GPU-n-0");
	assert_int_equal(reject_reason_of(&w, 1, 5), FITS);
	assert_int_equal(reject_reason_of(&w, 1, 10), REJECT_CORE);
	w.node.mixing = false;
	set_node(&w);
	assert_int_equal(reject_reason_of(&w, 1, 5), REJECT_MIXED);
	world_close(&w);
}

static void nodes_of_other_modes_do_not_ask_who_is_there(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	w.node.mode = GPU_MODE_CGPU;
	set_node(&w);
	occupy(&w, "by hand", 1, 30, NULL);
	assert_int_equal(reject_reason_of(&w, 1, 0), FITS);
	world_close(&w);
}

static void a_hold_counts_and_so_does_a_reservation(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0}, other = {0};
	_cleanup_placement_ struct placement placement = {0}, again = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	core_pod(&pod, "a", 1, 60);
	core_pod(&other, "b", 1, 60);
	fixture_place(&placement, &pod.request, "GPU-n-0");
	fixture_place(&again, &other.request, "GPU-n-0");
	assert_int_equal(ledger_hold(&w.ledger, &pod, "n", &placement, 100), 0);
	assert_int_equal(reject_reason_of(&w, 1, 60), REJECT_CORE);
	assert_int_equal(reject_reason_of(&w, 1, 0), REJECT_MIXED);
	assert_int_equal(ledger_reserve(&w.ledger, &other, "n", &again), -ENOSPC);
	assert_int_equal(ledger_reserve(&w.ledger, &pod, "n", &placement), 0);
	assert_int_equal(ledger_reserve(&w.ledger, &other, "n", &again), -ENOSPC);
	ledger_release_reservation(&w.ledger, "a");
	assert_int_equal(ledger_reserve(&w.ledger, &other, "n", &again), 0);
	world_close(&w);
}

static void a_reservation_of_the_other_kind_is_refused(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	occupy(&w, "with", 1, 30, "GPU-n-0");
	core_pod(&pod, "a", 1, 0);
	fixture_place(&placement, &pod.request, "GPU-n-1");
	assert_int_equal(ledger_reserve(&w.ledger, &pod, "n", &placement), -ENOSPC);
	world_close(&w);
}

static void a_pod_that_nobody_placed_takes_power_from_the_node_as_a_whole(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	occupy(&w, "stray", 1, 80, NULL);
	occupy(&w, "placed", 1, 50, "GPU-n-0");
	assert_int_equal(ledger_node(&w.ledger, "n")->unplaced_core, 80);
	/* 200 - 50 - 80 = 70, on a GPU of its own. */
	assert_int_equal(reject_reason_of(&w, 1, 70), FITS);
	assert_int_equal(reject_reason_of(&w, 1, 75), REJECT_CORE);
	ledger_remove_pod(&w.ledger, "stray");
	assert_int_equal(reject_reason_of(&w, 1, 100), FITS);
	world_close(&w);
}

static void a_sick_gpu_has_no_power_to_give(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	occupy(&w, "a", 1, 50, "GPU-n-0");
	w.node.gpus[1].healthy = false;
	set_node(&w);
	assert_int_equal(reject_reason_of(&w, 1, 55), REJECT_CORE);
	assert_int_equal(reject_reason_of(&w, 1, 50), FITS);
	world_close(&w);
}

static void what_an_orphan_held_is_counted_as_its_node_says(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct held_pod *held;
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	snprintf(w.node.held.at, sizeof(w.node.held.at), "t1");
	assert_int_equal(held_add_pod(&w.node.held, "ghost", "default", "ghost", &held), 0);
	assert_int_equal(held_pod_add_gpu(held, "GPU-n-0", 2, 30), 0);
	assert_int_equal(held_pod_add_gpu(held, "GPU-n-1", 2, 10), 0);
	set_node(&w);
	assert_int_equal(ledger_node(&w.ledger, "n")->gpus[0].core_used, 30);
	assert_int_equal(ledger_node(&w.ledger, "n")->gpus[1].core_used, 10);
	assert_int_equal(reject_reason_of(&w, 1, 0), REJECT_MIXED);
	assert_int_equal(reject_reason_of(&w, 1, 95), REJECT_CORE);
	assert_int_equal(reject_reason_of(&w, 1, 90), FITS);
	world_close(&w);
}

static void texts_are_constant_and_name_what_is_missing(void **state)
{
	_cleanup_pod_facts_ struct pod_facts with = {0}, without = {0};
	char text[64];

	core_pod(&with, "a", 2, 30);
	core_pod(&without, "b", 2, 0);
	assert_string_equal(reject_reason_text(REJECT_CORE, &with.request, text, sizeof(text)),
		"no GPU has 30 percent of computing power free");
	assert_string_equal(reject_reason_text(REJECT_MIXED, &with.request, text, sizeof(text)),
		"GPU node has pods without gpu-core.percentage");
	assert_string_equal(reject_reason_text(REJECT_MIXED, &without.request, text, sizeof(text)),
		"GPU node has pods with gpu-core.percentage");
	assert_string_equal(gpu_reject_reason_text(GPU_CORE), "not enough computing power free");
}

static void explain_tells_which_gpu_lacks_power(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct node_explanation e;
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	occupy(&w, "a", 1, 80, "GPU-n-0");
	core_pod(&pod, "p", 2, 30);
	ledger_explain(&w.ledger, "n", &pod, &e);
	assert_int_equal(e.reject_reason, FITS);
	assert_int_equal(e.gpus[0].reject_reason, GPU_CORE);
	assert_int_equal(e.gpus[0].core_free, 20);
	assert_int_equal(e.gpus[1].reject_reason, GPU_FITS);
	world_close(&w);
}

/* ---- preemption ---- */

static int plan_for(struct world *w, uint32_t units, uint32_t core, struct preemption_plan *plan)
{
	_cleanup_pod_facts_ struct pod_facts asker = {0};
	struct preemption_question question = {.pod = &asker, .budgets = &w->budgets};
	int r;

	core_pod(&asker, "asker", units, core);
	asker.priority = 1000;
	r = preemption_plan_node(&w->ledger, "n", &question, plan);
	assert_int_equal(ledger_check(&w->ledger, NULL), 0);
	return r;
}

static void who_has_the_power_goes_not_who_has_the_memory(void **state)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	occupy(&w, "memory", 8, 10, "GPU-n-0");
	occupy(&w, "power", 1, 60, "GPU-n-0");
	occupy(&w, "little", 1, 5, "GPU-n-0");
	assert_int_equal(plan_for(&w, 1, 50, &plan), FITS);
	assert_int_equal(plan.n_victims, 1);
	assert_string_equal(plan.victims[0]->facts.uid, "power");
	world_close(&w);
}

static void both_are_short_and_one_pod_has_both(void **state)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	occupy(&w, "memory", 6, 5, "GPU-n-0");
	occupy(&w, "both", 5, 50, "GPU-n-0");
	occupy(&w, "power", 1, 45, "GPU-n-0");
	assert_int_equal(plan_for(&w, 8, 50, &plan), FITS);
	assert_int_equal(plan.n_victims, 1);
	assert_string_equal(plan.victims[0]->facts.uid, "both");
	world_close(&w);
}

static void the_other_kind_leaves_the_node_as_a_whole_or_stays(void **state)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	occupy(&w, "a", 1, 0, "GPU-n-0");
	occupy(&w, "b", 1, 0, "GPU-n-1");
	assert_int_equal(plan_for(&w, 1, 50, &plan), FITS);
	assert_int_equal(plan.n_victims, 2);
	occupy_with(&w, "important", 1, 0, 2000, "GPU-n-1");
	preemption_plan_release(&plan);
	assert_int_equal(plan_for(&w, 1, 50, &plan), REJECT_MIXED);
	world_close(&w);
}

static void more_power_than_a_gpu_has_evicts_nobody(void **state)
{
	_cleanup_pod_facts_ struct pod_facts asker = {0};
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	struct preemption_question question = {.pod = &asker};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	question.budgets = &w.budgets;
	occupy(&w, "a", 1, 60, "GPU-n-0");
	core_pod(&asker, "asker", 1, 60);
	assert_int_equal(request_add(&asker.request, "second", CONTAINER_MAIN, 1, "1", "45", NULL), 0);
	asker.priority = 1000;
	assert_int_equal(preemption_plan_node(&w.ledger, "n", &question, &plan), REJECT_CORE);
	world_close(&w);
}

/* Else who was evicted comes back before the pod for whom it had to go. */
static void a_nomination_keeps_the_other_kind_away(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	core_pod(&pod, "nominated", 1, 60);
	fixture_place(&placement, &pod.request, "GPU-n-0");
	assert_int_equal(ledger_nominate(&w.ledger, &pod, "n", &placement, NOMINATION_LASTS), 0);
	assert_int_equal(reject_reason_of(&w, 1, 0), REJECT_MIXED);
	assert_int_equal(reject_reason_of(&w, 1, 100), FITS); /* GPU 1 */
	ledger_drop_nomination(&w.ledger, "nominated");
	assert_int_equal(reject_reason_of(&w, 1, 0), FITS);
	world_close(&w);
}

/* ---- waking ---- */

static void wait_for(struct world *w, struct requeue_list *list, const char *uid, uint32_t units,
	uint32_t core, uint32_t containers, int32_t priority)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	core_pod(&pod, uid, units, core);
	pod.priority = priority;
	for (uint32_t i = 1; i < containers; i++) {
		char name[16];

		snprintf(name, sizeof(name), "c%u", i);
		assert_int_equal(request_add(&pod.request, name, CONTAINER_MAIN, (int)i, "1", NULL, NULL), 0);
	}
	assert_int_equal(requeue_list_rejected(list, &pod, &w->ledger, 0), 0);
}

/* What a search that failed says about others: not about who may be there while it may not, and not about who
 * has fewer containers. */
static void a_failed_search_is_not_taken_for_another_kind_of_pod(void **state)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct world w;
	int64_t again;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	w.node.instances_max = 3;
	set_node(&w);
	requeue_list_init(&list);
	occupy(&w, "with", 1, 30, "GPU-n-0");
	wait_for(&w, &list, "memory", 1, 0, 1, 5);  /* may not: mixed */
	wait_for(&w, &list, "many", 2, 10, 3, 4);   /* too many containers */
	wait_for(&w, &list, "large", 2, 75, 1, 3);  /* too much power */
	wait_for(&w, &list, "larger", 3, 80, 2, 2); /* so neither has this */
	wait_for(&w, &list, "fits", 5, 70, 1, 1);
	w.ledger.generation++;
	assert_int_equal(requeue_list_look(&list, &w.ledger, 0, pods, &again), 1);
	assert_string_equal(pods[0]->uid, "fits");
	requeue_list_release(&list);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_pods_of_30_percent_share_a_gpu_and_the_fourth_takes_another),
		cmocka_unit_test(a_gpu_has_a_hundred_points_and_no_more),
		cmocka_unit_test(containers_that_run_at_once_add_up_and_may_be_more_than_a_gpu_has),
		cmocka_unit_test(units_core_and_containers_must_fit_on_the_same_gpu),
		cmocka_unit_test(of_equal_units_binpack_takes_less_and_spread_more_power),
		cmocka_unit_test(a_percentage_needs_a_core_mem_node),
		cmocka_unit_test(pods_with_and_without_a_percentage_do_not_mix),
		cmocka_unit_test(who_asks_for_a_percentage_in_one_container_is_a_pod_with_one),
		cmocka_unit_test(mixed_jobs_are_possible_where_they_are_allowed),
		cmocka_unit_test(nodes_of_other_modes_do_not_ask_who_is_there),
		cmocka_unit_test(a_hold_counts_and_so_does_a_reservation),
		cmocka_unit_test(a_reservation_of_the_other_kind_is_refused),
		cmocka_unit_test(a_pod_that_nobody_placed_takes_power_from_the_node_as_a_whole),
		cmocka_unit_test(a_sick_gpu_has_no_power_to_give),
		cmocka_unit_test(what_an_orphan_held_is_counted_as_its_node_says),
		cmocka_unit_test(texts_are_constant_and_name_what_is_missing),
		cmocka_unit_test(explain_tells_which_gpu_lacks_power),
		cmocka_unit_test(who_has_the_power_goes_not_who_has_the_memory),
		cmocka_unit_test(both_are_short_and_one_pod_has_both),
		cmocka_unit_test(the_other_kind_leaves_the_node_as_a_whole_or_stays),
		cmocka_unit_test(more_power_than_a_gpu_has_evicts_nobody),
		cmocka_unit_test(a_nomination_keeps_the_other_kind_away),
		cmocka_unit_test(a_failed_search_is_not_taken_for_another_kind_of_pod),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
