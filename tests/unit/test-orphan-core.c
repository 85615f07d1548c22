/* What a node still holds of a pod that is gone counts with its computing power. */
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
#include "core/events.h"
#include "model-fixture.h"

static void say(struct node_facts *node, const char *at, uint32_t units, uint32_t core)
{
	struct held_pod *pod;

	held_release(&node->held);
	snprintf(node->held.at, sizeof(node->held.at), "%s", at);
	node->held.names_ended = true;
	assert_int_equal(held_add_pod(&node->held, "gone", "default", "gone", &pod), 0);
	assert_int_equal(held_pod_add_gpu(pod, "GPU-n-0", units, core), 0);
}

/* A pod without a percentage may not come beside one that has one, and the other way round. */
static void an_orphan_is_of_the_kind_that_its_pod_was(void **state)
{
	static const uint32_t cores[] = {0, 30};

	for (size_t i = 0; i < 2; i++) {
		_cleanup_node_facts_ struct node_facts facts;
		const struct node_ledger *node;
		struct ledger ledger;

		ledger_init(&ledger);
		fixture_node(&facts, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){8});
		facts.mode = GPU_MODE_CORE_MEM;
		say(&facts, "1", 3, cores[i]);
		assert_int_equal(ledger_set_node(&ledger, &facts), 0);
		node = ledger_node(&ledger, "n");
		assert_int_equal(node->gpus[0].units_used, 3);
		assert_int_equal(node->gpus[0].core_used, cores[i]);
		assert_int_equal(node->with_core, cores[i] > 0);
		assert_int_equal(node->without_core, cores[i] == 0);
		assert_int_equal(ledger_check(&ledger, NULL), 0);
		ledger_release(&ledger);
	}
}

/* It was bound, it ran, and it was deleted by force, and the watch of pods has shown nothing of that. The
 * node has told of it before the LIST tells that it is gone. */
static void a_pod_that_was_known_to_wait_counts_if_its_node_tells_that_it_runs(void **state)
{
	_cleanup_node_facts_ struct node_facts facts;
	_cleanup_pod_facts_ struct pod_facts pod;
	struct ledger ledger;

	ledger_init(&ledger);
	fixture_node(&facts, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){8});
	assert_int_equal(ledger_set_node(&ledger, &facts), 0);
	fixture_pod(&pod, "gone", 3, "");
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
	say(&facts, "1", 3, 0);
	assert_int_equal(ledger_set_node(&ledger, &facts), 0);
	ledger_delete_pod(&ledger, "gone", 100);
	assert_int_equal(ledger_node(&ledger, "n")->gpus[0].units_used, 3);
	assert_int_equal(ledger_pod(&ledger, "gone")->occupancy, OCCUPANCY_ORPHAN);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_release(&ledger);
}

/* The LIST of pods has come, that of nodes has not, and the watch shows the pod once more. */
static void a_failed_pod_that_is_shown_between_the_first_lists_counts(void **state)
{
	_cleanup_node_facts_ struct node_facts facts;
	_cleanup_pod_facts_ struct pod_facts pod;
	struct core core;

	core_init(&core, NULL);
	fixture_pod(&pod, "gone", 3, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	pod.finished = pod.running = true;
	assert_int_equal(core_see_pod(&core, &pod, 0, 1), 0);
	core_pods_are_listed(&core, 2);
	assert_int_equal(core_see_pod(&core, &pod, 0, 3), 0);
	fixture_node(&facts, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){8});
	assert_int_equal(core_see_node(&core, &facts), 0);
	core_nodes_are_listed(&core, 4);
	assert_int_equal(ledger_node(&core.ledger, "n")->gpus[0].units_used, 3);
	core_release(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_orphan_is_of_the_kind_that_its_pod_was),
		cmocka_unit_test(a_pod_that_was_known_to_wait_counts_if_its_node_tells_that_it_runs),
		cmocka_unit_test(a_failed_pod_that_is_shown_between_the_first_lists_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
