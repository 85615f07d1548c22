/* Which nodes take a pod by its memory unit, and none while they change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/placement/decide.h"
#include "core/registry/node-ledger.h"
#include "model-fixture.h"

struct world {
	struct ledger ledger;
	struct node_facts node; /* "n", two GPUs of 16384 MiB */
};

static int world_setup(void **state)
{
	static struct world w;

	ledger_init(&w.ledger);
	fixture_node(&w.node, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){16, 16});
	assert_int_equal(w.node.unit_mib, 1024);
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	*state = &w;
	return 0;
}

static int world_teardown(void **state)
{
	struct world *w = *state;

	assert_int_equal(ledger_check(&w->ledger, NULL), 0);
	assert_int_equal(ledger_node(&w->ledger, "n") ? ledger_node(&w->ledger, "n")->recounts : 0, 0);
	node_facts_release(&w->node);
	ledger_release(&w->ledger);
	return 0;
}

static void set_node(struct world *w)
{
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

static const struct node_ledger *node(const struct world *w)
{
	return ledger_node(&w->ledger, "n");
}

/* stamp 0: none. */
static enum reject_reason reject_reason_of(struct world *w, uint32_t units, uint32_t stamp)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "asking", units, "");
	pod.request.unit_mib = stamp;
	return ledger_choose(&w->ledger, "n", &pod, NULL);
}

static void occupy(struct world *w, const char *uid, uint32_t units, const char *uuid)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, uid, units, "");
	fixture_bind(&pod, "n", uuid);
	assert_int_equal(pod.placement.unit_mib, 1024);
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

static void pod_with_the_stamp_of_another_unit_does_not_fit(void **state)
{
	struct world *w = *state;
	struct request request = {0};
	char text[64];

	assert_int_equal(reject_reason_of(w, 4, 128), REJECT_UNIT);
	assert_int_equal(reject_reason_of(w, 4, UNIT_MIB_NONE), REJECT_UNIT);
	assert_int_equal(reject_reason_of(w, 4, 1024), FITS);
	assert_string_equal(
		reject_reason_text(REJECT_UNIT, &request, text, sizeof(text)), "GPU memory unit differs");
	assert_false(reject_reason_is_occupancy(REJECT_UNIT));
}

/* Contract 2: "a pod without a stamp takes the unit of the node it is bound to". */
static void pod_without_a_stamp_fits_any_unit(void **state)
{
	struct world *w = *state;

	assert_int_equal(reject_reason_of(w, 16, 0), FITS);
	w->node.unit_mib = 128;
	set_node(w);
	assert_int_equal(reject_reason_of(w, 128, 0), FITS);
	assert_int_equal(reject_reason_of(w, 16, 128), FITS);
	assert_int_equal(reject_reason_of(w, 16, 1024), REJECT_UNIT);
}

static void node_that_changes_takes_no_new_pod_of_any_unit(void **state)
{
	struct world *w = *state;
	struct request request = {0};
	char text[64];

	w->node.changing = true;
	set_node(w);
	assert_int_equal(reject_reason_of(w, 1, 0), REJECT_CHANGING);
	assert_int_equal(reject_reason_of(w, 1, 1024), REJECT_CHANGING);
	assert_int_equal(reject_reason_of(w, 1, 128), REJECT_UNIT);
	assert_string_equal(reject_reason_text(REJECT_CHANGING, &request, text, sizeof(text)),
		"GPU node changes its mode");
	/* Nobody is evicted for a pod that could not go there anyway. */
	assert_false(reject_reason_is_occupancy(REJECT_CHANGING));
}

static void node_that_changes_no_more_takes_pods_again_and_wakes_them(void **state)
{
	struct world *w = *state;
	uint64_t before;

	w->node.changing = true;
	set_node(w);
	before = w->ledger.generation;
	w->node.changing = false;
	set_node(w);
	assert_true(w->ledger.generation > before);
	assert_int_equal(reject_reason_of(w, 16, 1024), FITS);
}

/* Filter held a GPU, then the label changed: the Binding must not be sent. */
static void hold_on_a_node_that_changes_ends(void **state)
{
	_cleanup_placement_ struct placement placement = {0};
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct world *w = *state;

	fixture_pod(&pod, "p", 4, "");
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_int_equal(decide_hold(&w->ledger, &pod, "n", 1), 0);
	assert_int_equal(node(w)->gpus[0].units_used, 4);
	w->node.changing = true;
	set_node(w);
	assert_int_equal(node(w)->gpus[0].units_used, 0);
	assert_int_equal(decide_reserve(&w->ledger, &pod, "n", &placement), REJECT_CHANGING);
	assert_int_equal(node(w)->gpus[0].units_used, 0);
}

static void reservation_and_pods_stay_on_a_node_that_changes(void **state)
{
	_cleanup_placement_ struct placement placement = {0};
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct world *w = *state;

	fixture_pod(&pod, "p", 4, "");
	assert_int_equal(decide_reserve(&w->ledger, &pod, "n", &placement), FITS);
	occupy(w, "q", 3, "GPU-n-0");
	w->node.changing = true;
	set_node(w);
	assert_int_equal(node(w)->gpus[0].units_used, 7);
	ledger_confirm(&w->ledger, "p");
	assert_int_equal(ledger_pod(&w->ledger, "p")->occupancy, OCCUPANCY_BOUND);
}

/* 3 GiB are 24 units of 128 MiB, and the kubelet gave 3 ids for them. */
static void pod_of_another_unit_counts_the_memory_that_it_has(void **state)
{
	struct world *w = *state;

	occupy(w, "p", 3, "GPU-n-0");
	w->node.unit_mib = 128;
	set_node(w);
	assert_int_equal(node(w)->gpus[0].units_used, 24);
	assert_int_equal(node(w)->gpus[0].units_total, 128);
	assert_int_equal(node_free_memory(node(w)), 232);
	assert_int_equal(reject_reason_of(w, 105, 128), FITS); /* on the other GPU */
	assert_int_equal(ledger_check(&w->ledger, NULL), 0);
	ledger_remove_pod(&w->ledger, "p");
	assert_int_equal(node(w)->gpus[0].units_used, 0);
	assert_int_equal(node_free_memory(node(w)), 256);
}

/* 3 units of 128 MiB are less than one of 1 GiB. */
static void parts_of_a_larger_unit_count_as_a_whole_one(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct world *w = *state;

	fixture_pod(&pod, "p", 3, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	pod.placement.unit_mib = 128;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_int_equal(node(w)->gpus[0].units_used, 1);
	ledger_remove_pod(&w->ledger, "p");
}

static void unplaced_pod_counts_by_its_stamp(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct world *w = *state;

	fixture_pod(&pod, "p", 16, "");
	pod.request.unit_mib = 128;
	free(pod.node);
	pod.node = strdup("n");
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_int_equal(node(w)->unplaced_units, 2);
	/* A stamp that changes under it does not change the sums behind their back. */
	pod.request.unit_mib = 1024;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_int_equal(ledger_check(&w->ledger, NULL), 0);
	ledger_remove_pod(&w->ledger, "p");
	assert_int_equal(node(w)->unplaced_units, 0);
}

static void stamp_that_comes_late_is_taken_while_the_pod_waits(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct world *w = *state;

	fixture_pod(&pod, "p", 4, "");
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	pod.request.unit_mib = 128;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_int_equal(ledger_pod(&w->ledger, "p")->facts.request.unit_mib, 128);
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(pod_with_the_stamp_of_another_unit_does_not_fit),
		test(pod_without_a_stamp_fits_any_unit),
		test(node_that_changes_takes_no_new_pod_of_any_unit),
		test(node_that_changes_no_more_takes_pods_again_and_wakes_them),
		test(hold_on_a_node_that_changes_ends),
		test(reservation_and_pods_stay_on_a_node_that_changes),
		test(pod_of_another_unit_counts_the_memory_that_it_has),
		test(parts_of_a_larger_unit_count_as_a_whole_one),
		test(unplaced_pod_counts_by_its_stamp),
		test(stamp_that_comes_late_is_taken_while_the_pod_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
