/* Pods that ask for whole GPUs (aliyun.com/gpu), chosen by their links. */
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
#include "base/error.h"
#include "core/placement/decide.h"
#include "core/placement/explain.h"
#include "core/placement/rank.h"
#include "core/preemption/budget.h"
#include "core/preemption/preemption.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"
#include "core/requeue.h"
#include "links-layouts.h"
#include "model-fixture.h"

typedef const char *const (*matrix)[8];

static void open_node(struct ledger *ledger, const char *name, matrix layout, int broken)
{
	static const uint32_t units[] = {15, 15, 15, 15, 15, 15, 15, 15};
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, 8, units);
	facts.mode = GPU_MODE_TOPOLOGY;
	for (size_t a = 0; a < 8; a++)
		for (size_t b = 0; b < 8 && layout; b++)
			if (a != b)
				assert_int_equal(link_parse(layout[a][b], &facts.details[a].links[b]), 0);
	if (broken >= 0)
		facts.gpus[broken].healthy = false;
	assert_int_equal(ledger_set_node(ledger, &facts), 0);
}

static struct pod_facts pod_of(const char *uid, const char *gpus)
{
	struct pod_facts pod;

	pod_facts_init(&pod);
	pod.uid = strdup(uid);
	pod.namespace_ = strdup("default");
	pod.name = strdup(uid);
	pod.owner = strdup("");
	pod.node = strdup("");
	pod.pending = true;
	if (gpus)
		assert_int_equal(request_add_whole(&pod.request, "main", CONTAINER_MAIN, 0, gpus, NULL), 0);
	return pod;
}

static struct pod_facts member_of(const char *uid, const char *gpus, const char *job, uint32_t pods)
{
	struct pod_facts pod = pod_of(uid, gpus);

	assert_int_equal(request_set_group(&pod.request, "default", job, pods), 0);
	return pod;
}

/* The last characters of the UUIDs, which are the indices: "0123". */
static const char *gpus_of(const struct placement *placement)
{
	static char text[NODE_GPUS_MAX + 1];
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(placement, gpus);

	for (size_t i = 0; i < n; i++)
		text[i] = gpus[i]->uuid[strlen(gpus[i]->uuid) - 1];
	text[n] = '\0';
	return text;
}

/* Takes the GPUs, as bind does. */
static void assert_reserved(
	struct ledger *ledger, const struct pod_facts *pod, const char *node, const char *gpus)
{
	_cleanup_placement_ struct placement placement;

	placement_init(&placement);
	assert_int_equal(decide_reserve(ledger, pod, node, &placement), FITS);
	assert_string_equal(gpus_of(&placement), gpus);
	assert_true(placement_matches(&placement, &pod->request));
	assert_int_equal(ledger_check(ledger, NULL), 0);
}

static void assert_reject_reason(
	struct ledger *ledger, const struct pod_facts *pod, const char *node, const char *text)
{
	int reject_reason = ledger_choose(ledger, node, pod, NULL);
	char buf[64];

	assert_string_equal(
		reject_reason_text((enum reject_reason)reject_reason, &pod->request, buf, sizeof(buf)), text);
}

static void whole_gpus_of_dgx1_are_the_quads(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts a = pod_of("a", "4"), b = pod_of("b", "4"), c = pod_of("c", "1");

	ledger_init(&ledger);
	open_node(&ledger, "n", layout_dgx1_v100, -1);
	assert_reserved(&ledger, &a, "n", "0123");
	assert_reserved(&ledger, &b, "n", "4567");
	assert_reject_reason(&ledger, &c, "n", "GPU node has fewer than 1 GPUs free");
	ledger_release_reservation(&ledger, "a");
	assert_reserved(&ledger, &c, "n", "0");
}

static void whole_gpus_leave_a_broken_one_out(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts all = pod_of("all", "8"), quad = pod_of("quad", "4"),
					     three = pod_of("three", "3"), four = pod_of("four", "4");

	ledger_init(&ledger);
	open_node(&ledger, "n", layout_dgx1_v100, 2);
	assert_reject_reason(&ledger, &all, "n", "GPU node has fewer than 8 GPUs free");
	assert_reserved(&ledger, &quad, "n", "4567");
	assert_reject_reason(&ledger, &four, "n", "GPU node has fewer than 4 GPUs free");
	assert_reserved(&ledger, &three, "n", "013");
}

static void whole_gpus_of_more_than_there_are_fit_nowhere(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts nine = pod_of("nine", "9"), many = pod_of("many", "2000000000");

	ledger_init(&ledger);
	open_node(&ledger, "n", layout_dgx_a100, -1);
	assert_reject_reason(&ledger, &nine, "n", "GPU node has fewer than 9 GPUs");
	assert_reject_reason(&ledger, &many, "n", "GPU node has fewer than 1073741823 GPUs");
}

static void whole_gpus_and_shares_do_not_meet(void **state)
{
	static const uint32_t units[] = {15};
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_node_facts_ struct node_facts share;
	_cleanup_pod_facts_ struct pod_facts whole = pod_of("whole", "1"), part = {0};

	ledger_init(&ledger);
	fixture_node(&share, "s", GPU_POLICY_BINPACK, 1, units);
	assert_int_equal(ledger_set_node(&ledger, &share), 0);
	open_node(&ledger, "t", NULL, -1);
	fixture_pod(&part, "part", 1, "");
	assert_reject_reason(&ledger, &whole, "s", "GPU node does not give whole GPUs");
	assert_reject_reason(&ledger, &part, "t", "GPU sharing mode does not fit");
	assert_int_equal(ledger_choose(&ledger, "s", &part, NULL), FITS);
}

/* Its placement may be older than the node's mode, or by hand: the GPU is nobody else's all the same. */
static void whole_gpu_on_a_share_node_is_all_of_it(void **state)
{
	static const uint32_t units[] = {15, 15};
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_node_facts_ struct node_facts share;
	_cleanup_pod_facts_ struct pod_facts whole = pod_of("whole", "1"), part = {0}, large = {0};
	_cleanup_placement_ struct placement placement;

	ledger_init(&ledger);
	fixture_node(&share, "s", GPU_POLICY_BINPACK, 2, units);
	assert_int_equal(ledger_set_node(&ledger, &share), 0);
	free(whole.node);
	whole.node = strdup("s");
	whole.has_placement = true;
	whole.placement.unit_mib = 1024;
	assert_int_equal(placement_add(&whole.placement, "main", "GPU-s-0", 1, 0), 0);
	assert_int_equal(ledger_set_pod(&ledger, &whole), 0);
	fixture_pod(&part, "part", 1, "");
	fixture_pod(&large, "large", 15, "");
	placement_init(&placement);
	assert_int_equal(ledger_choose(&ledger, "s", &part, &placement), FITS);
	assert_string_equal(gpus_of(&placement), "1");
	assert_int_equal(ledger_choose(&ledger, "s", &large, NULL), FITS);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	share.mode = GPU_MODE_TOPOLOGY;
	assert_int_equal(ledger_set_node(&ledger, &share), 0);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_remove_pod(&ledger, "whole");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	assert_int_equal(ledger_node(&ledger, "s")->gpus[0].units_used, 0);
}

/* ---- several containers ---- */

static void whole_gpus_of_containers_are_their_own(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts pod = pod_of("p", NULL);
	_cleanup_placement_ struct placement placement;
	const struct container_placement *side, *a, *b, *init;

	assert_int_equal(request_add_whole(&pod.request, "first", CONTAINER_INIT, 0, "2", NULL), 0);
	assert_int_equal(request_add_whole(&pod.request, "side", CONTAINER_SIDECAR, 1, "1", NULL), 0);
	assert_int_equal(request_add_whole(&pod.request, "second", CONTAINER_INIT, 2, "2", NULL), 0);
	assert_int_equal(request_add_whole(&pod.request, "a", CONTAINER_MAIN, 0, "2", NULL), 0);
	assert_int_equal(request_add_whole(&pod.request, "b", CONTAINER_MAIN, 1, "1", NULL), 0);
	/* max(2, 1 + 2, 1 + 2 + 1) = 4 */
	assert_int_equal(request_gpus(&pod.request), 4);
	ledger_init(&ledger);
	open_node(&ledger, "n", layout_dgx1_v100, -1);
	placement_init(&placement);
	assert_int_equal(ledger_choose(&ledger, "n", &pod, &placement), FITS);
	assert_true(placement_matches(&placement, &pod.request));
	side = placement_find(&placement, "side");
	a = placement_find(&placement, "a");
	b = placement_find(&placement, "b");
	init = placement_find(&placement, "second");
	assert_int_equal(a->n_gpus, 2);
	assert_null(container_share(a, side->gpus[0].uuid));
	assert_null(container_share(b, side->gpus[0].uuid));
	assert_null(container_share(a, b->gpus[0].uuid));
	assert_null(container_share(init, side->gpus[0].uuid));
	assert_int_equal(ledger_reserve(&ledger, &pod, "n", &placement), 0);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(ledger_node(&ledger, "n")->gpus[i].units_used, i < 4);
}

static void assert_match(bool matches, const struct request *request, const char *a, const char *b)
{
	_cleanup_placement_ struct placement placement;
	const char *const names[] = {"a", "b"};
	const char *const gpus[] = {a, b};

	placement_init(&placement);
	placement.unit_mib = 1024;
	for (size_t i = 0; i < 2; i++)
		for (const char *c = gpus[i]; *c; c++)
			assert_int_equal(placement_add(&placement, names[i], (char[]){*c, '\0'}, 1, 0), 0);
	assert_int_equal(placement_matches(&placement, request), matches);
}

static void whole_placement_of_another_number_does_not_match(void **state)
{
	_cleanup_request_ struct request request = {0};

	assert_int_equal(request_add_whole(&request, "a", CONTAINER_MAIN, 0, "2", NULL), 0);
	assert_int_equal(request_add_whole(&request, "b", CONTAINER_MAIN, 1, "1", NULL), 0);
	assert_match(true, &request, "xy", "z");
	assert_match(false, &request, "xy", "y");
	assert_match(false, &request, "x", "z");
	assert_match(false, &request, "xy", "zw");
	assert_match(false, &request, "xy", "");
}

static void assert_refused(struct request *request, bool whole, const char *text)
{
	struct error err = {""};
	int r = whole ? request_add_whole(request, "b", CONTAINER_MAIN, 1, "1", &err)
		      : request_add(request, "b", CONTAINER_MAIN, 1, "1", NULL, &err);

	assert_int_equal(r, -EINVAL);
	assert_string_equal(err.text, text);
	assert_int_equal(request->n_containers, 1);
}

static void whole_gpus_and_shares_in_one_pod_are_refused(void **state)
{
	_cleanup_request_ struct request shares = {0}, whole = {0};
	struct error err = {""};

	assert_int_equal(request_add(&shares, "a", CONTAINER_MAIN, 0, "3", NULL, NULL), 0);
	assert_refused(&shares, true,
		"container \"b\": aliyun.com/gpu is not possible in a pod that asks for aliyun.com/gpu-mem too");
	assert_int_equal(request_add_whole(&whole, "a", CONTAINER_MAIN, 0, "3", NULL), 0);
	assert_refused(&whole, false,
		"container \"a\": aliyun.com/gpu is not possible in a pod that asks for aliyun.com/gpu-mem too");
	assert_int_equal(request_parse_gpus(&whole, "3", &err), -EINVAL);
	assert_string_equal(err.text,
		"label aliyun.com/gpu-count is 3: is not possible together with aliyun.com/gpu, which counts GPUs itself");
}

/* ---- jobs ---- */

static void whole_gpus_of_a_job_are_planned_together(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts a = member_of("a", "2", "job", 2),
					     b = member_of("b", "2", "job", 2),
					     c = member_of("c", "2", "other", 2);

	ledger_init(&ledger);
	open_node(&ledger, "n", layout_dgx1_v100, -1);
	assert_reserved(&ledger, &a, "n", "03");
	assert_reserved(&ledger, &c, "n", "47");
	/* 03 and 12 make a quad; alone 56 would be as good. */
	assert_reserved(&ledger, &b, "n", "12");
}

static void whole_gpus_of_a_job_of_another_namespace_are_not_near(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts a = member_of("a", "4", "job", 2), b = pod_of("b", "1");

	ledger_init(&ledger);
	open_node(&ledger, "n", layout_pcie_8, -1);
	assert_int_equal(request_set_group(&b.request, "elsewhere", "job", 2), 0);
	assert_reserved(&ledger, &a, "n", "0123");
	assert_int_equal(node_ledger_group_gpus(ledger_node(&ledger, "n"), &a.request), 0x0f);
	assert_int_equal(node_ledger_group_gpus(ledger_node(&ledger, "n"), &b.request), 0);
}

/* ---- among nodes ---- */

static void assert_first(struct ledger *ledger, const struct pod_facts *pod, const char *name)
{
	const struct node_ledger *nodes[] = {
		ledger_node(ledger, "a"), ledger_node(ledger, "b"), ledger_node(ledger, "c")};

	assert_int_equal(rank_nodes(ledger, nodes, 3, 1, pod), 0);
	assert_string_equal(nodes[0]->facts.name, name);
}

static void whole_gpus_are_taken_where_they_are_connected_best(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts taken = pod_of("taken", "1"), four = pod_of("four", "4"),
					     one = pod_of("one", "1"), job = member_of("j1", "1", "job", 2),
					     second = member_of("j2", "1", "job", 2);

	ledger_init(&ledger);
	open_node(&ledger, "a", layout_pcie_8, -1);
	open_node(&ledger, "b", layout_dgx1_v100, -1);
	open_node(&ledger, "c", layout_dgx_a100, -1);
	assert_first(&ledger, &four, "c");
	/* A single GPU has no links: the fullest node. */
	assert_reserved(&ledger, &taken, "b", "0");
	assert_first(&ledger, &one, "b");
	assert_reserved(&ledger, &job, "a", "0");
	assert_first(&ledger, &second, "a");
}

static void whole_gpus_are_explained_in_the_order_of_the_choice(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts taken = pod_of("taken", "1"), pod = pod_of("p", "4");
	static const size_t turns[] = {0, 5, 6, 7, 1, 2, 3, 4};
	struct node_explanation explanation;

	ledger_init(&ledger);
	open_node(&ledger, "n", layout_dgx1_v100, -1);
	assert_reserved(&ledger, &taken, "n", "0");
	ledger_explain(&ledger, "n", &pod, &explanation);
	assert_int_equal(explanation.reject_reason, FITS);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(explanation.gpus[i].turn, turns[i]);
	assert_int_equal(explanation.gpus[0].reject_reason, GPU_FULL);
}

static void whole_gpus_stay_with_who_is_nominated_for_them(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts high = pod_of("high", "4"), low = pod_of("low", "4"),
					     other = pod_of("other", "4");
	_cleanup_placement_ struct placement placement;

	ledger_init(&ledger);
	open_node(&ledger, "n", layout_dgx1_v100, -1);
	high.priority = 100;
	placement_init(&placement);
	assert_int_equal(ledger_choose(&ledger, "n", &high, &placement), FITS);
	assert_int_equal(ledger_nominate(&ledger, &high, "n", &placement, NOMINATION_LASTS), 0);
	assert_reserved(&ledger, &low, "n", "4567");
	assert_reject_reason(&ledger, &other, "n", "GPU node has fewer than 4 GPUs free");
	assert_reserved(&ledger, &high, "n", "0123");
}

/* What is not free of whole GPUs says nothing about shares, however many were asked for. */
static void whole_gpus_that_nobody_has_keep_nobody_asleep(void **state)
{
	static const uint32_t units[] = {15};
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_(requeue_list_release) struct requeue_list list;
	_cleanup_node_facts_ struct node_facts share;
	_cleanup_pod_facts_ struct pod_facts many = pod_of("many", "2000000000"), nine = pod_of("nine", "9"),
					     one = pod_of("one", "1"), part = {0},
					     first = pod_of("first", "8");
	const struct pod_facts *woken[REQUEUES_PER_LOOK];
	int64_t again;

	ledger_init(&ledger);
	requeue_list_init(&list);
	open_node(&ledger, "t", layout_dgx_a100, -1);
	fixture_node(&share, "s", GPU_POLICY_BINPACK, 1, units);
	fixture_pod(&part, "part", 1, "");
	assert_reserved(&ledger, &first, "t", "01234567");
	assert_int_equal(requeue_list_rejected(&list, &many, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &nine, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &one, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &part, &ledger, 0), 0);
	assert_int_equal(ledger_set_node(&ledger, &share), 0);
	assert_int_equal(requeue_list_look(&list, &ledger, 1, woken, &again), 1);
	assert_string_equal(woken[0]->uid, "part");
	ledger_release_reservation(&ledger, "first");
	requeue_list_leave(&list, "part");
	assert_int_equal(requeue_list_look(&list, &ledger, 2, woken, &again), 1);
	assert_string_equal(woken[0]->uid, "one");
}

/* Two of four must go, and what is kept is what they have: victims are chosen for their number, not for
 * links. */
static void whole_gpus_are_cleared_by_as_few_victims_as_suffice(void **state)
{
	_cleanup_(ledger_release) struct ledger ledger;
	_cleanup_pod_facts_ struct pod_facts high = pod_of("high", "5");
	static const char *const uids[] = {"a", "b", "c", "d"}, *const gpus[] = {"3", "2", "2", "1"};
	struct preemption_plan plan = {0};
	struct budgets budgets;

	ledger_init(&ledger);
	budgets_init(&budgets);
	open_node(&ledger, "n", layout_dgx1_v100, -1);
	for (size_t i = 0; i < ARRAY_SIZE(uids); i++) {
		_cleanup_pod_facts_ struct pod_facts pod = pod_of(uids[i], gpus[i]);
		_cleanup_placement_ struct placement placement;

		placement_init(&placement);
		assert_int_equal(decide_reserve(&ledger, &pod, "n", &placement), FITS);
		ledger_confirm(&ledger, uids[i]);
	}
	high.priority = 10;
	assert_reject_reason(&ledger, &high, "n", "GPU node has fewer than 5 GPUs free");
	assert_int_equal(preemption_plan_node(&ledger, "n",
				 &(struct preemption_question){.pod = &high, .budgets = &budgets}, &plan),
		0);
	assert_int_equal(plan.n_victims, 2);
	assert_true(placement_matches(&plan.placement, &high.request));
	assert_int_equal(strlen(gpus_of(&plan.placement)), 5);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	preemption_plan_release(&plan);
	budgets_release(&budgets);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_gpus_of_dgx1_are_the_quads),
		cmocka_unit_test(whole_gpus_leave_a_broken_one_out),
		cmocka_unit_test(whole_gpus_of_more_than_there_are_fit_nowhere),
		cmocka_unit_test(whole_gpus_and_shares_do_not_meet),
		cmocka_unit_test(whole_gpu_on_a_share_node_is_all_of_it),
		cmocka_unit_test(whole_gpus_of_containers_are_their_own),
		cmocka_unit_test(whole_placement_of_another_number_does_not_match),
		cmocka_unit_test(whole_gpus_and_shares_in_one_pod_are_refused),
		cmocka_unit_test(whole_gpus_of_a_job_are_planned_together),
		cmocka_unit_test(whole_gpus_of_a_job_of_another_namespace_are_not_near),
		cmocka_unit_test(whole_gpus_are_taken_where_they_are_connected_best),
		cmocka_unit_test(whole_gpus_are_explained_in_the_order_of_the_choice),
		cmocka_unit_test(whole_gpus_that_nobody_has_keep_nobody_asleep),
		cmocka_unit_test(whole_gpus_are_cleared_by_as_few_victims_as_suffice),
		cmocka_unit_test(whole_gpus_stay_with_who_is_nominated_for_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
