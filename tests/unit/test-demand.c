#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/registry/demand.h"
#include "model/facts.h"

/* A GPU has 100 MiB here. */
#define GPU_MIB 100

struct nodes {
	struct demand demand;
	struct gpu_model *many, *few; /* 80 and 20 GPUs */
};

static struct gpu_supply gpus(uint64_t n)
{
	return (struct gpu_supply){n, n * GPU_MIB};
}

static void open_nodes(struct nodes *nodes)
{
	demand_init(&nodes->demand);
	assert_int_equal(demand_enter(&nodes->demand, "many", gpus(80), &nodes->many), 0);
	assert_int_equal(demand_enter(&nodes->demand, "few", gpus(20), &nodes->few), 0);
}

static void ask(struct demand *demand, struct pod_demand *pod, const char *names, uint32_t mib, uint32_t core)
{
	struct pod_facts facts = {.request = {.asked = mib, .core = core, .unit_mib = 1}};

	assert_int_equal(demand_name(demand, pod, names), 0);
	demand_set(demand, pod, &facts);
}

static void nothing_is_scarce_where_nothing_is_known(void **state)
{
	struct nodes nodes;
	struct pod_demand pod = {0};

	open_nodes(&nodes);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, NULL), 0);
	ask(&nodes.demand, &pod, NULL, 50 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.many), 0);
	demand_release(&nodes.demand);
}

/* A tenth of all that pods ask for is asked for on a fifth of all GPUs: half of it. */
static void a_part_of_what_is_asked_for_over_the_part_of_the_gpus(void **state)
{
	struct nodes nodes;
	struct pod_demand any = {0}, named = {0};

	open_nodes(&nodes);
	ask(&nodes.demand, &any, NULL, 36 * GPU_MIB, 0);
	ask(&nodes.demand, &named, "few", 4 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 500);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.many), 0);
	demand_remove(&nodes.demand, &any);
	demand_remove(&nodes.demand, &named);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 0);
	assert_int_equal(nodes.demand.choices.count, 0);
	demand_release(&nodes.demand);
}

/* In a cluster that is asked for as much as it has, 15 of 20 GPUs are three quarters. */
static void in_a_full_cluster_it_is_the_part_of_the_supply(void **state)
{
	struct nodes nodes;
	struct pod_demand any = {0}, named = {0};

	open_nodes(&nodes);
	ask(&nodes.demand, &any, NULL, 200 * GPU_MIB, 0);
	ask(&nodes.demand, &named, "few", 15 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 750);
	demand_release(&nodes.demand);
}

static void pods_that_ask_for_more_than_there_is_count_as_asking_for_all(void **state)
{
	struct pod_facts many = {.request = {.asked = UINT32_MAX, .whole = true}};
	struct nodes nodes;
	struct pod_demand any = {0}, named = {0}, whole = {0};

	open_nodes(&nodes);
	ask(&nodes.demand, &any, NULL, UINT32_MAX, 0);
	ask(&nodes.demand, &named, "few", UINT32_MAX, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 1000);
	assert_int_equal(demand_name(&nodes.demand, &whole, "few"), 0);
	demand_set(&nodes.demand, &whole, &many);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 1000);
	demand_remove(&nodes.demand, &whole);
	demand_remove(&nodes.demand, &any);
	ask(&nodes.demand, &named, "few", 1 * GPU_MIB, 0);
	/* One pod in an empty cluster would make them five times as scarce. */
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), SCARCITY_MAX);
	demand_release(&nodes.demand);
}

/* The 20 GPUs of a pod that can use 100 are a fifth of each model. */
static void several_models_count_in_proportion_to_their_gpus(void **state)
{
	struct nodes nodes;
	struct pod_demand any = {0}, named = {0};

	open_nodes(&nodes);
	ask(&nodes.demand, &any, NULL, 80 * GPU_MIB, 0);
	ask(&nodes.demand, &named, "few,many,unheard-of", 20 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 200);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.many), 200);
	demand_release(&nodes.demand);
}

/* 30 % of memory are less than 50 % of computing power. Whole GPUs are added. */
static void computing_power_and_whole_gpus_count(void **state)
{
	struct pod_facts facts = {.request = {.asked = 5, .whole = true}};
	struct nodes nodes;
	struct pod_demand any = {0}, named = {0}, whole = {0};

	open_nodes(&nodes);
	ask(&nodes.demand, &any, NULL, 200 * GPU_MIB, 0);
	ask(&nodes.demand, &named, "few", 6 * GPU_MIB, 1000);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 500);
	assert_int_equal(demand_name(&nodes.demand, &whole, "few"), 0);
	demand_set(&nodes.demand, &whole, &facts);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 750);
	facts.finished = true;
	demand_set(&nodes.demand, &whole, &facts);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 500);
	demand_release(&nodes.demand);
}

/* The 10 GPUs are half of 20, then a quarter of 40. */
static void more_gpus_are_less_scarce(void **state)
{
	struct nodes nodes;
	struct gpu_model *more;
	struct pod_demand any = {0}, named = {0};

	open_nodes(&nodes);
	ask(&nodes.demand, &any, NULL, 300 * GPU_MIB, 0);
	ask(&nodes.demand, &named, "few", 10 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 500);
	assert_int_equal(demand_enter(&nodes.demand, "few", gpus(20), &more), 0);
	assert_ptr_equal(more, nodes.few);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 250);
	demand_leave(&nodes.demand, more, gpus(20));
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 500);
	demand_release(&nodes.demand);
}

/* Names are compared as a whole: "few" is not "few-SHARED". */
static void a_node_may_have_two_names_for_its_model(void **state)
{
	struct nodes nodes;
	struct gpu_model *both, *other;
	struct pod_demand any = {0}, first = {0}, second = {0};

	open_nodes(&nodes);
	assert_int_equal(demand_enter(&nodes.demand, "A,few-SHARED", gpus(10), &both), 0);
	assert_int_equal(demand_enter(&nodes.demand, NULL, gpus(10), &other), 0);
	assert_null(other);
	ask(&nodes.demand, &any, NULL, 300 * GPU_MIB, 0);
	ask(&nodes.demand, &first, "A", 2 * GPU_MIB, 0);
	ask(&nodes.demand, &second, "few-SHARED", 1 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, both), 300);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 0);
	demand_release(&nodes.demand);
}

/* In either order of nodes and pods, and whatever was there before. */
static void equal_nodes_and_pods_have_equal_sums(void **state)
{
	struct nodes nodes;
	struct demand other;
	struct gpu_model *model, *gone;
	struct pod_demand a = {0}, b = {0}, c = {0}, p = {0}, q = {0};

	open_nodes(&nodes);
	ask(&nodes.demand, &a, "few", 3 * GPU_MIB, 20);
	ask(&nodes.demand, &b, "few,many", 7 * GPU_MIB, 0);
	demand_init(&other);
	assert_int_equal(demand_enter(&other, "gone", gpus(3), &gone), 0);
	ask(&other, &p, "few,many,gone", 2 * GPU_MIB, 50);
	ask(&other, &q, "few", 1 * GPU_MIB, 50);
	assert_int_equal(demand_enter(&other, "few", gpus(20), &model), 0);
	ask(&other, &c, NULL, 2 * GPU_MIB, 50);
	ask(&other, &q, "few", 3 * GPU_MIB, 20);
	demand_leave(&other, gone, gpus(3));
	assert_false(demand_equal(&nodes.demand, &other));
	assert_int_equal(demand_enter(&other, "many", gpus(80), &model), 0);
	ask(&other, &p, "few,many", 7 * GPU_MIB, 0);
	assert_false(demand_equal(&nodes.demand, &other));
	demand_remove(&other, &c);
	assert_true(demand_equal(&nodes.demand, &other));
	demand_release(&other);
	demand_release(&nodes.demand);
}

static void amounts_beyond_any_machine_do_not_overflow(void **state)
{
	struct pod_facts facts = {.request = {.asked = UINT32_MAX, .core = UINT32_MAX, .unit_mib = 1 << 20}};
	struct pod_facts none = {.request = {.asked = 5, .unit_mib = UNIT_MIB_NONE}};
	struct nodes nodes;
	struct pod_demand pods[100] = {0}, other = {0};

	open_nodes(&nodes);
	for (size_t i = 0; i < 100; i++) {
		assert_int_equal(demand_name(&nodes.demand, &pods[i], "few"), 0);
		demand_set(&nodes.demand, &pods[i], &facts);
	}
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 1000);
	demand_set(&nodes.demand, &other, &none); /* no node serves it */
	for (size_t i = 0; i < 100; i++)
		demand_remove(&nodes.demand, &pods[i]);
	assert_int_equal(nodes.demand.want.mib + nodes.demand.want.core, 0);
	demand_release(&nodes.demand);
}

/* Names as many lists as may count, each with the model "few". */
static void name_as_many_lists_as_count(
	struct demand *demand, struct pod_demand pods[DEMAND_CHOICES_MAX], size_t first, size_t n)
{
	char names[40];

	for (size_t i = first; i < n; i++) {
		snprintf(names, sizeof(names), "few,list-%zu", i);
		ask(demand, &pods[i], names, 1 * GPU_MIB, 0);
	}
}

/* The 128 lists ask for 1 of 20 GPUs each, and so for more than all 20 together: 6.4 times as much as one
 * that asks for all of them. All pods ask for 128 of 100 GPUs, which counts as all. */
static void no_model_is_scarce_while_pods_name_too_many_lists(void **state)
{
	struct pod_demand pods[DEMAND_CHOICES_MAX] = {0}, any = {0}, more = {0}, most = {0};
	struct gpu_model *later;
	struct nodes nodes;

	open_nodes(&nodes);
	ask(&nodes.demand, &any, NULL, 1000 * GPU_MIB, 0);
	name_as_many_lists_as_count(&nodes.demand, pods, 0, 4);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 200);
	name_as_many_lists_as_count(&nodes.demand, pods, 4, DEMAND_CHOICES_MAX);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), SCARCITY_MAX);

	ask(&nodes.demand, &more, "many", 1 * GPU_MIB, 0);
	ask(&nodes.demand, &most, "few,many", 1 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.many), 0);
	assert_int_equal(demand_enter(&nodes.demand, "list-5,list-7", gpus(10), &later), 0);
	ask(&nodes.demand, &pods[0], "few,list-0", 9 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, later), 0);
	demand_leave(&nodes.demand, later, gpus(10));
	ask(&nodes.demand, &pods[0], "few,list-0", 1 * GPU_MIB, 0);

	demand_remove(&nodes.demand, &most);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 0);
	demand_remove(&nodes.demand, &more);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), SCARCITY_MAX);
	for (size_t i = 4; i < DEMAND_CHOICES_MAX; i++)
		demand_remove(&nodes.demand, &pods[i]);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 200);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.many), 0);
	demand_release(&nodes.demand);
}

/* The history of one of them had more lists for a while, and its nodes came meanwhile. */
static void the_sums_are_the_same_after_too_many_lists(void **state)
{
	struct pod_demand pods[DEMAND_CHOICES_MAX] = {0}, others[DEMAND_CHOICES_MAX] = {0}, more = {0};
	struct gpu_model *many, *few;
	struct nodes nodes;
	struct demand other;

	demand_init(&other);
	name_as_many_lists_as_count(&other, others, 0, DEMAND_CHOICES_MAX);
	ask(&other, &more, "many", 3 * GPU_MIB, 0);
	assert_int_equal(demand_enter(&other, "few", gpus(20), &few), 0);
	assert_int_equal(demand_enter(&other, "many", gpus(80), &many), 0);
	open_nodes(&nodes);
	name_as_many_lists_as_count(&nodes.demand, pods, 0, DEMAND_CHOICES_MAX);
	assert_false(demand_equal(&nodes.demand, &other));
	assert_int_equal(demand_name(&other, &more, "few,list-0"), 0); /* one list less */
	demand_remove(&other, &more);
	assert_true(demand_equal(&nodes.demand, &other));
	ask(&nodes.demand, &more, "many", 3 * GPU_MIB, 0);
	demand_remove(&nodes.demand, &more);
	assert_true(demand_equal(&nodes.demand, &other));
	demand_release(&nodes.demand);
	demand_release(&other);
}

static void ask_whole(struct demand *demand, struct pod_demand *pod, uint32_t n)
{
	struct pod_facts facts = {.request = {.asked = n, .whole = true}};

	demand_set(demand, pod, &facts);
}

/* Nodes of 8 GPUs have 80 of 100. */
static void nodes_are_scarce_as_far_as_pods_for_most_of_a_node_ask_for_them(void **state)
{
	struct pod_demand any = {0}, one = {0}, half = {0}, most = {0}, all[2] = {{0}}, large = {0};
	struct gpu_model *ignored;
	struct demand demand;

	(void)state;
	demand_init(&demand);
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(demand_enter(&demand, NULL, gpus(8), &ignored), 0);
		assert_int_equal(demand_enter(&demand, NULL, gpus(2), &ignored), 0);
	}
	assert_int_equal(demand_node_scarcity(&demand, NULL, 8), 0);
	ask(&demand, &any, NULL, 10 * GPU_MIB, 0);
	ask_whole(&demand, &one, 1);
	ask_whole(&demand, &half, 4);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 8), 0);
	/* 20 of 35 GPUs are asked for by pods that need most of a node; 4 / 7 over 4 / 5. */
	ask_whole(&demand, &most, 5);
	ask_whole(&demand, &all[0], 8);
	ask_whole(&demand, &all[1], 7);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 8), 714);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 2), 0);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 1), 0);
	assert_int_equal(demand_node_scarcity(&demand, NULL, NODE_GPUS_MAX), 0);
	/* A pod that no node can hold needs none of these. Without the pods that can use any GPU, no more
	 * than all of them is scarce. */
	ask_whole(&demand, &large, 16);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 8), 490);
	demand_remove(&demand, &large);
	demand_remove(&demand, &any);
	demand_remove(&demand, &one);
	demand_remove(&demand, &half);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 8), NODE_SCARCITY_MAX);
	demand_remove(&demand, &most);
	demand_remove(&demand, &all[0]);
	demand_remove(&demand, &all[1]);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 8), 0);
	demand_release(&demand);
}

/* In a cluster that is asked for more GPUs than it has, the part of the nodes that are asked for counts. */
static void nodes_that_pods_ask_for_twice_are_entirely_scarce(void **state)
{
	struct pod_demand pods[4] = {{0}}, any = {0};
	struct gpu_model *ignored;
	struct demand demand;

	(void)state;
	demand_init(&demand);
	assert_int_equal(demand_enter(&demand, NULL, gpus(8), &ignored), 0);
	assert_int_equal(demand_enter(&demand, NULL, gpus(8), &ignored), 0);
	ask(&demand, &any, NULL, 16 * GPU_MIB, 0);
	ask_whole(&demand, &pods[0], 8);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 8), 500);
	/* For the pods themselves: 8 of 8 GPUs, and none of 16. */
	assert_int_equal(demand_node_scarcity(&demand, &any, 8), NODE_SCARCITY_MAX);
	assert_int_equal(demand_node_scarcity(&demand, &pods[0], 8), 0);
	for (size_t i = 1; i < 4; i++)
		ask_whole(&demand, &pods[i], 8);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 8), NODE_SCARCITY_MAX);
	demand_release(&demand);
}

/* Of all GPUs, less than a millionth is asked for. */
static void the_smallest_pod_in_a_huge_cluster_divides_by_nothing(void **state)
{
	struct pod_facts facts = {.request = {.asked = 1, .units = 1, .gpus = 2, .unit_mib = 1}};
	struct gpu_model *ignored;
	struct pod_demand pod = {0};
	struct demand demand;

	(void)state;
	demand_init(&demand);
	assert_int_equal(demand_enter(&demand, NULL, (struct gpu_supply){2, 1000000}, &ignored), 0);
	assert_int_equal(demand_enter(&demand, NULL, (struct gpu_supply){8, 1000000}, &ignored), 0);
	demand_set(&demand, &pod, &facts);
	assert_int_equal(demand_node_scarcity(&demand, NULL, 2), NODE_SCARCITY_MAX);
	demand_release(&demand);
}

/* Its request is left out of both parts. */
static void the_pod_that_is_placed_does_not_count_for_a_model(void **state)
{
	struct nodes nodes;
	struct pod_demand any = {0}, named[2] = {{0}}, either = {0};

	(void)state;
	open_nodes(&nodes);
	ask(&nodes.demand, &any, NULL, 10 * GPU_MIB, 0);
	ask(&nodes.demand, &named[0], "few", 4 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, &named[0], nodes.few), 0);
	ask(&nodes.demand, &named[1], "few", 6 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 2000);
	ask(&nodes.demand, &any, NULL, 90 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, NULL, nodes.few), 500);
	/* 10 of 10, 6 of 96 and 4 of 94. */
	assert_int_equal(demand_scarcity(&nodes.demand, &any, nodes.few), SCARCITY_MAX);
	assert_int_equal(demand_scarcity(&nodes.demand, &named[0], nodes.few), 1000 * 6 * 5 / 96);
	assert_int_equal(demand_scarcity(&nodes.demand, &named[1], nodes.few), 1000 * 4 * 5 / 94);
	/* A pod that can use either model leaves both as they were without it. */
	ask(&nodes.demand, &either, "few,many", 50 * GPU_MIB, 0);
	assert_int_equal(demand_scarcity(&nodes.demand, &either, nodes.few), 500);
	assert_int_equal(demand_scarcity(&nodes.demand, &either, nodes.many), 0);
	demand_release(&nodes.demand);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_scarce_where_nothing_is_known),
		cmocka_unit_test(a_part_of_what_is_asked_for_over_the_part_of_the_gpus),
		cmocka_unit_test(in_a_full_cluster_it_is_the_part_of_the_supply),
		cmocka_unit_test(pods_that_ask_for_more_than_there_is_count_as_asking_for_all),
		cmocka_unit_test(several_models_count_in_proportion_to_their_gpus),
		cmocka_unit_test(computing_power_and_whole_gpus_count),
		cmocka_unit_test(more_gpus_are_less_scarce),
		cmocka_unit_test(a_node_may_have_two_names_for_its_model),
		cmocka_unit_test(equal_nodes_and_pods_have_equal_sums),
		cmocka_unit_test(amounts_beyond_any_machine_do_not_overflow),
		cmocka_unit_test(no_model_is_scarce_while_pods_name_too_many_lists),
		cmocka_unit_test(the_sums_are_the_same_after_too_many_lists),
		cmocka_unit_test(nodes_are_scarce_as_far_as_pods_for_most_of_a_node_ask_for_them),
		cmocka_unit_test(nodes_that_pods_ask_for_twice_are_entirely_scarce),
		cmocka_unit_test(the_smallest_pod_in_a_huge_cluster_divides_by_nothing),
		cmocka_unit_test(the_pod_that_is_placed_does_not_count_for_a_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
