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
#include "core/placement/node-room.h"
#include "core/placement/rank.h"
#include "core/registry/node-ledger.h"
#include "model-fixture.h"

static void open_nodes(struct ledger *ledger, enum gpu_policy policy, size_t n, const char *const *names)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_node_facts_ struct node_facts facts;

		fixture_node(&facts, names[i], policy, 2, (const uint32_t[]){10, 10});
		assert_int_equal(ledger_set_node(ledger, &facts), 0);
	}
}

static void occupy(struct ledger *ledger, const char *uid, uint32_t units, const char *owner,
	const char *node, const char *uuid)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, uid, units, owner);
	fixture_bind(&pod, node, uuid);
	assert_int_equal(ledger_set_pod(ledger, &pod), 0);
}

/* Offers the nodes in every order and compares the result. */
static void assert_order(
	const struct ledger *ledger, const char *owner, const char *a, const char *b, const char *c)
{
	static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	const char *names[] = {a, b, c};
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "asking", 1, owner);
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		const struct node_ledger *nodes[3];

		for (size_t k = 0; k < 3; k++)
			nodes[k] = ledger_node(ledger, names[orders[i][k]]);
		assert_int_equal(rank_nodes(ledger, nodes, 3, SIZE_MAX, &pod), 0);
		for (size_t k = 0; k < 3; k++)
			assert_string_equal(nodes[k]->facts.name, names[k]);
	}
}

static void binpack_nodes_are_ranked_fullest_first_and_ties_by_name(void **state)
{
	struct ledger ledger;

	ledger_init(&ledger);
	ledger.node_order = NODE_ORDER_FULLEST;
	open_nodes(&ledger, GPU_POLICY_BINPACK, 3, (const char *[]){"a", "b", "c"});
	assert_order(&ledger, "", "a", "b", "c");
	occupy(&ledger, "p", 3, "", "c", "GPU-c-1");
	assert_order(&ledger, "", "c", "a", "b");
	occupy(&ledger, "q", 4, "", "b", NULL);
	assert_order(&ledger, "", "b", "c", "a");
	ledger_release(&ledger);
}

static void spread_nodes_are_ranked_by_owner_then_emptiest_first(void **state)
{
	struct ledger ledger;

	ledger_init(&ledger);
	open_nodes(&ledger, GPU_POLICY_SPREAD, 3, (const char *[]){"a", "b", "c"});
	occupy(&ledger, "p", 1, "job", "a", "GPU-a-0");
	occupy(&ledger, "q", 9, "other", "b", "GPU-b-0");
	occupy(&ledger, "r", 5, "other", "c", "GPU-c-0");
	assert_order(&ledger, "job", "c", "b", "a");
	assert_order(&ledger, "other", "a", "c", "b");
	assert_order(&ledger, "", "a", "c", "b");
	ledger_release(&ledger);
}

static void binpack_nodes_come_before_spread_nodes(void **state)
{
	struct ledger ledger;

	ledger_init(&ledger);
	open_nodes(&ledger, GPU_POLICY_SPREAD, 1, (const char *[]){"a"});
	open_nodes(&ledger, GPU_POLICY_BINPACK, 2, (const char *[]){"b", "c"});
	occupy(&ledger, "p", 1, "job", "c", "GPU-c-0");
	assert_order(&ledger, "job", "c", "b", "a");
	ledger_release(&ledger);
}

static void free_memory_is_compared_in_bytes_not_in_units(void **state)
{
	_cleanup_node_facts_ struct node_facts small_unit;
	struct ledger ledger;

	ledger_init(&ledger);
	ledger.node_order = NODE_ORDER_FULLEST;
	open_nodes(&ledger, GPU_POLICY_BINPACK, 2, (const char *[]){"a", "b"});
	/* One GPU of 5 GiB in units of 128 MiB: 40 units, yet less memory than 20 GiB. */
	fixture_node(&small_unit, "z", GPU_POLICY_BINPACK, 1, (const uint32_t[]){5});
	small_unit.unit_mib = 128;
	assert_int_equal(ledger_set_node(&ledger, &small_unit), 0);
	assert_order(&ledger, "", "z", "a", "b");
	ledger_release(&ledger);
}

/* A node with GPUs of 10 units, 12 CPUs and 48 GiB for each. */
static void open_host(struct ledger *ledger, const char *name, size_t n_gpus)
{
	static const uint32_t units[8] = {10, 10, 10, 10, 10, 10, 10, 10};
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, n_gpus, units);
	facts.host = (struct host_amount){(uint32_t)n_gpus * 12000, (uint32_t)n_gpus * (48 << 10)};
	assert_int_equal(ledger_set_node(ledger, &facts), 0);
}

/* A pod without a GPU. */
static void load(struct ledger *ledger, const char *uid, const char *node, uint32_t cpus)
{
	struct pod_facts pod = {.uid = (char *)uid,
		.node = (char *)node,
		.host = {.cpu_milli = cpus * 1000, .memory_mib = 1024}};

	assert_int_equal(ledger_set_host_pod(ledger, &pod), 0);
	assert_int_equal(ledger_check(ledger, NULL), 0);
}

static void nodes_whose_cpu_is_used_up_by_other_pods_come_last_for_cpu_and_first_without(void **state)
{
	const struct node_ledger *nodes[2];
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct ledger ledger;

	ledger_init(&ledger);
	open_host(&ledger, "a", 8);
	open_host(&ledger, "b", 8);
	occupy(&ledger, "p", 3, "", "a", "GPU-a-0");
	occupy(&ledger, "q", 3, "", "b", "GPU-b-0");
	load(&ledger, "job", "a", 72);
	fixture_pod(&pod, "asking", 4, "");
	for (int needy = 0; needy < 2; needy++) {
		/* 24 CPUs are left behind the 8 GPUs of a, 96 behind those of b. */
		pod.host.cpu_milli = needy ? 24000 : 0;
		nodes[0] = ledger_node(&ledger, "a");
		nodes[1] = ledger_node(&ledger, "b");
		assert_int_equal(rank_nodes(&ledger, nodes, 2, SIZE_MAX, &pod), 0);
		assert_string_equal(nodes[0]->facts.name, needy ? "b" : "a");
	}
	ledger_remove_host_pod(&ledger, "job");
	assert_int_equal(ledger_node(&ledger, "a")->taken.cpu_milli, 0);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_release(&ledger);
}

static void a_begun_gpu_comes_before_an_empty_node(void **state)
{
	struct ledger ledger;

	ledger_init(&ledger);
	open_nodes(&ledger, GPU_POLICY_BINPACK, 3, (const char *[]){"a", "b", "c"});
	occupy(&ledger, "p", 3, "", "c", "GPU-c-1");
	assert_order(&ledger, "", "c", "a", "b");
	/* 4 units are taken from b, on no GPU that is known: on either one the pod begins a GPU. */
	occupy(&ledger, "q", 4, "", "b", NULL);
	assert_order(&ledger, "", "c", "b", "a");
	ledger_release(&ledger);
}

/* Two equal nodes of 20 units; a model that other pods need is spared. */
static void open_model(struct ledger *ledger, const char *name, const char *model)
{
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, 2, (const uint32_t[]){10, 10});
	facts.models = strdup(model);
	assert_int_equal(ledger_set_node(ledger, &facts), 0);
}

static const char *first_of(const struct ledger *ledger, const char *models, const char **ret_spared)
{
	const struct node_ledger *nodes[2] = {ledger_node(ledger, "a"), ledger_node(ledger, "b")}, *spared;
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "asking", 5, "");
	pod.models = models ? strdup(models) : NULL;
	assert_int_equal(rank_nodes_sparing(ledger, nodes, 2, 1, &pod, &spared), 0);
	*ret_spared = spared ? spared->facts.name : NULL;
	return nodes[0]->facts.name;
}

/* Node a has 2 GPUs, all free. Node b has 16, one of which is in use. */
static void a_free_node_is_kept_for_a_waiting_pod_that_needs_one(void **state)
{
	static const uint32_t units[16] = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10};
	_cleanup_pod_facts_ struct pod_facts waiting = {0};
	const char *spared;
	struct ledger ledger;

	(void)state;
	ledger_init(&ledger);
	for (size_t i = 0; i < 2; i++) {
		_cleanup_node_facts_ struct node_facts facts;

		fixture_node(&facts, i == 0 ? "a" : "b", GPU_POLICY_BINPACK, i == 0 ? 2 : 16, units);
		assert_int_equal(ledger_set_node(&ledger, &facts), 0);
	}
	occupy(&ledger, "q", 10, "", "b", "GPU-b-0");
	assert_string_equal(first_of(&ledger, NULL, &spared), "a");
	fixture_pod(&waiting, "waiting", 20, "");
	waiting.request.gpus = 2;
	assert_int_equal(ledger_set_pod(&ledger, &waiting), 0);
	assert_string_equal(first_of(&ledger, NULL, &spared), "b");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	waiting.finished = true;
	assert_int_equal(ledger_set_pod(&ledger, &waiting), 0);
	assert_string_equal(first_of(&ledger, NULL, &spared), "a");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_release(&ledger);
}

static void a_model_that_waiting_pods_need_is_spared(void **state)
{
	_cleanup_pod_facts_ struct pod_facts waiting = {0};
	const char *spared;
	struct ledger ledger;

	ledger_init(&ledger);
	open_model(&ledger, "a", "T4");
	open_model(&ledger, "b", "V100");
	assert_string_equal(first_of(&ledger, NULL, &spared), "a");
	assert_null(spared);
	fixture_pod(&waiting, "waiting", 10, "");
	waiting.models = strdup("T4");
	assert_int_equal(ledger_set_pod(&ledger, &waiting), 0);
	assert_string_equal(first_of(&ledger, NULL, &spared), "b");
	assert_string_equal(spared, "a");
	/* kube-scheduler would ask only about a. */
	assert_string_equal(first_of(&ledger, "T4,V100", &spared), "b");
	ledger.node_order = NODE_ORDER_FULLEST;
	assert_string_equal(first_of(&ledger, NULL, &spared), "a");
	assert_null(spared);
	ledger.node_order = NODE_ORDER_BALANCED;
	/* The node gets GPUs of another model. */
	ledger_remove_node(&ledger, "a", "uid-a");
	open_model(&ledger, "a", "A10");
	assert_string_equal(first_of(&ledger, NULL, &spared), "a");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	open_model(&ledger, "a", "T4");
	assert_string_equal(first_of(&ledger, NULL, &spared), "b");
	/* A pod with scheduling gates may get another selector. */
	free(waiting.models);
	waiting.models = strdup("V100");
	assert_int_equal(ledger_set_pod(&ledger, &waiting), 0);
	assert_string_equal(first_of(&ledger, NULL, &spared), "a");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_remove_pod(&ledger, "waiting");
	assert_int_equal(ledger.demand.choices.count, 0);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_release(&ledger);
}

/* Node a has T4s, one of them in use, and another pod waits for one. Only some replicas may have seen the pod
 * when kube-scheduler asks about it. */
static void a_pod_that_the_watch_has_shown_already_goes_where_it_would_go_otherwise(void **state)
{
	_cleanup_pod_facts_ struct pod_facts waiting = {0}, pod = {0};
	const struct node_ledger *nodes[2];
	struct ledger ledger;

	(void)state;
	ledger_init(&ledger);
	open_model(&ledger, "a", "T4");
	open_model(&ledger, "b", "V100");
	occupy(&ledger, "q", 10, "", "a", "GPU-a-0");
	fixture_pod(&waiting, "waiting", 3, "");
	waiting.models = strdup("T4");
	assert_int_equal(ledger_set_pod(&ledger, &waiting), 0);
	fixture_pod(&pod, "asking", 10, "");
	for (int seen = 0; seen < 2; seen++) {
		nodes[0] = ledger_node(&ledger, "a");
		nodes[1] = ledger_node(&ledger, "b");
		assert_int_equal(rank_nodes(&ledger, nodes, 2, SIZE_MAX, &pod), 0);
		assert_string_equal(nodes[0]->facts.name, "b");
		assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
	}
	ledger_release(&ledger);
}

static void take_gpus(struct ledger *ledger, const char *node, int n)
{
	for (int i = 0; i < n; i++) {
		char uid[32], uuid[32];

		snprintf(uid, sizeof(uid), "%s-%d", node, i);
		snprintf(uuid, sizeof(uuid), "GPU-%s-%d", node, i);
		occupy(ledger, uid, 10, "", node, uuid);
	}
}

/* Node a has 2 free GPUs and little CPU, b has 7 and much. While other nodes are free, too, the CPU decides.
 */
static void in_a_full_cluster_a_node_that_is_used_little_is_left_alone(void **state)
{
	static const char *const others[] = {"c", "d", "e", "f", "g", "h"};
	const struct node_ledger *nodes[2];
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct ledger ledger;

	(void)state;
	ledger_init(&ledger);
	open_host(&ledger, "a", 8);
	open_host(&ledger, "b", 8);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		open_host(&ledger, others[i], 8);
	take_gpus(&ledger, "a", 6);
	take_gpus(&ledger, "b", 1);
	load(&ledger, "job", "a", 86);
	fixture_pod(&pod, "asking", 10, "");
	pod.host.cpu_milli = 8000;
	for (int full = 0; full < 2; full++) {
		nodes[0] = ledger_node(&ledger, "a");
		nodes[1] = ledger_node(&ledger, "b");
		assert_int_equal(rank_nodes(&ledger, nodes, 2, SIZE_MAX, &pod), 0);
		assert_string_equal(nodes[0]->facts.name, full ? "a" : "b");
		for (size_t i = 0; !full && i < ARRAY_SIZE(others); i++)
			take_gpus(&ledger, others[i], 8);
	}
	ledger_release(&ledger);
}

static void the_scarcer_of_cpu_and_memory_is_the_shortage(void **state)
{
	struct host_sum all = {.cpu_milli = 1000, .memory_mib = 1000};

	(void)state;
	assert_int_equal(gpu_mean_of(all, (struct host_sum){2000, 1000}).shortage, 0);
	assert_int_equal(gpu_mean_of(all, (struct host_sum){2000, 900}).shortage, 100);
	assert_int_equal(gpu_mean_of(all, (struct host_sum){800, 900}).shortage, 200);
	assert_int_equal(gpu_mean_of(all, (struct host_sum){0}).shortage, 1000);
	assert_int_equal(gpu_mean_of((struct host_sum){0}, (struct host_sum){0}).shortage, 0);
	assert_int_equal(gpu_mean_of(all, (struct host_sum){800, 2000}).host.memory_mib, 1000);
}

/* Two nodes with 4 GPUs of 12 CPUs each. */
static void the_mean_is_that_of_what_is_left_once_it_is_less(void **state)
{
	struct ledger ledger;

	(void)state;
	ledger_init(&ledger);
	open_host(&ledger, "a", 4);
	open_host(&ledger, "b", 4);
	assert_int_equal(ledger_gpu_mean(&ledger).host.cpu_milli, 12000);
	/* Two GPUs are in use: more is left for each of the others. */
	occupy(&ledger, "p", 10, "", "a", "GPU-a-0");
	occupy(&ledger, "q", 10, "", "a", "GPU-a-1");
	assert_int_equal(ledger_gpu_mean(&ledger).host.cpu_milli, 12000);
	load(&ledger, "h", "b", 36);
	assert_int_equal(ledger_gpu_mean(&ledger).host.cpu_milli, 60000 / 6);
	assert_int_equal(ledger_gpu_mean(&ledger).shortage, 1000 / 6);
	load(&ledger, "h", "a", 48);
	assert_int_equal(ledger_gpu_mean(&ledger).host.cpu_milli, 48000 / 6);
	assert_int_equal(ledger_gpus_taken(&ledger), 250);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_remove_node(&ledger, "a", "uid-a");
	assert_int_equal(ledger_gpu_mean(&ledger).host.cpu_milli, 12000);
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_remove_pod(&ledger, "p");
	ledger_remove_host_pod(&ledger, "h");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_release(&ledger);
}

/* All GPUs of a and b are taken, and c is a node without GPUs; d has free GPUs. */
static void of_nodes_that_cost_a_pod_without_a_gpu_nothing_the_one_with_the_least_cpu_is_first(void **state)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	const struct node_ledger *nodes[ARRAY_SIZE(names)];
	struct pod_facts pod = {.uid = (char *)"asking", .host = {.cpu_milli = 1000, .memory_mib = 1024}};
	int scores[ARRAY_SIZE(names)];
	struct ledger ledger;

	(void)state;
	ledger_init(&ledger);
	open_host(&ledger, "a", 1);
	open_host(&ledger, "b", 1);
	open_host(&ledger, "c", 0);
	open_host(&ledger, "d", 1);
	occupy(&ledger, "p", 10, "", "a", "GPU-a-0");
	occupy(&ledger, "q", 10, "", "b", "GPU-b-0");
	load(&ledger, "h", "b", 2);
	for (int fuller = 0; fuller < 2; fuller++) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			nodes[i] = ledger_node(&ledger, names[i]);
		rank_host_pod(&ledger, nodes, ARRAY_SIZE(names), &pod, scores);
		assert_memory_equal(
			scores, (fuller ? (int[]){9, 8, 10, 7} : (int[]){8, 9, 10, 7}), sizeof(scores));
		load(&ledger, "i", "a", 3);
	}
	ledger_release(&ledger);
}

/* Four GPUs are needed together by a pod that could have all nodes with four, but not by one that could have
 * a part of those with eight. The nodes have equal CPU for each GPU; fewer GPUs stay free on the smaller one.
 */
static void a_pod_without_a_gpu_leaves_the_nodes_that_pods_need_as_a_whole(void **state)
{
	const struct node_ledger *nodes[2];
	struct pod_facts asking = {.uid = (char *)"asking", .host = {.cpu_milli = 12000, .memory_mib = 1024}};
	_cleanup_pod_facts_ struct pod_facts whole = {0};
	struct ledger ledger;
	int scores[2];

	(void)state;
	ledger_init(&ledger);
	open_host(&ledger, "four", 4);
	open_host(&ledger, "eight", 8);
	fixture_pod(&whole, "whole", 40, "");
	whole.request.gpus = 4;
	for (int waits = 0; waits < 2; waits++) {
		nodes[0] = ledger_node(&ledger, "four");
		nodes[1] = ledger_node(&ledger, "eight");
		rank_host_pod(&ledger, nodes, 2, &asking, scores);
		assert_memory_equal(scores, (waits ? (int[]){9, 10} : (int[]){10, 9}), sizeof(scores));
		assert_int_equal(ledger_set_pod(&ledger, &whole), 0);
	}
	ledger_release(&ledger);
}

/* GPUs of 10 units: 7, 4, 10 and none are free. Of 3 free units 2.1 are lost, of 4 free ones 2.4, and 2.5
 * where 5 or more are free. */
static void the_free_parts_that_a_pod_changes_are_those_of_the_fullest_gpus_with_room(void **state)
{
	struct {
		uint32_t units, gpus, core;
		int64_t lost;
	} cases[] = {
		{4, 1, 0, -240000}, {1, 1, 0, 210000 - 240000}, {5, 1, 0, 160000 - 250000}, {8, 1, 0, 160000},
		{10, 1, 0, 0}, {8, 2, 0, -240000 + 210000 - 250000},
		{12, 3, 0, -240000 + 210000 - 250000 + 250000},
		{1, 1, 40, -240000}, /* the computing power is the larger part */
	};
	_cleanup_pod_facts_ struct pod_facts plain = {.uid = strdup("plain")};
	struct ledger ledger;
	struct node_ledger *node;

	(void)state;
	ledger_init(&ledger);
	open_host(&ledger, "a", 4);
	node = table_get(&ledger.nodes, "a");
	occupy(&ledger, "p", 3, "", "a", "GPU-a-0");
	occupy(&ledger, "q", 6, "", "a", "GPU-a-1");
	occupy(&ledger, "r", 10, "", "a", "GPU-a-3");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_pod_facts_ struct pod_facts pod = {0};

		fixture_pod(&pod, "asking", cases[i].units, "");
		pod.request.gpus = cases[i].gpus;
		pod.request.core = cases[i].core;
		assert_int_equal(node_room_ask(node, &pod).part_lost, cases[i].lost);
		assert_int_equal(node_room_ask(node, &pod).wanted, cases[i].gpus);
	}
	assert_int_equal(node_room_ask(node, &plain).part_lost, 0);
	assert_int_equal(node_room_ask(node, &plain).wanted, 0);
	node->gpus[1].facts.healthy = false;
	node_ledger_recount(node);
	{
		_cleanup_pod_facts_ struct pod_facts pod = {0};

		fixture_pod(&pod, "asking", 4, "");
		assert_int_equal(node_room_ask(node, &pod).part_lost, 210000 - 250000); /* from 7 to 3 */
	}
	ledger_release(&ledger);
}

/* A free node is kept for pods that need the whole of it only if they can have it, and only from pods without
 * a GPU, however small another one is. */
static void the_cpu_of_a_node_is_kept_for_pods_that_can_have_its_gpus(void **state)
{
	struct pod_facts plain = {.uid = (char *)"plain", .host = {.cpu_milli = 1000, .memory_mib = 1024}};
	_cleanup_pod_facts_ struct pod_facts small = {0};
	struct ledger ledger;
	struct node_ledger *node;

	(void)state;
	ledger_init(&ledger);
	open_host(&ledger, "a", 8);
	node = table_get(&ledger.nodes, "a");
	fixture_pod(&small, "small", 1, "");
	assert_int_equal(node_room_ask(node, &plain).host_pod_cpu_milli, 96000);
	assert_int_equal(node_room_ask(node, &small).host_pod_cpu_milli, 0);
	node->facts.mode = GPU_MODE_DRA;
	assert_int_equal(node_room_ask(node, &plain).host_pod_cpu_milli, 0);
	node->facts.mode = GPU_MODE_SHARE;
	node->facts.serving = false;
	assert_int_equal(node_room_ask(node, &plain).host_pod_cpu_milli, 0);
	node->facts.serving = true;
	node->agent_lost = true;
	assert_int_equal(node_room_ask(node, &plain).host_pod_cpu_milli, 0);
	ledger_release(&ledger);
}

static void a_pod_without_a_gpu_that_moves_or_ends_leaves_no_sum(void **state)
{
	struct ledger ledger;

	ledger_init(&ledger);
	load(&ledger, "p", "unknown", 2);
	load(&ledger, "p", "unknown", 3);
	assert_int_equal(ledger_node(&ledger, "unknown")->taken.cpu_milli, 3000);
	load(&ledger, "p", "other", 3);
	assert_null(ledger_node(&ledger, "unknown"));
	open_host(&ledger, "other", 1);
	assert_int_equal(ledger_gpu_mean(&ledger).host.cpu_milli, 9000);
	assert_int_equal(ledger_node(&ledger, "other")->taken.cpu_milli, 3000);
	ledger_remove_node(&ledger, "other", "uid-other");
	assert_int_equal(ledger_gpu_mean(&ledger).host.cpu_milli, 0);
	ledger_remove_host_pod(&ledger, "p");
	ledger_remove_host_pod(&ledger, "p");
	assert_null(ledger_node(&ledger, "other"));
	ledger_release(&ledger);
}

#define MANY 200

/* Names the nodes in the order of a multiplicative walk, so that neither the tables' nor the names' order is
 * the order of offering. */
static void offer_many(const struct ledger *ledger, const struct node_ledger **ret_nodes)
{
	char name[16];

	for (size_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%03zu", i * 77 % MANY);
		ret_nodes[i] = ledger_node(ledger, name);
		assert_non_null(ret_nodes[i]);
	}
}

static void the_best_few_are_the_front_of_the_whole_order(void **state)
{
	static const size_t few[] = {1, 2, 3, 16, 17, MANY - 1, MANY, MANY + 1};
	const struct node_ledger *all[MANY], *some[MANY];
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	char name[16], uuid[32], uid[16];
	struct ledger ledger;

	ledger_init(&ledger);
	for (size_t i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%03zu", i);
		open_nodes(
			&ledger, i % 3 ? GPU_POLICY_BINPACK : GPU_POLICY_SPREAD, 1, (const char *[]){name});
		snprintf(uuid, sizeof(uuid), "GPU-%s-%zu", name, i % 2);
		snprintf(uid, sizeof(uid), "p%zu", i);
		if (i % 7)
			occupy(&ledger, uid, (uint32_t)(i * 13 % 9 + 1), i % 5 ? "" : "job", name, uuid);
	}
	fixture_pod(&pod, "asking", 1, "job");
	offer_many(&ledger, all);
	assert_int_equal(rank_nodes(&ledger, all, MANY, SIZE_MAX, &pod), 0);
	for (size_t k = 0; k < ARRAY_SIZE(few); k++) {
		offer_many(&ledger, some);
		assert_int_equal(rank_nodes(&ledger, some, MANY, few[k], &pod), 0);
		for (size_t i = 0; i < few[k] && i < MANY; i++)
			assert_ptr_equal(some[i], all[i]);
	}
	ledger_release(&ledger);
}

static void a_pod_that_a_controller_adopts_counts_for_it_from_then_on(void **state)
{
	_cleanup_pod_facts_ struct pod_facts adopted = {0};
	struct ledger ledger;

	ledger_init(&ledger);
	open_nodes(&ledger, GPU_POLICY_SPREAD, 3, (const char *[]){"a", "b", "c"});
	occupy(&ledger, "p", 1, "", "a", "GPU-a-0");
	occupy(&ledger, "q", 2, "", "b", "GPU-b-0");
	occupy(&ledger, "r", 3, "", "c", "GPU-c-0");
	assert_order(&ledger, "job", "a", "b", "c");
	fixture_pod(&adopted, "p", 1, "job");
	fixture_bind(&adopted, "a", "GPU-a-0");
	assert_int_equal(ledger_set_pod(&ledger, &adopted), 0);
	assert_order(&ledger, "job", "b", "c", "a");
	assert_order(&ledger, "other", "a", "b", "c");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_remove_pod(&ledger, "p");
	assert_order(&ledger, "job", "a", "b", "c");
	assert_int_equal(ledger_check(&ledger, NULL), 0);
	ledger_release(&ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(binpack_nodes_are_ranked_fullest_first_and_ties_by_name),
		cmocka_unit_test(spread_nodes_are_ranked_by_owner_then_emptiest_first),
		cmocka_unit_test(binpack_nodes_come_before_spread_nodes),
		cmocka_unit_test(free_memory_is_compared_in_bytes_not_in_units),
		cmocka_unit_test(
			nodes_whose_cpu_is_used_up_by_other_pods_come_last_for_cpu_and_first_without),
		cmocka_unit_test(a_begun_gpu_comes_before_an_empty_node),
		cmocka_unit_test(a_free_node_is_kept_for_a_waiting_pod_that_needs_one),
		cmocka_unit_test(a_model_that_waiting_pods_need_is_spared),
		cmocka_unit_test(a_pod_that_the_watch_has_shown_already_goes_where_it_would_go_otherwise),
		cmocka_unit_test(the_scarcer_of_cpu_and_memory_is_the_shortage),
		cmocka_unit_test(the_mean_is_that_of_what_is_left_once_it_is_less),
		cmocka_unit_test(
			of_nodes_that_cost_a_pod_without_a_gpu_nothing_the_one_with_the_least_cpu_is_first),
		cmocka_unit_test(a_pod_without_a_gpu_that_moves_or_ends_leaves_no_sum),
		cmocka_unit_test(a_pod_without_a_gpu_leaves_the_nodes_that_pods_need_as_a_whole),
		cmocka_unit_test(in_a_full_cluster_a_node_that_is_used_little_is_left_alone),
		cmocka_unit_test(the_free_parts_that_a_pod_changes_are_those_of_the_fullest_gpus_with_room),
		cmocka_unit_test(the_cpu_of_a_node_is_kept_for_pods_that_can_have_its_gpus),
		cmocka_unit_test(the_best_few_are_the_front_of_the_whole_order),
		cmocka_unit_test(a_pod_that_a_controller_adopts_counts_for_it_from_then_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
