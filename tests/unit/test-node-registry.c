/* What follows from the registry of a node: whether the node serves, and which resources it offers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent-fixture.h"
#include "node/registry.h"

/* One GPU of 4 units, and the mode in force. */
static struct node_registry *registry_of(enum gpu_mode mode)
{
	struct node_registry *node = malloc(sizeof(*node));
	struct gpu gpu = {.facts = {.mib = 4096, .healthy = true}};

	assert_non_null(node);
	strcpy(gpu.facts.uuid, UUID_0);
	node_registry_init(node, "n1");
	node->inventory.unit_mib = 1024;
	assert_true(inventory_update(&node->inventory, &gpu, 1));
	node->in_force = mode;
	node->settled = true;
	return node;
}

static void registry_free(struct node_registry *node)
{
	node_registry_release(node);
	free(node);
}

static void add_pod(struct node_registry *node, bool asks, bool finished)
{
	struct pod_facts facts;

	fixture_pod(&facts, "u1", "p1");
	if (asks)
		fixture_add(&facts, "c", CONTAINER_MAIN, 2, NULL);
	facts.finished = finished;
	assert_non_null(node_pods_put(&node->pods, &facts));
	pod_facts_release(&facts);
}

static void each_mode_offers_its_resources(void **state)
{
	static const struct {
		enum gpu_mode mode;
		bool units, core, gpus;
	} rows[] = {
		{GPU_MODE_NONE, false, false, false},
		{GPU_MODE_SHARE, true, false, false},
		{GPU_MODE_CGPU, true, false, false},
		{GPU_MODE_CORE_MEM, true, true, false},
		{GPU_MODE_TOPOLOGY, false, false, true},
		{GPU_MODE_DRA, false, false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_registry *node = registry_of(rows[i].mode);

		node_registry_decide(node, 0);
		assert_int_equal(node_registry_offers(node, IDS_OF_UNITS), rows[i].units);
		assert_int_equal(node_registry_offers(node, IDS_OF_CORE), rows[i].core);
		assert_int_equal(node_registry_offers(node, IDS_OF_GPUS), rows[i].gpus);
		registry_free(node);
	}
}

static void node_without_a_gpu_serves_nothing(void **state)
{
	struct node_registry *node = registry_of(GPU_MODE_SHARE);

	node->inventory.n_gpus = 0;
	node_registry_decide(node, 1);
	assert_false(node->serves);
	registry_free(node);
}

/* If the agent withdrew its devices, a kubelet that restarts would refuse the pods that hold them. */
static void node_that_cannot_isolate_goes_on_while_pods_may_hold_units(void **state)
{
	struct node_registry *node = registry_of(GPU_MODE_CGPU);

	strcpy(node->problems.isolation, "no shim");
	node_registry_decide(node, 0);
	assert_false(node->serves);
	node_registry_decide(node, 1); /* a pod that the API server has forgotten */
	assert_true(node->serves);
	node->settled = false; /* the pods are not known yet */
	node_registry_decide(node, 0);
	assert_true(node->serves);
	node->settled = true;
	add_pod(node, true, false);
	node_registry_decide(node, 0);
	assert_true(node->serves);
	add_pod(node, true, true); /* it has ended */
	node_registry_decide(node, 0);
	assert_false(node->serves);
	registry_free(node);
}

static void only_pods_that_ask_and_are_not_over_hold_the_mode(void **state)
{
	struct node_registry *node = registry_of(GPU_MODE_SHARE);

	add_pod(node, false, false);
	assert_int_equal(node_registry_count_holders(node), 0);
	assert_null(node_registry_holder(node));
	add_pod(node, true, false);
	assert_int_equal(node_registry_count_holders(node), 1);
	assert_string_equal(node_registry_holder(node)->name, "p1");
	add_pod(node, true, true);
	assert_int_equal(node_registry_count_holders(node), 0);
	registry_free(node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mode_offers_its_resources),
		cmocka_unit_test(node_without_a_gpu_serves_nothing),
		cmocka_unit_test(node_that_cannot_isolate_goes_on_while_pods_may_hold_units),
		cmocka_unit_test(only_pods_that_ask_and_are_not_over_hold_the_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
