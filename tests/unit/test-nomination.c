/* GPUs that are kept for nominated pods. Node "n" has two GPUs of 15 units; "big" needs 10 and has priority
 * 1000; victims of 8 units still run on both GPUs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/registry/nomination.h"
#include "model-fixture.h"

struct world {
	struct ledger ledger;
	struct node_facts node;
};

static void show(struct world *w, const char *uid, uint32_t units, int32_t priority, const char *gpu)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, uid, units, "");
	pod.priority = priority;
	if (gpu)
		fixture_bind(&pod, "n", gpu);
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

static int nominate(struct world *w, const char *uid, uint32_t units, int32_t priority, const char *node,
	const char *gpu, int64_t expires_ns)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};

	fixture_pod(&pod, uid, units, "");
	pod.priority = priority;
	fixture_place(&placement, &pod.request, gpu);
	return ledger_nominate(&w->ledger, &pod, node, &placement, expires_ns);
}

/* The GPU that a pod would get now: 0, 1, or -1 if none. */
static int gpu_for(struct world *w, const char *uid, uint32_t units, int32_t priority)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	int r;

	fixture_pod(&pod, uid, units, "");
	pod.priority = priority;
	r = ledger_choose(&w->ledger, "n", &pod, &placement);
	assert_true(r >= 0);
	assert_int_equal(ledger_choose(&w->ledger, "n", &pod, NULL), r);
	assert_int_equal(ledger_check(&w->ledger, NULL), 0);
	return r == FITS ? placement.containers[0].gpus[0].uuid[strlen("GPU-n-")] - '0' : -1;
}

static int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	ledger_init(&w->ledger);
	fixture_node(&w->node, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	*state = w;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	show(w, "victim0", 8, 0, "GPU-n-0");
	show(w, "victim1", 8, 0, "GPU-n-1");
	show(w, "big", 10, 1000, NULL);
	assert_int_equal(nominate(w, "big", 10, 1000, "n", "GPU-n-0", NOMINATION_LASTS), 0);
	return 0;
}

static int world_teardown(void **state)
{
	struct world *w = *state;
	size_t wrong = ledger_check(&w->ledger, NULL);

	ledger_release(&w->ledger);
	node_facts_release(&w->node);
	free(w);
	return wrong ? -1 : 0;
}

static void a_small_pod_below_does_not_get_the_gpu_while_the_victim_runs(void **state)
{
	assert_int_equal(gpu_for(*state, "small", 7, 0), 1);
	assert_int_equal(gpu_for(*state, "small", 7, 999), 1);
}

static void a_small_pod_below_does_not_get_the_freed_gpu(void **state)
{
	struct world *w = *state;

	ledger_remove_pod(&w->ledger, "victim0");
	assert_int_equal(gpu_for(w, "small", 8, 0), -1);
	assert_int_equal(gpu_for(w, "small", 6, 0), 1); /* 15 - 10 = 5 on GPU 0, 15 - 8 = 7 on GPU 1 */
}

static void what_the_nominated_pod_leaves_is_for_everybody(void **state)
{
	struct world *w = *state;

	ledger_remove_pod(&w->ledger, "victim0");
	assert_int_equal(gpu_for(w, "small", 5, 0), 0);
}

static void the_nominated_pod_itself_gets_its_gpu_once_it_is_free(void **state)
{
	struct world *w = *state;

	assert_int_equal(gpu_for(w, "big", 10, 1000), -1);
	ledger_remove_pod(&w->ledger, "victim0");
	assert_int_equal(gpu_for(w, "big", 10, 1000), 0);
}

/* What would be written to the pod says in which unit it counts. */
static void a_pod_gets_a_placement_in_the_unit_that_its_node_counts_in(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};

	ledger_remove_pod(&w->ledger, "victim0");
	w->node.unit_mib = 128;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	fixture_pod(&pod, "big", 10, "");
	pod.priority = 1000;
	assert_int_equal(ledger_choose(&w->ledger, "n", &pod, &placement), FITS);
	assert_int_equal(placement.unit_mib, 128);
}

static void the_nominated_gpu_comes_before_a_fuller_one(void **state)
{
	struct world *w = *state;

	ledger_remove_pod(&w->ledger, "victim0");
	ledger_remove_pod(&w->ledger, "victim1");
	show(w, "old", 2, 0, "GPU-n-1"); /* binpack alone would take GPU 1 */
	assert_int_equal(gpu_for(w, "big", 10, 1000), 0);
	assert_int_equal(gpu_for(w, "other", 10, 1001), 1);
}

static void pods_above_pass_and_pods_of_equal_priority_do_not(void **state)
{
	struct world *w = *state;

	ledger_remove_pod(&w->ledger, "victim0");
	assert_int_equal(gpu_for(w, "above", 15, 1001), 0);
	assert_int_equal(gpu_for(w, "equal", 15, 1000), -1);
}

static void a_held_gpu_is_counted_once(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts big = {0};
	_cleanup_placement_ struct placement placement = {0};

	ledger_remove_pod(&w->ledger, "victim0");
	fixture_pod(&big, "big", 10, "");
	big.priority = 1000;
	fixture_place(&placement, &big.request, "GPU-n-0");
	assert_int_equal(ledger_hold(&w->ledger, &big, "n", &placement, 100), 0);
	assert_int_equal(gpu_for(w, "small", 5, 0), 0);
	/* ... and is kept after a failed bind. */
	assert_int_equal(ledger_reserve(&w->ledger, &big, "n", &placement), 0);
	ledger_release_reservation(&w->ledger, "big");
	assert_int_equal(gpu_for(w, "small", 8, 0), -1);
	assert_int_equal(gpu_for(w, "big", 10, 1000), 0);
}

static void it_ends_with_the_binding(void **state)
{
	struct world *w = *state;

	ledger_remove_pod(&w->ledger, "victim0");
	show(w, "big", 10, 1000, "GPU-n-0");
	assert_null(ledger_pod(&w->ledger, "big")->nomination);
	assert_int_equal(gpu_for(w, "small", 5, 0), 0);
	assert_int_equal(nominate(w, "big", 10, 1000, "n", "GPU-n-0", NOMINATION_LASTS), -EBUSY);
}

static void it_ends_with_the_confirmation_of_a_reservation(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts big = {0};
	_cleanup_placement_ struct placement placement = {0};

	ledger_remove_pod(&w->ledger, "victim0");
	fixture_pod(&big, "big", 10, "");
	fixture_place(&placement, &big.request, "GPU-n-0");
	assert_int_equal(ledger_reserve(&w->ledger, &big, "n", &placement), 0);
	ledger_confirm(&w->ledger, "big");
	assert_null(ledger_pod(&w->ledger, "big")->nomination);
}

static void it_ends_with_the_pod_and_wakes_the_others(void **state)
{
	struct world *w = *state;
	uint64_t before;

	ledger_remove_pod(&w->ledger, "victim0");
	before = w->ledger.generation;
	ledger_remove_pod(&w->ledger, "big");
	assert_true(w->ledger.generation > before);
	assert_int_equal(gpu_for(w, "small", 15, 0), 0);
	assert_true(list_empty(&w->ledger.nominations));
}

static void it_ends_by_time_and_by_word(void **state)
{
	struct world *w = *state;

	ledger_remove_pod(&w->ledger, "victim0");
	assert_int_equal(ledger_expire(&w->ledger, INT64_MAX - 1), 0);
	ledger_nomination_set_end(&w->ledger, "big", 500);
	assert_int_equal(ledger_expire(&w->ledger, 499), 0);
	assert_int_equal(gpu_for(w, "small", 8, 0), -1);
	assert_int_equal(ledger_expire(&w->ledger, 500), 1);
	assert_int_equal(gpu_for(w, "small", 8, 0), 0);
	ledger_drop_nomination(&w->ledger, "big");
	assert_non_null(ledger_pod(&w->ledger, "big"));
}

static void a_new_one_replaces_the_old_one(void **state)
{
	struct world *w = *state;

	assert_int_equal(nominate(w, "big", 10, 1000, "n", "GPU-n-1", 500), 0);
	ledger_remove_pod(&w->ledger, "victim0");
	ledger_remove_pod(&w->ledger, "victim1");
	assert_int_equal(gpu_for(w, "small", 15, 0), 0);
	assert_int_equal(gpu_for(w, "big", 10, 1000), 1);
	assert_int_equal(ledger_expire(&w->ledger, 500), 1);
	assert_true(list_empty(&w->ledger.nominations));
}

static void what_cannot_be_is_refused_and_the_old_one_stays(void **state)
{
	struct world *w = *state;

	assert_int_equal(nominate(w, "big", 10, 1000, "elsewhere", "GPU-n-1", 500), -ENOENT);
	assert_int_equal(nominate(w, "big", 0, 1000, "n", "GPU-n-1", 500), -EINVAL);
	assert_string_equal(
		ledger_pod(&w->ledger, "big")->nomination->shadow.placement.containers[0].gpus[0].uuid,
		"GPU-n-0");
}

static void a_pod_that_the_watch_never_showed_goes_with_its_nomination(void **state)
{
	struct world *w = *state;

	assert_int_equal(nominate(w, "new", 3, 2000, "n", "GPU-n-1", 500), 0);
	assert_non_null(ledger_pod(&w->ledger, "new"));
	ledger_expire(&w->ledger, 500);
	assert_null(ledger_pod(&w->ledger, "new"));
}

static void a_node_that_goes_takes_nothing_with_it_and_comes_back(void **state)
{
	struct world *w = *state;

	ledger_remove_pod(&w->ledger, "victim0");
	ledger_remove_pod(&w->ledger, "victim1");
	ledger_remove_node(&w->ledger, "n", "uid-n");
	assert_int_equal(gpu_for(w, "big", 10, 1000), -1);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(gpu_for(w, "small", 15, 0), 1);
	ledger_remove_node(&w->ledger, "n", "uid-n");
	ledger_drop_nomination(&w->ledger, "big");
	assert_null(ledger_node(&w->ledger, "n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_small_pod_below_does_not_get_the_gpu_while_the_victim_runs,
			world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			a_small_pod_below_does_not_get_the_freed_gpu, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			what_the_nominated_pod_leaves_is_for_everybody, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			the_nominated_pod_itself_gets_its_gpu_once_it_is_free, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(a_pod_gets_a_placement_in_the_unit_that_its_node_counts_in,
			world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			the_nominated_gpu_comes_before_a_fuller_one, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			pods_above_pass_and_pods_of_equal_priority_do_not, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(a_held_gpu_is_counted_once, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(it_ends_with_the_binding, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			it_ends_with_the_confirmation_of_a_reservation, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			it_ends_with_the_pod_and_wakes_the_others, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(it_ends_by_time_and_by_word, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(a_new_one_replaces_the_old_one, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			what_cannot_be_is_refused_and_the_old_one_stays, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(a_pod_that_the_watch_never_showed_goes_with_its_nomination,
			world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(
			a_node_that_goes_takes_nothing_with_it_and_comes_back, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
