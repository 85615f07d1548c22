#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/placement/decide.h"
#include "core/registry/nomination.h"
#include "core/requeue.h"
#include "model-fixture.h"

static void open_ledger(struct ledger *ledger)
{
	_cleanup_node_facts_ struct node_facts facts;

	ledger_init(ledger);
	fixture_node(&facts, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){10, 4});
	assert_int_equal(ledger_set_node(ledger, &facts), 0);
}

static void bind_takes_the_gpu_that_filter_held(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod, other;
	_cleanup_placement_ struct placement placement;
	struct ledger ledger;

	open_ledger(&ledger);
	fixture_pod(&pod, "a", 3, "");
	fixture_pod(&other, "b", 4, "");
	assert_int_equal(decide_hold(&ledger, &pod, "n", 0), FITS);
	/* the small GPU is held, so this one goes to the large GPU, which is now the fuller of the two */
	assert_int_equal(decide_reserve(&ledger, &other, "n", &placement), FITS);
	assert_string_equal(placement.containers[0].gpus[0].uuid, "GPU-n-0");
	placement_release(&placement);
	assert_int_equal(decide_reserve(&ledger, &pod, "n", &placement), FITS);
	assert_string_equal(placement.containers[0].gpus[0].uuid, "GPU-n-1");
	assert_int_equal(ledger_pod(&ledger, "a")->occupancy, OCCUPANCY_RESERVED);
	ledger_release(&ledger);
}

static void bind_takes_another_gpu_when_the_held_one_was_taken_by_another_replica(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod, other;
	_cleanup_placement_ struct placement placement;
	struct ledger ledger;

	open_ledger(&ledger);
	fixture_pod(&pod, "a", 3, "");
	assert_int_equal(decide_hold(&ledger, &pod, "n", NS_PER_S), FITS);
	fixture_pod(&other, "b", 2, "");
	fixture_bind(&other, "n", "GPU-n-1");
	assert_int_equal(ledger_set_pod(&ledger, &other), 0);
	assert_int_equal(decide_reserve(&ledger, &pod, "n", &placement), FITS);
	assert_string_equal(placement.containers[0].gpus[0].uuid, "GPU-n-0");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_release(&ledger);
}

static void reserve_without_room_changes_nothing(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	struct placement placement = {.unit_mib = 77};
	struct ledger ledger;

	open_ledger(&ledger);
	fixture_pod(&pod, "a", 11, "");
	assert_int_equal(decide_reserve(&ledger, &pod, "n", &placement), REJECT_TOO_LARGE);
	assert_int_equal(decide_reserve(&ledger, &pod, "other", &placement), REJECT_NO_GPU_NODE);
	assert_int_equal(placement.unit_mib, 77);
	assert_null(ledger_pod(&ledger, "a"));
	ledger_release(&ledger);
}

/* A user bound a pod by hand: no GPU of the node is left. Found by the simulation. */
static void a_hold_that_cannot_be_reserved_ends(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod, by_hand;
	struct placement placement;
	struct ledger ledger;

	open_ledger(&ledger);
	fixture_pod(&pod, "a", 3, "");
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
	assert_int_equal(decide_hold(&ledger, &pod, "n", 0), FITS);
	fixture_pod(&by_hand, "b", 14, "");
	fixture_bind(&by_hand, "n", NULL);
	assert_int_equal(ledger_set_pod(&ledger, &by_hand), 0);
	assert_int_equal(decide_reserve(&ledger, &pod, "n", &placement), REJECT_FULL);
	assert_int_equal(ledger_pod(&ledger, "a")->occupancy, OCCUPANCY_WAITING);
	ledger_release(&ledger);
}

static void only_a_clear_refusal_ends_a_reservation(void **state)
{
	assert_int_equal(binding_outcome(0, 201), BINDING_APPLIED);
	assert_int_equal(binding_outcome(0, 404), BINDING_REFUSED);
	assert_int_equal(binding_outcome(0, 403), BINDING_REFUSED);
	assert_int_equal(binding_outcome(0, 409), BINDING_UNKNOWN);
	assert_int_equal(binding_outcome(0, 500), BINDING_UNKNOWN);
	assert_int_equal(binding_outcome(-ETIMEDOUT, 0), BINDING_UNKNOWN);
}

/* Deleted while kube-scheduler's question was on its way: no event will end the hold. Found by the
 * simulation. */
static void a_hold_of_a_pod_that_the_watch_never_shows_ends_after_ten_seconds(void **state)
{
	_cleanup_pod_facts_ struct pod_facts unseen, seen;
	struct ledger ledger;

	open_ledger(&ledger);
	fixture_pod(&unseen, "unseen", 3, "");
	fixture_pod(&seen, "seen", 3, "");
	assert_int_equal(ledger_set_pod(&ledger, &seen), 0);
	assert_int_equal(decide_hold(&ledger, &unseen, "n", 0), FITS);
	assert_int_equal(decide_hold(&ledger, &seen, "n", 0), FITS);
	assert_int_equal(decide_expire(&ledger, 10 * NS_PER_S - 1, true), 0);
	assert_int_equal(decide_expire(&ledger, 60 * NS_PER_S, false), 0);
	assert_int_equal(decide_expire(&ledger, 10 * NS_PER_S, true), 1);
	assert_null(ledger_pod(&ledger, "unseen"));
	assert_int_equal(ledger_pod(&ledger, "seen")->occupancy, OCCUPANCY_TENTATIVE);
	assert_int_equal(decide_expire(&ledger, 600 * NS_PER_S, true), 1);
	ledger_release(&ledger);
}

static size_t look(struct requeue_list *list, struct ledger *ledger, int64_t now,
	const struct pod_facts **pods, int64_t *again)
{
	return requeue_list_look(list, ledger, now, pods, again);
}

static void a_freed_gpu_wakes_the_most_important_pod_first(void **state)
{
	_cleanup_pod_facts_ struct pod_facts running, low, high;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&running, "r", 10, "");
	fixture_bind(&running, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&ledger, &running), 0);
	fixture_pod(&low, "low", 9, "");
	fixture_pod(&high, "high", 9, "");
	high.priority = 1;
	assert_int_equal(requeue_list_rejected(&list, &low, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &high, &ledger, 0), 0);
	assert_int_equal(look(&list, &ledger, 0, pods, &again), 0);
	assert_true(again == INT64_MAX);
	ledger_remove_pod(&ledger, "r");
	assert_true(requeue_list_is_due(&list, &ledger));
	assert_int_equal(look(&list, &ledger, 0, pods, &again), 2);
	assert_string_equal(pods[0]->uid, "high");
	assert_string_equal(pods[1]->uid, "low");
	assert_true(again == NS_PER_S); /* in vain: again after a back-off */
	assert_int_equal(look(&list, &ledger, NS_PER_S / 2, pods, &again), 0);
	requeue_list_leave(&list, "high");
	assert_int_equal(look(&list, &ledger, NS_PER_S, pods, &again), 1);
	requeue_list_release(&list);
	ledger_release(&ledger);
}

static void a_freed_gpu_wakes_the_pod_that_it_is_kept_for_and_no_other(void **state)
{
	_cleanup_pod_facts_ struct pod_facts running, other, mine;
	_cleanup_placement_ struct placement placement;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&running, "r", 10, "");
	fixture_bind(&running, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&ledger, &running), 0);
	fixture_pod(&other, "other", 9, "");
	fixture_pod(&mine, "mine", 9, "");
	fixture_place(&placement, &mine.request, "GPU-n-0");
	assert_int_equal(ledger_nominate(&ledger, &mine, "n", &placement, NOMINATION_LASTS), 0);
	assert_int_equal(requeue_list_rejected(&list, &other, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &mine, &ledger, 0), 0);
	ledger_remove_pod(&ledger, "r");
	assert_int_equal(look(&list, &ledger, 0, pods, &again), 1);
	assert_string_equal(pods[0]->uid, "mine");
	requeue_list_release(&list);
	ledger_release(&ledger);
}

/* A search that failed for two containers says nothing about one. */
static void a_place_for_one_container_wakes_the_pod_that_has_one(void **state)
{
	_cleanup_node_facts_ struct node_facts node;
	_cleanup_pod_facts_ struct pod_facts running, two, one;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	ledger_init(&ledger);
	requeue_list_init(&list);
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	node.mode = GPU_MODE_CGPU;
	node.instances_max = 2;
	assert_int_equal(ledger_set_node(&ledger, &node), 0);
	fixture_pod(&running, "r", 1, "");
	fixture_bind(&running, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&ledger, &running), 0);
	fixture_pod(&two, "two", 1, "");
	assert_int_equal(request_add(&two.request, "second", CONTAINER_MAIN, 1, "1", NULL, NULL), 0);
	two.priority = 1;
	fixture_pod(&one, "one", 3, "");
	assert_int_equal(requeue_list_rejected(&list, &two, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &one, &ledger, 0), 0);
	ledger.generation++;
	assert_int_equal(look(&list, &ledger, 0, pods, &again), 1);
	assert_string_equal(pods[0]->uid, "one");
	requeue_list_release(&list);
	ledger_release(&ledger);
}

/* Rejected by our predecessor, and the GPU was freed while nobody looked. Found by the simulation. */
static void a_pod_found_waiting_at_the_start_is_woken_three_times_at_most(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&pod, "a", 9, "");
	assert_int_equal(requeue_list_found_waiting(&list, &pod, 0), 0);
	assert_true(requeue_list_is_due(&list, &ledger));
	for (int i = 0; i < 3; i++)
		assert_int_equal(look(&list, &ledger, i * 100 * NS_PER_S, pods, &again), 1);
	assert_int_equal(look(&list, &ledger, 1000 * NS_PER_S, pods, &again), 0);
	assert_int_equal(requeue_list_rejected(&list, &pod, &ledger, 1000 * NS_PER_S), 0);
	ledger.generation++;
	assert_int_equal(look(&list, &ledger, 1000 * NS_PER_S, pods, &again), 1);
	requeue_list_release(&list);
	ledger_release(&ledger);
}

static void a_waiting_pod_that_nobody_knows_is_forgotten_after_ten_seconds(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	struct requeue_list list;
	struct ledger ledger;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&pod, "a", 9, "");
	assert_int_equal(requeue_list_rejected(&list, &pod, &ledger, 0), 0);
	requeue_list_forget_gone(&list, &ledger, 10 * NS_PER_S);
	assert_int_equal(list.pods.count, 1);
	requeue_list_forget_gone(&list, &ledger, 10 * NS_PER_S + 1);
	assert_int_equal(list.pods.count, 0);
	requeue_list_release(&list);
	ledger_release(&ledger);
}

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

#define MANY_NODES 2000
#define MANY_PODS 1000

/* Only the last node has a GPU with room for the pods. */
static void open_large_ledger(struct ledger *ledger)
{
	ledger_init(ledger);
	for (int i = 0; i < MANY_NODES; i++) {
		_cleanup_node_facts_ struct node_facts facts;
		char name[16];

		snprintf(name, sizeof(name), "n%d", i);
		fixture_node(&facts, name, GPU_POLICY_BINPACK, 1,
			(const uint32_t[]){i == MANY_NODES - 1 ? 10 : 2});
		assert_int_equal(ledger_set_node(ledger, &facts), 0);
	}
}

static void add_waiting(struct requeue_list *list, struct ledger *ledger, size_t n, uint32_t units)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_pod_facts_ struct pod_facts pod;
		char uid[sizeof("p--") + 10 + 20];

		snprintf(uid, sizeof(uid), "p-%u-%zu", units, i);
		fixture_pod(&pod, uid, units, "");
		assert_int_equal(requeue_list_rejected(list, &pod, ledger, 0), 0);
	}
	ledger->generation++;
}

static void a_thousand_waiting_pods_that_fit_cost_no_thousand_searches(void **state)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list one, many;
	struct ledger ledger;
	int64_t again, search_ns, began;

	open_large_ledger(&ledger);
	requeue_list_init(&one);
	requeue_list_init(&many);
	add_waiting(&one, &ledger, 1, 11);
	began = cpu_ns();
	assert_int_equal(look(&one, &ledger, 0, pods, &again), 0);
	search_ns = cpu_ns() - began;
	add_waiting(&many, &ledger, MANY_PODS, 9);
	began = cpu_ns();
	assert_int_equal(look(&many, &ledger, 0, pods, &again), REQUEUES_PER_LOOK);
	assert_true(cpu_ns() - began < 30 * search_ns);
	requeue_list_release(&one);
	requeue_list_release(&many);
	ledger_release(&ledger);
}

/* Share nodes promise no computing power, so nothing will ever free a place for these. */
static void a_thousand_pods_that_wait_for_computing_power_cost_no_thousand_searches(void **state)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list one, many;
	struct ledger ledger;
	int64_t again, search_ns, began;

	open_large_ledger(&ledger);
	requeue_list_init(&one);
	requeue_list_init(&many);
	add_waiting(&one, &ledger, 1, 11);
	began = cpu_ns();
	assert_int_equal(look(&one, &ledger, 0, pods, &again), 0);
	search_ns = cpu_ns() - began;
	for (size_t i = 0; i < MANY_PODS; i++) {
		_cleanup_pod_facts_ struct pod_facts pod;
		char uid[24];

		snprintf(uid, sizeof(uid), "core-%zu", i);
		fixture_pod(&pod, uid, 2, "");
		pod.request.core = pod.request.containers[0].core = 5 + i % 20 * 5;
		assert_int_equal(requeue_list_rejected(&many, &pod, &ledger, 0), 0);
	}
	ledger.generation++;
	began = cpu_ns();
	assert_int_equal(look(&many, &ledger, 0, pods, &again), 0);
	assert_true(cpu_ns() - began < 30 * search_ns);
	add_waiting(&many, &ledger, 1, 2); /* without it there is room */
	assert_int_equal(look(&many, &ledger, 0, pods, &again), 1);
	requeue_list_release(&one);
	requeue_list_release(&many);
	ledger_release(&ledger);
}

static void a_requeue_that_did_not_arrive_is_tried_again_soon(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&pod, "a", 9, "");
	assert_int_equal(requeue_list_found_waiting(&list, &pod, 0), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(look(&list, &ledger, i * NS_PER_S, pods, &again), 1);
		requeue_list_failed(&list, "a", i * NS_PER_S);
		assert_int_equal(look(&list, &ledger, i * NS_PER_S, pods, &again), 0);
		assert_true(again == NS_PER_S);
	}
	requeue_list_failed(&list, "unknown", 0);
	requeue_list_release(&list);
	ledger_release(&ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bind_takes_the_gpu_that_filter_held),
		cmocka_unit_test(bind_takes_another_gpu_when_the_held_one_was_taken_by_another_replica),
		cmocka_unit_test(reserve_without_room_changes_nothing),
		cmocka_unit_test(a_hold_that_cannot_be_reserved_ends),
		cmocka_unit_test(only_a_clear_refusal_ends_a_reservation),
		cmocka_unit_test(a_hold_of_a_pod_that_the_watch_never_shows_ends_after_ten_seconds),
		cmocka_unit_test(a_freed_gpu_wakes_the_most_important_pod_first),
		cmocka_unit_test(a_hold_of_a_pod_that_the_watch_never_shows_ends_after_ten_seconds),
		cmocka_unit_test(a_freed_gpu_wakes_the_pod_that_it_is_kept_for_and_no_other),
		cmocka_unit_test(a_place_for_one_container_wakes_the_pod_that_has_one),
		cmocka_unit_test(a_pod_found_waiting_at_the_start_is_woken_three_times_at_most),
		cmocka_unit_test(a_waiting_pod_that_nobody_knows_is_forgotten_after_ten_seconds),
		cmocka_unit_test(a_thousand_waiting_pods_that_fit_cost_no_thousand_searches),
		cmocka_unit_test(a_thousand_pods_that_wait_for_computing_power_cost_no_thousand_searches),
		cmocka_unit_test(a_requeue_that_did_not_arrive_is_tried_again_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
