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
#include "core/placement/choose.h"
#include "core/registry/ledger.h"
#include "model-fixture.h"

/* A ledger with one node "n"; pods are put on its GPUs as the API server would show them. */
struct world {
	struct ledger ledger;
	struct node_facts node;
};

static void world_open(struct world *w, enum gpu_policy policy, size_t n_gpus, const uint32_t *units)
{
	ledger_init(&w->ledger);
	fixture_node(&w->node, "n", policy, n_gpus, units);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

static void world_close(struct world *w)
{
	ledger_release(&w->ledger);
	node_facts_release(&w->node);
}

#define FOUR_OF_15 ((const uint32_t[]){15, 15, 15, 15})

static void occupy(struct world *w, const char *uid, uint32_t units, const char *owner, const char *uuid)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, uid, units, owner);
	fixture_bind(&pod, "n", uuid);
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

/* Where a pod of this owner and size goes; "" if nowhere. */
static const char *chosen(struct world *w, uint32_t units, const char *owner, char buf[GPU_UUID_SIZE])
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};

	fixture_pod(&pod, "asking", units, owner);
	*buf = '\0';
	if (placement_choose(ledger_node(&w->ledger, "n"), &pod.request, owner, &placement) == FITS)
		memcpy(buf, placement.containers[0].gpus[0].uuid, GPU_UUID_SIZE);
	return buf;
}

static enum reject_reason reject_reason_of(struct world *w, uint32_t units)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "asking", units, "");
	return placement_choose(ledger_node(&w->ledger, "n"), &pod.request, "", NULL);
}

static void binpack_takes_the_fullest_gpu_that_fits(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 4, FOUR_OF_15);
	assert_string_equal(chosen(&w, 3, "", uuid), "GPU-n-0");
	occupy(&w, "a", 3, "", "GPU-n-2");
	assert_string_equal(chosen(&w, 12, "", uuid), "GPU-n-2");
	assert_string_equal(chosen(&w, 13, "", uuid), "GPU-n-0");
	occupy(&w, "b", 14, "", "GPU-n-3");
	assert_string_equal(chosen(&w, 1, "", uuid), "GPU-n-3");
	assert_string_equal(chosen(&w, 2, "", uuid), "GPU-n-2");
	world_close(&w);
}

static void spread_takes_the_emptiest_gpu(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_SPREAD, 4, FOUR_OF_15);
	assert_string_equal(chosen(&w, 3, "", uuid), "GPU-n-0");
	occupy(&w, "a", 4, "", "GPU-n-0");
	assert_string_equal(chosen(&w, 3, "", uuid), "GPU-n-1");
	occupy(&w, "b", 4, "", "GPU-n-1");
	occupy(&w, "c", 4, "", "GPU-n-3");
	assert_string_equal(chosen(&w, 3, "", uuid), "GPU-n-2");
	world_close(&w);
}

static void spread_prefers_a_gpu_without_a_pod_of_the_same_owner(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_SPREAD, 2, (const uint32_t[]){15, 15});
	occupy(&w, "a", 1, "job", "GPU-n-0");
	occupy(&w, "b", 10, "other", "GPU-n-1");
	assert_string_equal(chosen(&w, 1, "job", uuid), "GPU-n-1");
	assert_string_equal(chosen(&w, 1, "third", uuid), "GPU-n-0");
	/* Best effort: where only the owner's GPU has room, it is taken. */
	assert_string_equal(chosen(&w, 6, "job", uuid), "GPU-n-0");
	/* Pods without an owner are not each other's replicas. */
	occupy(&w, "c", 1, "", "GPU-n-0");
	assert_string_equal(chosen(&w, 1, "", uuid), "GPU-n-0");
	world_close(&w);
}

static void binpack_ignores_the_owner(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	occupy(&w, "a", 1, "job", "GPU-n-1");
	assert_string_equal(chosen(&w, 1, "job", uuid), "GPU-n-1");
	world_close(&w);
}

static void ties_go_to_the_lowest_index_wherever_it_stands_in_the_list(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 3, (const uint32_t[]){8, 8, 8});
	w.node.gpus[0].index = 2;
	w.node.gpus[1].index = 0;
	w.node.gpus[2].index = 1;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	assert_string_equal(chosen(&w, 1, "", uuid), "GPU-n-1");
	world_close(&w);
}

static void isolate(struct world *w, uint32_t instances_max)
{
	w->node.mode = GPU_MODE_CGPU;
	w->node.instances_max = instances_max;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

static void contract_5_has_20_containers_on_a_gpu_and_16_with_a_small_unit(void **state)
{
	assert_int_equal(gpu_instances_max(GPU_MODE_CGPU, 1024, 0), 20);
	assert_int_equal(gpu_instances_max(GPU_MODE_CGPU, 512, 0), 16);
	assert_int_equal(gpu_instances_max(GPU_MODE_CGPU, 128, 0), 16);
	assert_int_equal(gpu_instances_max(GPU_MODE_CGPU, 128, 30), 30);
	assert_int_equal(gpu_instances_max(GPU_MODE_CORE_MEM, 1024, 0), 20);
	assert_int_equal(gpu_instances_max(GPU_MODE_SHARE, 128, 30), 0);
	assert_int_equal(gpu_instances_max(GPU_MODE_SHARE, 1024, 0), 0);
}

static void the_21st_container_finds_no_room_though_there_are_units(void **state)
{
	char uuid[GPU_UUID_SIZE], uid[16];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){80, 80});
	isolate(&w, 20);
	for (int i = 0; i < 40; i++) {
		snprintf(uid, sizeof(uid), "p%d", i);
		/* binpack fills the first GPU with 20, then the second. */
		assert_string_equal(chosen(&w, 1, "", uuid), i < 20 ? "GPU-n-0" : "GPU-n-1");
		occupy(&w, uid, 1, "", uuid);
		assert_int_equal(reject_reason_of(&w, 80), i < 20 ? FITS : REJECT_FULL);
	}
	assert_string_equal(chosen(&w, 1, "", uuid), "");
	assert_int_equal(reject_reason_of(&w, 1), REJECT_INSTANCES);
	/* No units either: that comes first. */
	assert_int_equal(reject_reason_of(&w, 61), REJECT_FULL);
	ledger_remove_pod(&w.ledger, "p33");
	assert_string_equal(chosen(&w, 1, "", uuid), "GPU-n-1");
	world_close(&w);
}

static void a_share_node_has_no_limit_of_containers(void **state)
{
	char uuid[GPU_UUID_SIZE], uid[16];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){80});
	for (int i = 0; i < 80; i++) {
		snprintf(uid, sizeof(uid), "p%d", i);
		assert_string_equal(chosen(&w, 1, "", uuid), "GPU-n-0");
		occupy(&w, uid, 1, "", uuid);
	}
	world_close(&w);
}

/* What can be there at once: two sidecars and a main container are three; an init container runs beside the
 * sidecars that were started before it only. */
static void containers_that_run_alone_count_once(void **state)
{
	static const struct {
		enum container_kind kinds[4];
		uint32_t instances;
	} cases[] = {
		{{CONTAINER_MAIN, CONTAINER_MAIN, CONTAINER_MAIN, CONTAINER_MAIN}, 4},
		{{CONTAINER_INIT, CONTAINER_INIT, CONTAINER_INIT, CONTAINER_MAIN}, 1},
		{{CONTAINER_SIDECAR, CONTAINER_SIDECAR, CONTAINER_INIT, CONTAINER_MAIN}, 3},
		{{CONTAINER_INIT, CONTAINER_SIDECAR, CONTAINER_MAIN, CONTAINER_MAIN}, 3},
		{{CONTAINER_SIDECAR, CONTAINER_SIDECAR, CONTAINER_SIDECAR, CONTAINER_INIT}, 4},
	};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_request_ struct request request = {0};

		for (int c = 0; c < 4; c++)
			assert_int_equal(request_add(&request, (char[]){'a' + c, '\0'}, cases[i].kinds[c], c,
						 "1", NULL, NULL),
				0);
		assert_int_equal(request.instances, cases[i].instances);
		isolate(&w, cases[i].instances);
		assert_int_equal(placement_choose(ledger_node(&w.ledger, "n"), &request, "", NULL), FITS);
		if (cases[i].instances == 1)
			continue;
		isolate(&w, cases[i].instances - 1);
		assert_int_equal(
			placement_choose(ledger_node(&w.ledger, "n"), &request, "", NULL), REJECT_INSTANCES);
	}
	world_close(&w);
}

static void on_several_gpus_each_needs_room_for_the_containers(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 3, (const uint32_t[]){15, 15, 15});
	isolate(&w, 1);
	fixture_pod(&pod, "asking", 4, "");
	assert_int_equal(request_set_gpus(&pod.request, 2, NULL), 0);
	occupy(&w, "a", 1, "", "GPU-n-0");
	assert_int_equal(placement_choose(ledger_node(&w.ledger, "n"), &pod.request, "", NULL), FITS);
	occupy(&w, "b", 1, "", "GPU-n-2");
	assert_int_equal(
		placement_choose(ledger_node(&w.ledger, "n"), &pod.request, "", NULL), REJECT_INSTANCES);
	world_close(&w);
}

static void gpus_of_different_size_count_with_their_own(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 79});
	assert_string_equal(chosen(&w, 15, "", uuid), "GPU-n-0");
	assert_string_equal(chosen(&w, 16, "", uuid), "GPU-n-1");
	assert_string_equal(chosen(&w, 79, "", uuid), "GPU-n-1");
	assert_int_equal(reject_reason_of(&w, 80), REJECT_TOO_LARGE);
	world_close(&w);
}

static void all_containers_go_to_one_gpu_with_what_each_asks(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){4, 15});
	pod_facts_init(&pod);
	request_add(&pod.request, "init", CONTAINER_INIT, 0, "5", NULL, NULL);
	request_add(&pod.request, "a", CONTAINER_MAIN, 0, "2", NULL, NULL);
	request_add(&pod.request, "b", CONTAINER_MAIN, 1, "1", NULL, NULL);
	assert_int_equal(placement_choose(ledger_node(&w.ledger, "n"), &pod.request, "", &placement), FITS);
	assert_int_equal(placement.unit_mib, 1024);
	assert_int_equal(placement.n_containers, 3);
	assert_string_equal(placement_find(&placement, "init")->gpus[0].uuid, "GPU-n-1");
	assert_int_equal(placement_find(&placement, "init")->gpus[0].units, 5);
	assert_int_equal(placement_find(&placement, "a")->gpus[0].units, 2);
	assert_int_equal(placement_find(&placement, "b")->gpus[0].units, 1);
	assert_true(placement_matches(&placement, &pod.request));
	world_close(&w);
}

/* A recording may say so. */
static void a_pod_that_asks_for_no_units_gets_no_unhealthy_gpu(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	w.node.gpus[0].healthy = false;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	fixture_pod(&pod, "asking", 1, "");
	pod.request.units = pod.request.containers[0].units = 0;
	assert_int_equal(
		placement_choose(ledger_node(&w.ledger, "n"), &pod.request, "", &placement), REJECT_FULL);
	w.node.gpus[0].healthy = true;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	assert_int_equal(placement_choose(ledger_node(&w.ledger, "n"), &pod.request, "", &placement), FITS);
	world_close(&w);
}

static void unhealthy_gpus_get_no_new_pods_and_keep_the_old(void **state)
{
	char uuid[GPU_UUID_SIZE];
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 8});
	occupy(&w, "a", 3, "", "GPU-n-0");
	w.node.gpus[0].healthy = false;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	assert_int_equal(ledger_node(&w.ledger, "n")->gpus[0].units_used, 3);
	assert_string_equal(chosen(&w, 3, "", uuid), "GPU-n-1");
	/* Only the sick GPU would be large enough: that is no reason to say that none is. */
	assert_int_equal(reject_reason_of(&w, 9), REJECT_FULL);
	assert_int_equal(reject_reason_of(&w, 16), REJECT_TOO_LARGE);
	world_close(&w);
}

static void unplaced_pods_count_against_the_node_as_a_whole(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){8, 8});
	occupy(&w, "stray", 9, "", NULL);
	/* 16 free, 9 of them on GPUs that nobody knows: 7 are sure. */
	assert_int_equal(reject_reason_of(&w, 7), FITS);
	assert_int_equal(reject_reason_of(&w, 8), REJECT_FULL);
	occupy(&w, "lost", 7, "", "GPU-gone");
	assert_int_equal(reject_reason_of(&w, 1), REJECT_FULL);
	world_close(&w);
}

static void free_units_of_sick_gpus_do_not_pay_for_unplaced_pods(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){8, 8});
	occupy(&w, "stray", 3, "", NULL);
	w.node.gpus[0].healthy = false;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	assert_int_equal(reject_reason_of(&w, 5), FITS);
	assert_int_equal(reject_reason_of(&w, 6), REJECT_FULL);
	world_close(&w);
}

static void fragmented_node_is_full_although_the_sum_would_do(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	occupy(&w, "a", 8, "", "GPU-n-0");
	occupy(&w, "b", 8, "", "GPU-n-1");
	assert_int_equal(reject_reason_of(&w, 7), FITS);
	assert_int_equal(reject_reason_of(&w, 8), REJECT_FULL);
	world_close(&w);
}

static void only_nodes_of_our_modes_with_an_inventory_serve(void **state)
{
	static const enum gpu_mode others[] = {GPU_MODE_NONE, GPU_MODE_TOPOLOGY, GPU_MODE_DRA};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		w.node.mode = others[i];
		assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
		assert_int_equal(reject_reason_of(&w, 1), REJECT_MODE);
	}
	w.node.mode = GPU_MODE_CGPU;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	assert_int_equal(reject_reason_of(&w, 15), FITS);
	w.node.mode = GPU_MODE_SHARE;
	w.node.n_gpus = 0;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	assert_int_equal(reject_reason_of(&w, 1), REJECT_NO_GPU_NODE);
	world_close(&w);
}

static void computing_power_is_not_promised_by_a_share_node(void **state)
{
	_cleanup_(request_release) struct request request = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	request_add(&request, "a", CONTAINER_MAIN, 0, "1", "30", NULL);
	assert_int_equal(placement_choose(ledger_node(&w.ledger, "n"), &request, "", NULL), REJECT_MODE);
	world_close(&w);
}

static void placement_is_untouched_when_nothing_fits(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct placement placement = {.unit_mib = 77};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	fixture_pod(&pod, "p", 16, "");
	assert_int_equal(placement_choose(ledger_node(&w.ledger, "n"), &pod.request, "", &placement),
		REJECT_TOO_LARGE);
	assert_int_equal(placement.unit_mib, 77);
	assert_null(placement.containers);
	world_close(&w);
}

static void reject_reason_texts_are_the_documented_ones(void **state)
{
	struct request request = {.units = 3};
	char buf[64];

	assert_string_equal(
		reject_reason_text(REJECT_FULL, &request, buf, sizeof(buf)), "no GPU has 3 units free");
	assert_string_equal(
		reject_reason_text(REJECT_TOO_LARGE, &request, buf, sizeof(buf)), "no GPU is that large");
	assert_string_equal(
		reject_reason_text(REJECT_MODE, &request, buf, sizeof(buf)), "GPU sharing mode does not fit");
	assert_string_equal(reject_reason_text(REJECT_INSTANCES, &request, buf, sizeof(buf)),
		"GPU has its maximum of containers");
	assert_string_equal(reject_reason_text(REJECT_NO_GPU_NODE, &request, buf, sizeof(buf)),
		"GPU node's agent is not serving");
}

static void two_container_request(struct request *ret_request)
{
	request_init(ret_request);
	request_add(ret_request, "a", CONTAINER_MAIN, 0, "2", NULL, NULL);
	request_add(ret_request, "b", CONTAINER_MAIN, 1, "3", NULL, NULL);
}

static void placement_matches_only_its_own_request(void **state)
{
	_cleanup_(request_release) struct request request;
	_cleanup_placement_ struct placement right = {0}, other_gpu = {0}, amount = {0}, missing = {0},
					     stranger = {0}, two_gpus = {0}, core = {0};

	two_container_request(&request);
	placement_add(&right, "b", "GPU-1", 3, 0);
	placement_add(&right, "a", "GPU-1", 2, 0);
	assert_true(placement_matches(&right, &request));
	placement_add(&other_gpu, "a", "GPU-1", 2, 0);
	placement_add(&other_gpu, "b", "GPU-2", 3, 0);
	assert_false(placement_matches(&other_gpu, &request));
	placement_add(&amount, "a", "GPU-1", 3, 0);
	placement_add(&amount, "b", "GPU-1", 3, 0);
	assert_false(placement_matches(&amount, &request));
	placement_add(&missing, "a", "GPU-1", 2, 0);
	assert_false(placement_matches(&missing, &request));
	placement_add(&stranger, "a", "GPU-1", 2, 0);
	placement_add(&stranger, "c", "GPU-1", 3, 0);
	assert_false(placement_matches(&stranger, &request));
	placement_add(&two_gpus, "a", "GPU-1", 2, 0);
	placement_add(&two_gpus, "b", "GPU-1", 3, 0);
	placement_add(&two_gpus, "b", "GPU-2", 0, 0);
	assert_false(placement_matches(&two_gpus, &request));
	placement_add(&core, "a", "GPU-1", 2, 5);
	placement_add(&core, "b", "GPU-1", 3, 0);
	assert_false(placement_matches(&core, &request));
}

static void placement_add_refuses_uuids_that_have_no_room_or_are_empty(void **state)
{
	_cleanup_placement_ struct placement placement = {0};
	char uuid[GPU_UUID_SIZE + 1];

	memset(uuid, 'x', sizeof(uuid));
	uuid[GPU_UUID_SIZE] = '\0';
	assert_int_equal(placement_add(&placement, "a", uuid, 1, 0), -EINVAL);
	assert_int_equal(placement_add(&placement, "a", "", 1, 0), -EINVAL);
	uuid[GPU_UUID_SIZE - 1] = '\0';
	assert_int_equal(placement_add(&placement, "a", uuid, 1, 0), 0);
	assert_int_equal(placement_add(&placement, "a", uuid, 1, 0), -EEXIST);
	assert_int_equal(placement.containers[0].n_gpus, 1);
}

static void placement_add_has_limits(void **state)
{
	_cleanup_placement_ struct placement placement = {0};
	char name[32];

	for (int i = 0; i < NODE_GPUS_MAX; i++) {
		snprintf(name, sizeof(name), "GPU-%d", i);
		assert_int_equal(placement_add(&placement, "c0", name, 1, 0), 0);
	}
	assert_int_equal(placement_add(&placement, "c0", "GPU-one-more", 1, 0), -E2BIG);
	for (int i = 1; i < REQUEST_CONTAINERS_MAX; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		assert_int_equal(placement_add(&placement, name, "GPU-0", 1, 0), 0);
	}
	assert_int_equal(placement_add(&placement, "one-more", "GPU-0", 1, 0), -E2BIG);
	assert_int_equal(placement_add(&placement, "c1", "GPU-1", 1, 0), 0);
}

static void placement_copy_equals_and_is_independent(void **state)
{
	_cleanup_placement_ struct placement placement = {.unit_mib = 128}, copy = {0};

	placement_add(&placement, "a", "GPU-1", 2, 30);
	placement_add(&placement, "a", "GPU-2", 2, 30);
	placement_add(&placement, "b", "GPU-1", 1, 0);
	assert_int_equal(placement_copy(&placement, &copy), 0);
	assert_true(placement_equal(&placement, &copy));
	copy.containers[0].gpus[1].units = 3;
	assert_false(placement_equal(&placement, &copy));
	copy.containers[0].gpus[1].units = 2;
	copy.unit_mib = 1024;
	assert_false(placement_equal(&placement, &copy));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(binpack_takes_the_fullest_gpu_that_fits),
		cmocka_unit_test(spread_takes_the_emptiest_gpu),
		cmocka_unit_test(spread_prefers_a_gpu_without_a_pod_of_the_same_owner),
		cmocka_unit_test(binpack_ignores_the_owner),
		cmocka_unit_test(ties_go_to_the_lowest_index_wherever_it_stands_in_the_list),
		cmocka_unit_test(contract_5_has_20_containers_on_a_gpu_and_16_with_a_small_unit),
		cmocka_unit_test(the_21st_container_finds_no_room_though_there_are_units),
		cmocka_unit_test(a_share_node_has_no_limit_of_containers),
		cmocka_unit_test(containers_that_run_alone_count_once),
		cmocka_unit_test(on_several_gpus_each_needs_room_for_the_containers),
		cmocka_unit_test(gpus_of_different_size_count_with_their_own),
		cmocka_unit_test(all_containers_go_to_one_gpu_with_what_each_asks),
		cmocka_unit_test(a_pod_that_asks_for_no_units_gets_no_unhealthy_gpu),
		cmocka_unit_test(unhealthy_gpus_get_no_new_pods_and_keep_the_old),
		cmocka_unit_test(unplaced_pods_count_against_the_node_as_a_whole),
		cmocka_unit_test(free_units_of_sick_gpus_do_not_pay_for_unplaced_pods),
		cmocka_unit_test(fragmented_node_is_full_although_the_sum_would_do),
		cmocka_unit_test(only_nodes_of_our_modes_with_an_inventory_serve),
		cmocka_unit_test(computing_power_is_not_promised_by_a_share_node),
		cmocka_unit_test(placement_is_untouched_when_nothing_fits),
		cmocka_unit_test(reject_reason_texts_are_the_documented_ones),
		cmocka_unit_test(placement_matches_only_its_own_request),
		cmocka_unit_test(placement_add_refuses_uuids_that_have_no_room_or_are_empty),
		cmocka_unit_test(placement_add_has_limits),
		cmocka_unit_test(placement_copy_equals_and_is_independent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
