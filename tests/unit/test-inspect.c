#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "cli/inspect.h"
#include "cli/printable.h"
#include "model-fixture.h"
#include "model/units.h"

static const struct node_capacity no_capacity = {0};

static void add_node(struct inspect *inspect, const char *name, size_t n_gpus, const uint32_t *units)
{
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, n_gpus, units);
	assert_int_equal(inspect_add_node(inspect, &facts, &no_capacity), 0);
}

static void add_pod(struct inspect *inspect, const char *uid, uint32_t units, const char *node,
	const char *uuid, const struct older_placement *older)
{
	_cleanup_pod_facts_ struct pod_facts facts = {0};

	fixture_pod(&facts, uid, units, "");
	fixture_bind(&facts, node, uuid);
	assert_int_equal(inspect_add_pod(inspect, &facts, older), 0);
}

static void inspect_counts_each_gpu_with_its_own_size(void **state)
{
	_cleanup_inspect_ struct inspect inspect;

	inspect_init(&inspect);
	add_node(&inspect, "n", 2, (const uint32_t[]){15, 79});
	add_pod(&inspect, "a", 3, "n", "GPU-n-1", NULL);
	add_pod(&inspect, "b", 4, "n", "GPU-n-1", NULL);
	assert_int_equal(inspect_finish(&inspect), 0);
	assert_int_equal(inspect.n_nodes, 1);
	assert_int_equal(inspect.nodes[0]->total, 94);
	assert_int_equal(inspect.nodes[0]->allocated, 7);
	assert_int_equal(inspect.nodes[0]->gpus[0].allocated, 0);
	assert_int_equal(inspect.nodes[0]->gpus[1].allocated, 7);
	assert_false(inspect_has_pending(&inspect));
}

static void inspect_amount_is_the_effective_request(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_pod_facts_ struct pod_facts facts = {0};

	inspect_init(&inspect);
	add_node(&inspect, "n", 1, (const uint32_t[]){15});
	fixture_pod(&facts, "p", 2, "");
	request_add(&facts.request, "side", CONTAINER_SIDECAR, 0, "1", NULL, NULL);
	request_add(&facts.request, "init", CONTAINER_INIT, 1, "5", NULL, NULL);
	fixture_bind(&facts, "n", "GPU-n-0");
	assert_int_equal(inspect_add_pod(&inspect, &facts, NULL), 0);
	/* 1 of the sidecar and 5 of the init container after it */
	assert_int_equal(inspect.nodes[0]->gpus[0].allocated, 6);
}

static void inspect_pod_without_a_known_gpu_is_pending(void **state)
{
	struct older_placement older = {.units = {[1] = 3}};
	_cleanup_inspect_ struct inspect inspect;

	inspect_init(&inspect);
	add_node(&inspect, "n", 1, (const uint32_t[]){15});
	add_pod(&inspect, "none", 1, "n", NULL, NULL);
	add_pod(&inspect, "gone", 2, "n", "GPU-gone", NULL);
	add_pod(&inspect, "old", 3, "n", NULL, &older);
	assert_int_equal(inspect.nodes[0]->pending, 6);
	assert_int_equal(inspect.nodes[0]->allocated, 6);
	assert_int_equal(inspect.nodes[0]->gpus[0].allocated, 0);
	assert_true(inspect_has_pending(&inspect));
}

static void inspect_believes_our_placement_before_the_older_one(void **state)
{
	struct older_placement older = {.units = {[0] = 3}};
	_cleanup_inspect_ struct inspect inspect;

	inspect_init(&inspect);
	add_node(&inspect, "n", 2, (const uint32_t[]){15, 15});
	add_pod(&inspect, "p", 3, "n", "GPU-n-1", &older);
	add_pod(&inspect, "q", 3, "n", "GPU-gone", &older);
	assert_int_equal(inspect.nodes[0]->gpus[0].allocated, 0);
	assert_int_equal(inspect.nodes[0]->gpus[1].allocated, 3);
	assert_int_equal(inspect.nodes[0]->pending, 3);
}

static void inspect_leaves_out_pods_of_other_nodes_finished_ones_and_those_without_request(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_pod_facts_ struct pod_facts facts = {0};

	inspect_init(&inspect);
	add_node(&inspect, "n", 1, (const uint32_t[]){15});
	add_pod(&inspect, "elsewhere", 3, "m", NULL, NULL);
	add_pod(&inspect, "waiting", 3, "", NULL, NULL);
	add_pod(&inspect, "nothing", 0, "n", NULL, NULL);
	fixture_pod(&facts, "done", 3, "");
	fixture_bind(&facts, "n", "GPU-n-0");
	facts.finished = true;
	assert_int_equal(inspect_add_pod(&inspect, &facts, NULL), 0);
	assert_int_equal(inspect.nodes[0]->n_pods, 0);
	assert_int_equal(inspect.nodes[0]->allocated, 0);
}

static size_t listed(enum gpu_mode mode, size_t n_gpus, int64_t gpu_mem)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_node_facts_ struct node_facts facts;

	inspect_init(&inspect);
	fixture_node(&facts, "n", GPU_POLICY_BINPACK, n_gpus, (const uint32_t[]){15});
	facts.mode = mode;
	inspect_add_node(&inspect, &facts, &(struct node_capacity){.gpu_mem = gpu_mem, .gpu_count = 1});
	inspect_add_node(&inspect, &facts, &(struct node_capacity){.gpu_mem = gpu_mem, .gpu_count = 1});
	return inspect.n_nodes;
}

static void inspect_lists_nodes_that_share_memory_once(void **state)
{
	assert_int_equal(listed(GPU_MODE_SHARE, 1, 0), 1);
	assert_int_equal(listed(GPU_MODE_CORE_MEM, 1, 0), 1);
	assert_int_equal(listed(GPU_MODE_TOPOLOGY, 1, 0), 0);
	assert_int_equal(listed(GPU_MODE_NONE, 1, 0), 0);
	assert_int_equal(listed(GPU_MODE_NONE, 0, 15), 1);
	assert_int_equal(listed(GPU_MODE_NONE, 0, 0), 0);
	assert_int_equal(listed(GPU_MODE_NONE, 0, -3), 0);
}

static void inspect_sorts_nodes_by_name_and_pods_by_gpu_namespace_and_name(void **state)
{
	_cleanup_inspect_ struct inspect inspect;

	inspect_init(&inspect);
	add_node(&inspect, "b", 2, (const uint32_t[]){15, 15});
	add_node(&inspect, "a", 1, (const uint32_t[]){15});
	add_pod(&inspect, "pending", 1, "b", NULL, NULL);
	add_pod(&inspect, "z", 1, "b", "GPU-b-0", NULL);
	add_pod(&inspect, "k", 1, "b", "GPU-b-1", NULL);
	add_pod(&inspect, "y", 1, "b", "GPU-b-0", NULL);
	assert_int_equal(inspect_finish(&inspect), 0);
	assert_string_equal(inspect.nodes[0]->name, "a");
	assert_string_equal(inspect.nodes[1]->pods[0].name, "y");
	assert_string_equal(inspect.nodes[1]->pods[1].name, "z");
	assert_string_equal(inspect.nodes[1]->pods[2].name, "k");
	assert_string_equal(inspect.nodes[1]->pods[3].name, "pending");
}

static void percent_is_truncated_and_survives_large_numbers(void **state)
{
	assert_int_equal(percent_of(3, 15), 20);
	assert_int_equal(percent_of(8, 15), 53);
	assert_int_equal(percent_of(29, 100), 29);
	assert_int_equal(percent_of(199, 200), 99);
	assert_int_equal(percent_of(0, 0), 0);
	assert_int_equal(percent_of(7, 0), 0);
	assert_true(percent_of(UINT64_MAX, UINT64_MAX) == 100);
}

static void unit_is_named_by_its_size_or_units_where_nodes_differ(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	char buf[32];

	inspect_init(&inspect);
	assert_string_equal(inspect_unit_text(&inspect, buf, sizeof(buf)), "GiB");
	add_node(&inspect, "a", 1, (const uint32_t[]){15});
	add_node(&inspect, "b", 1, (const uint32_t[]){15});
	assert_string_equal(inspect_unit_text(&inspect, buf, sizeof(buf)), "GiB");
	inspect.nodes[1]->unit_mib = 128;
	assert_string_equal(inspect_unit_text(&inspect, buf, sizeof(buf)), "units");
	inspect.nodes[0]->unit_mib = 128;
	assert_string_equal(inspect_unit_text(&inspect, buf, sizeof(buf)), "128MiB");
}

static void printable_disarms_what_a_terminal_would_obey(void **state)
{
	char text[] = "a\x1b[2J\tb\x7f\xc2\x9b~";

	assert_string_equal(printable(text), "a?[2J?b???~");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inspect_counts_each_gpu_with_its_own_size),
		cmocka_unit_test(inspect_amount_is_the_effective_request),
		cmocka_unit_test(inspect_pod_without_a_known_gpu_is_pending),
		cmocka_unit_test(inspect_believes_our_placement_before_the_older_one),
		cmocka_unit_test(
			inspect_leaves_out_pods_of_other_nodes_finished_ones_and_those_without_request),
		cmocka_unit_test(inspect_lists_nodes_that_share_memory_once),
		cmocka_unit_test(inspect_sorts_nodes_by_name_and_pods_by_gpu_namespace_and_name),
		cmocka_unit_test(percent_is_truncated_and_survives_large_numbers),
		cmocka_unit_test(unit_is_named_by_its_size_or_units_where_nodes_differ),
		cmocka_unit_test(printable_disarms_what_a_terminal_would_obey),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
