#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/placement/node-order.h"

/* 12 CPUs and 48 GiB for a GPU. */
static const struct gpu_mean mean = {.host = {.cpu_milli = 12000, .memory_mib = 48 << 10}};

static struct node_room room(uint64_t cpus, uint64_t gib, uint32_t gpu_milli)
{
	return (struct node_room){cpus * 1000, gib << 10, gpu_milli};
}

/* A pod that takes a part of a GPU. What is lost in free parts stays the same. */
static int64_t cost_of_part(struct node_room before, uint64_t cpus, uint64_t gib, uint32_t gpu_milli)
{
	struct node_order_ask ask = {.before = before, .after = before, .gpus = 8, .wanted = 1};

	ask.after.cpu_milli -= cpus * 1000;
	ask.after.memory_mib -= gib << 10;
	ask.after.gpu_milli -= gpu_milli;
	return node_order_cost(&ask, &mean);
}

/* On a node with 8 GPUs, of which only the whole ones have anything free. */
static int64_t cost_of_whole(struct node_room before, uint32_t gpus)
{
	struct node_order_ask ask = {.before = before,
		.after = before,
		.gpus = 8,
		.whole = before.gpu_milli / 1000,
		.wanted = gpus};

	ask.after.cpu_milli -= (uint64_t)gpus * mean.host.cpu_milli;
	ask.after.memory_mib -= (uint64_t)gpus * mean.host.memory_mib;
	ask.after.gpu_milli -= gpus * 1000;
	return node_order_cost(&ask, &mean);
}

/* A pod begins a GPU of a node with 8, of which so many are entirely free. */
static int64_t cost_of_half_a_gpu(uint32_t whole, uint32_t node_scarcity)
{
	struct node_order_ask ask = {.before = room(96, 384, whole * 1000),
		.after = room(96, 384, whole * 1000 - 500),
		.gpus = 8,
		.whole = whole,
		.wanted = 1,
		.part_lost = node_order_part_lost(500),
		.node_scarcity = node_scarcity};

	return node_order_cost(&ask, &mean);
}

static void an_empty_node_costs_more_the_more_pods_need_one(void **state)
{
	int64_t cost = cost_of_half_a_gpu(8, 0);
	struct node_order_ask all = {.before = room(96, 384, 8000),
		.after = room(0, 0, 0),
		.gpus = 8,
		.whole = 8,
		.wanted = 8,
		.node_scarcity = 1000};

	(void)state;
	assert_int_equal(cost, 750000 + 500000 + 400000);
	assert_int_equal(cost_of_half_a_gpu(8, 1000) - cost, 1600000);
	assert_int_equal(cost_of_half_a_gpu(8, 500) - cost, 1600000 / 8);
	/* A node that is not empty any more costs nothing for it, nor does one that is taken as a whole. */
	assert_int_equal(cost_of_half_a_gpu(7, 1000), 650000 + 500000);
	assert_int_equal(node_order_cost(&all, &mean), 0);
}

/* What it costs that the pod is one without a GPU, on a node with 128 CPUs. */
static int64_t cost_without_a_gpu(
	struct node_room before, uint32_t gpus, uint64_t cpus, uint32_t node_scarcity)
{
	struct node_order_ask ask = {.before = before,
		.after = before,
		.gpus = gpus,
		.whole = before.gpu_milli / 1000,
		.node_scarcity = node_scarcity,
		.host_pod_cpu_milli = 128000};
	int64_t cost;

	ask.after.cpu_milli -= cpus * 1000;
	cost = node_order_cost(&ask, &mean);
	ask.host_pod_cpu_milli = 0;
	return cost - node_order_cost(&ask, &mean);
}

/* 32 of 128 CPUs are a quarter of the node, so of 2 of its 8 GPUs: 7 x 2 x 0.4, or x 2 where such nodes are
 * scarce. */
static void cpu_of_an_empty_node_costs_a_pod_without_a_gpu_its_part_of_the_gpus(void **state)
{
	(void)state;
	assert_int_equal(cost_without_a_gpu(room(128, 512, 8000), 8, 32, 0), 5600000);
	assert_int_equal(cost_without_a_gpu(room(128, 512, 8000), 8, 32, 1000), 28000000);
	assert_int_equal(cost_without_a_gpu(room(128, 512, 8000), 8, 0, 1000), 0);
	/* With less than half of its CPU left no pod for all its GPUs is expected there. */
	assert_int_equal(cost_without_a_gpu(room(64, 512, 8000), 8, 16, 0), 2800000);
	assert_int_equal(cost_without_a_gpu(room(63, 512, 8000), 8, 16, 0), 0);
	/* A GPU is in use, or a part of an unknown one. */
	assert_int_equal(cost_without_a_gpu(room(128, 512, 7000), 8, 32, 1000), 0);
	assert_int_equal(cost_without_a_gpu(room(128, 512, 7500), 8, 32, 1000), 0);
	/* One GPU, and none. */
	assert_int_equal(cost_without_a_gpu(room(128, 512, 1000), 1, 32, 1000), 0);
	assert_int_equal(cost_without_a_gpu(room(128, 512, 0), 0, 32, 1000), 0);
}

static void free_gpus_with_the_mean_behind_them_are_not_stranded(void **state)
{
	struct node_room one = room(12, 48, 1000), eight = room(96, 384, 8000);

	(void)state;
	assert_int_equal(node_order_stranded(&one, &mean), 0);
	assert_int_equal(node_order_stranded(&eight, &mean), 0);
}

static void without_cpu_or_without_memory_all_free_gpus_are_stranded(void **state)
{
	struct node_room no_cpu = room(0, 384, 2500), no_memory = room(96, 0, 2500);

	(void)state;
	assert_int_equal(node_order_stranded(&no_cpu, &mean), 2500000);
	assert_int_equal(node_order_stranded(&no_memory, &mean), 2500000);
}

/* What is missing counts by its third power, and of CPU and memory the scarcer one: half is missing of 2
 * GPUs. */
static void half_of_the_mean_strands_an_eighth(void **state)
{
	struct node_room half_cpu = room(12, 384, 2000), half_memory = room(24, 48, 2000);

	(void)state;
	assert_int_equal(node_order_stranded(&half_cpu, &mean), 250000);
	assert_int_equal(node_order_stranded(&half_memory, &mean), 250000);
}

/* A third is missing of 2 GPUs: a twenty-seventh of each. Where CPU or memory is short in the whole cluster
 * it is a third, and half-way there the mean of both. */
static void what_is_missing_counts_in_full_where_the_cluster_lacks_it(void **state)
{
	struct node_room node = room(16, 384, 2000);
	struct gpu_mean half = mean, whole = mean;

	(void)state;
	half.shortage = 20;
	whole.shortage = 40;
	assert_in_range(node_order_stranded(&node, &mean), 73900, 74100);
	assert_in_range(node_order_stranded(&node, &half), 370200, 370500);
	assert_int_equal(node_order_stranded(&node, &whole), 666667);
	whole.shortage = 1000;
	assert_int_equal(node_order_stranded(&node, &whole), 666667);
	node.cpu_milli = 24000;
	assert_int_equal(node_order_stranded(&node, &whole), 0);
}

static void an_unknown_mean_is_never_short(void **state)
{
	struct node_room nothing_left = room(0, 0, 8000);

	(void)state;
	assert_int_equal(node_order_stranded(&nothing_left, &(struct gpu_mean){0}), 0);
}

static void a_full_node_strands_nothing(void **state)
{
	struct node_room full = room(0, 0, 0);

	(void)state;
	assert_int_equal(node_order_stranded(&full, &mean), 0);
}

static void a_pod_for_cpu_goes_where_gpus_keep_theirs(void **state)
{
	struct node_room spare = room(40, 400, 1500), tight = room(18, 72, 1500);

	(void)state;
	assert_true(cost_of_part(spare, 12, 24, 0) < cost_of_part(tight, 12, 24, 0));
}

static void a_pod_that_needs_little_cpu_takes_gpus_that_have_little(void **state)
{
	struct node_room tight = room(4, 16, 1500), rich = room(18, 72, 1500);

	(void)state;
	assert_true(cost_of_part(tight, 1, 1, 500) < cost_of_part(rich, 1, 1, 500));
}

static void of_equal_nodes_the_fuller_one_is_taken(void **state)
{
	struct node_room fuller = room(48, 192, 1500), emptier = room(72, 288, 4500);

	(void)state;
	assert_true(cost_of_part(fuller, 3, 12, 500) < cost_of_part(emptier, 3, 12, 500));
}

/* A free GPU costs 0.1 while there is room, 1 in a full cluster, and 0.55 where half of the last 15 % is
 * used. */
static void the_fuller_node_counts_more_in_a_cluster_that_is_nearly_full(void **state)
{
	struct node_order_ask ask = {
		.before = room(96, 384, 3000), .after = room(84, 336, 2000), .gpus = 8, .wanted = 1};
	static const struct {
		uint32_t taken;
		int64_t cost;
	} cases[] = {{0, 200000}, {850, 200000}, {925, 1100000}, {1000, 2000000}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask.cluster_taken = cases[i].taken;
		assert_int_equal(node_order_cost(&ask, &mean), cases[i].cost);
	}
}

/* What is lost of a free part is largest where it is half of a GPU, and as much where more is free. */
static void a_free_part_loses_what_pods_of_any_size_cannot_use(void **state)
{
	(void)state;
	assert_int_equal(node_order_part_lost(0), 0);
	assert_int_equal(node_order_part_lost(1000), 0);
	assert_int_equal(node_order_part_lost(500), 250000);
	assert_int_equal(node_order_part_lost(100), 90000);
	assert_int_equal(node_order_part_lost(300), 210000);
	assert_int_equal(node_order_part_lost(900), 250000);
}

/* To begin a GPU for a half loses twice a quarter of it. A pod that fills a GPU gains what was lost. */
static void a_part_goes_where_it_fills_a_gpu(void **state)
{
	struct node_room before = room(96, 384, 2500);
	struct node_order_ask begins = {.before = before,
		.after = room(96, 384, 2000),
		.gpus = 8,
		.wanted = 1,
		.part_lost = node_order_part_lost(500)};
	struct node_order_ask fills = begins, leaves = begins;

	(void)state;
	fills.part_lost = -node_order_part_lost(500);
	leaves.part_lost = node_order_part_lost(300) - node_order_part_lost(800);
	assert_int_equal(node_order_cost(&begins, &mean), 200000 + 500000);
	assert_int_equal(node_order_cost(&fills, &mean), 200000 - 500000);
	assert_int_equal(node_order_cost(&leaves, &mean), 200000 + 2 * (210000 - 250000));
}

static void one_gpu_is_not_taken_from_an_empty_node(void **state)
{
	struct node_room empty = room(96, 384, 8000), begun = room(84, 336, 7000);

	(void)state;
	assert_int_equal(cost_of_whole(empty, 1), 700000 + 400000);
	assert_int_equal(cost_of_whole(begun, 1), 600000);
	assert_int_equal(cost_of_whole(empty, 8), 0); /* nothing is left: nothing is spoilt */
}

/* A pod for any model keeps off a model that half of its GPUs' worth of pods needs: 1.5 x 0.5 for its GPU. */
static void a_model_that_others_need_costs_more(void **state)
{
	struct node_order_ask ask = {.before = room(24, 96, 2000),
		.after = room(12, 48, 1000),
		.gpus = 2,
		.whole = 2,
		.wanted = 1,
		.scarcity = 500};
	int64_t scarce = node_order_cost(&ask, &mean);

	(void)state;
	ask.scarcity = 0;
	assert_int_equal(scarce - node_order_cost(&ask, &mean), 750000);
}

static void numbers_beyond_any_machine_do_not_overflow(void **state)
{
	struct node_room huge = {
		.cpu_milli = UINT64_MAX / 20000, .memory_mib = UINT64_MAX / 20000, .gpu_milli = UINT32_MAX};
	struct node_room none = {.gpu_milli = UINT32_MAX};

	(void)state;
	assert_int_equal(node_order_stranded(&huge, &mean), 0);
	assert_true(node_order_stranded(&none, &mean) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_gpus_with_the_mean_behind_them_are_not_stranded),
		cmocka_unit_test(cpu_of_an_empty_node_costs_a_pod_without_a_gpu_its_part_of_the_gpus),
		cmocka_unit_test(an_empty_node_costs_more_the_more_pods_need_one),
		cmocka_unit_test(without_cpu_or_without_memory_all_free_gpus_are_stranded),
		cmocka_unit_test(half_of_the_mean_strands_an_eighth),
		cmocka_unit_test(what_is_missing_counts_in_full_where_the_cluster_lacks_it),
		cmocka_unit_test(an_unknown_mean_is_never_short),
		cmocka_unit_test(a_full_node_strands_nothing),
		cmocka_unit_test(a_pod_for_cpu_goes_where_gpus_keep_theirs),
		cmocka_unit_test(a_pod_that_needs_little_cpu_takes_gpus_that_have_little),
		cmocka_unit_test(of_equal_nodes_the_fuller_one_is_taken),
		cmocka_unit_test(the_fuller_node_counts_more_in_a_cluster_that_is_nearly_full),
		cmocka_unit_test(a_free_part_loses_what_pods_of_any_size_cannot_use),
		cmocka_unit_test(a_part_goes_where_it_fills_a_gpu),
		cmocka_unit_test(one_gpu_is_not_taken_from_an_empty_node),
		cmocka_unit_test(a_model_that_others_need_costs_more),
		cmocka_unit_test(numbers_beyond_any_machine_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
