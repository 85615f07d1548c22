#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/placement/explain.h"
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

static void occupy(struct world *w, const char *uid, uint32_t units, const char *owner, const char *uuid)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, uid, units, owner);
	fixture_bind(&pod, "n", uuid);
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

static struct node_explanation explain(struct world *w, uint32_t units, const char *owner)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct node_explanation explanation;

	fixture_pod(&pod, "asking", units, owner);
	ledger_explain(&w->ledger, "n", &pod, &explanation);
	return explanation;
}

static void each_gpu_has_its_own_reason(void **state)
{
	struct node_explanation e;
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 4, (const uint32_t[]){15, 5, 15, 15});
	w.node.gpus[3].healthy = false;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	occupy(&w, "a", 10, "", "GPU-n-0");
	e = explain(&w, 6, "");
	assert_int_equal(e.reject_reason, FITS);
	assert_int_equal(e.n_gpus, 4);
	assert_int_equal(e.gpus[0].reject_reason, GPU_FULL);
	assert_int_equal(e.gpus[0].units_free, 5);
	assert_int_equal(e.gpus[1].reject_reason, GPU_TOO_SMALL);
	assert_int_equal(e.gpus[2].reject_reason, GPU_FITS);
	assert_int_equal(e.gpus[3].reject_reason, GPU_UNHEALTHY);
	world_close(&w);
}

static void turns_follow_binpack(void **state)
{
	struct node_explanation e;
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 3, (const uint32_t[]){15, 15, 15});
	occupy(&w, "a", 3, "", "GPU-n-2");
	occupy(&w, "b", 14, "", "GPU-n-1");
	e = explain(&w, 2, "");
	assert_int_equal(e.gpus[2].turn, 1);
	assert_int_equal(e.gpus[0].turn, 2);
	assert_int_equal(e.gpus[1].turn, 0);
	world_close(&w);
}

static void turns_follow_spread_and_the_owner(void **state)
{
	struct node_explanation e;
	struct world w;

	world_open(&w, GPU_POLICY_SPREAD, 3, (const uint32_t[]){15, 15, 15});
	occupy(&w, "a", 1, "job", "GPU-n-0");
	occupy(&w, "b", 4, "other", "GPU-n-1");
	e = explain(&w, 2, "job");
	assert_int_equal(e.gpus[2].turn, 1);
	assert_int_equal(e.gpus[1].turn, 2);
	assert_int_equal(e.gpus[0].turn, 3);
	world_close(&w);
}

static void unplaced_pods_make_a_node_full_whose_gpu_fits(void **state)
{
	struct node_explanation e;
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	occupy(&w, "by-hand", 14, "", NULL);
	e = explain(&w, 2, "");
	assert_int_equal(e.reject_reason, REJECT_FULL);
	assert_int_equal(e.gpus[0].reject_reason, GPU_FITS);
	world_close(&w);
}

static void a_pods_own_hold_is_not_in_its_way(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	struct node_explanation e;
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	fixture_pod(&pod, "asking", 15, "");
	fixture_place(&placement, &pod.request, "GPU-n-0");
	assert_int_equal(ledger_hold(&w.ledger, &pod, "n", &placement, 1000), 0);
	e = explain(&w, 15, "");
	assert_int_equal(e.reject_reason, FITS);
	assert_int_equal(e.gpus[0].units_free, 15);
	assert_int_equal(ledger_node(&w.ledger, "n")->gpus[0].units_used, 15);
	world_close(&w);
}

static void an_unknown_node_has_no_gpus_and_a_reason(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	struct node_explanation e;
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	fixture_pod(&pod, "asking", 1, "");
	ledger_explain(&w.ledger, "elsewhere", &pod, &e);
	assert_int_equal(e.reject_reason, REJECT_NO_GPU_NODE);
	assert_int_equal(e.n_gpus, 0);
	world_close(&w);
}

/* What is shown as the first turn is what placement_choose() takes, whatever lies on the GPUs. */
static void the_first_turn_is_the_choice(void **state)
{
	unsigned seed = 7;

	for (int round = 0; round < 2000; round++) {
		enum gpu_policy policy = round % 2 ? GPU_POLICY_SPREAD : GPU_POLICY_BINPACK;
		_cleanup_pod_facts_ struct pod_facts pod = {0};
		_cleanup_placement_ struct placement placement = {0};
		struct node_explanation e;
		struct world w;
		int r;

		world_open(&w, policy, 4, (const uint32_t[]){15, 7, 15, 30});
		for (int i = 0; i < 6; i++) {
			char uid[16], uuid[32];

			snprintf(uid, sizeof(uid), "p%d", i);
			snprintf(uuid, sizeof(uuid), "GPU-n-%d", rand_r(&seed) % 4);
			occupy(&w, uid, 1 + (uint32_t)rand_r(&seed) % 9, i % 2 ? "job" : "", uuid);
		}
		fixture_pod(&pod, "asking", 1 + (uint32_t)rand_r(&seed) % 20, "job");
		ledger_explain(&w.ledger, "n", &pod, &e);
		r = ledger_choose(&w.ledger, "n", &pod, &placement);
		assert_int_equal(e.reject_reason, r);
		for (size_t i = 0; i < e.n_gpus; i++) {
			bool taken = r == FITS && strcmp(placement.containers[0].gpus[0].uuid,
							  e.gpus[i].gpu->facts.uuid) == 0;

			assert_int_equal(e.gpus[i].turn == 1 && r == FITS, taken);
			assert_int_equal(e.gpus[i].turn > 0, e.gpus[i].reject_reason == GPU_FITS);
		}
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_gpu_has_its_own_reason),
		cmocka_unit_test(turns_follow_binpack),
		cmocka_unit_test(turns_follow_spread_and_the_owner),
		cmocka_unit_test(unplaced_pods_make_a_node_full_whose_gpu_fits),
		cmocka_unit_test(a_pods_own_hold_is_not_in_its_way),
		cmocka_unit_test(an_unknown_node_has_no_gpus_and_a_reason),
		cmocka_unit_test(the_first_turn_is_the_choice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
