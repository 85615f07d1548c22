#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/registry/node-ledger.h"
#include "model-fixture.h"

#define NODE_GPUS ((const uint32_t[]){15, 15})

struct world {
	struct ledger ledger;
	struct node_facts node; /* "n", two GPUs of 15 units */
};

static int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	ledger_init(&w->ledger);
	fixture_node(&w->node, "n", GPU_POLICY_BINPACK, 2, NODE_GPUS);
	*state = w;
	return ledger_set_node(&w->ledger, &w->node);
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

static const struct gpu_ledger *gpu(struct world *w, int i)
{
	return &ledger_node(&w->ledger, "n")->gpus[i];
}

static void assert_used(struct world *w, uint32_t gpu0, uint32_t gpu1, uint32_t unplaced)
{
	assert_int_equal(gpu(w, 0)->units_used, gpu0);
	assert_int_equal(gpu(w, 1)->units_used, gpu1);
	assert_int_equal(ledger_node(&w->ledger, "n")->unplaced_units, unplaced);
	assert_int_equal(ledger_check(&w->ledger, NULL), 0);
}

/* What the API server shows of pod "p" with 3 units: bound to node on uuid, or waiting if node is NULL. */
static void show(struct world *w, const char *node, const char *uuid)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "p", 3, "");
	if (node)
		fixture_bind(&pod, node, uuid);
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

static void show_finished(struct world *w)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "p", 3, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	pod.finished = true;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

static int claim(struct world *w, const char *uid, uint32_t units, const char *node, const char *uuid,
	bool reserve, int64_t expires_ns)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};

	fixture_pod(&pod, uid, units, "");
	fixture_place(&placement, &pod.request, uuid);
	if (reserve)
		return ledger_reserve(&w->ledger, &pod, node, &placement);
	return ledger_hold(&w->ledger, &pod, node, &placement, expires_ns);
}

static int hold(struct world *w, const char *uuid, int64_t expires_ns)
{
	return claim(w, "p", 3, "n", uuid, false, expires_ns);
}

static int reserve(struct world *w, const char *uuid)
{
	return claim(w, "p", 3, "n", uuid, true, 0);
}

static enum occupancy occupancy(struct world *w)
{
	return ledger_pod(&w->ledger, "p")->occupancy;
}

static void ledger_counts_a_bound_pod_once_however_often_it_is_shown(void **state)
{
	show(*state, "n", "GPU-n-1");
	show(*state, "n", "GPU-n-1");
	assert_used(*state, 0, 3, 0);
	assert_int_equal(gpu(*state, 1)->instances, 1);
	assert_int_equal(gpu(*state, 1)->units_total, 15);
	assert_int_equal(occupancy(*state), OCCUPANCY_BOUND);
}

static void ledger_does_not_unbind_a_pod_for_an_older_event(void **state)
{
	show(*state, "n", "GPU-n-1");
	show(*state, NULL, NULL);
	assert_used(*state, 0, 3, 0);
	assert_string_equal(ledger_pod(&((struct world *)*state)->ledger, "p")->facts.node, "n");
}

static void ledger_keeps_the_first_placement_of_a_bound_pod(void **state)
{
	show(*state, "n", "GPU-n-1");
	show(*state, "n", "GPU-n-0");
	assert_used(*state, 0, 3, 0);
	show(*state, "n", NULL);
	assert_used(*state, 0, 3, 0);
}

static void ledger_keeps_no_pod_that_asks_for_nothing(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "p", 0, "");
	fixture_bind(&pod, "n", NULL);
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_null(ledger_pod(&w->ledger, "p"));
}

static void ledger_counts_a_pod_without_placement_against_the_node(void **state)
{
	show(*state, "n", NULL);
	assert_used(*state, 0, 0, 3);
}

static void ledger_counts_a_placement_that_names_no_gpu_against_the_node(void **state)
{
	show(*state, "n", "GPU-elsewhere");
	assert_used(*state, 0, 0, 3);
}

static void ledger_believes_no_placement_that_does_not_match_the_request(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "p", 3, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	pod.placement.containers[0].gpus[0].units = 1;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_used(w, 0, 0, 3);
}

static void ledger_frees_a_finished_pod_and_never_takes_it_back(void **state)
{
	show(*state, "n", "GPU-n-0");
	show_finished(*state);
	assert_used(*state, 0, 0, 0);
	show(*state, "n", "GPU-n-0");
	assert_used(*state, 0, 0, 0);
	assert_int_equal(hold(*state, "GPU-n-0", 100), -EBUSY);
	assert_int_equal(reserve(*state, "GPU-n-0"), -EBUSY);
}

static void ledger_frees_a_reserved_pod_that_finished(void **state)
{
	assert_int_equal(reserve(*state, "GPU-n-0"), 0);
	show_finished(*state);
	assert_used(*state, 0, 0, 0);
	ledger_confirm(&((struct world *)*state)->ledger, "p");
	assert_used(*state, 0, 0, 0);
}

static void ledger_ignores_a_pod_whose_end_is_all_that_was_seen(void **state)
{
	show_finished(*state);
	show(*state, "n", "GPU-n-0");
	assert_used(*state, 0, 0, 0);
}

static void ledger_frees_a_deleted_pod_and_knows_nothing_of_it_afterwards(void **state)
{
	struct world *w = *state;

	show(w, "n", "GPU-n-0");
	ledger_remove_pod(&w->ledger, "p");
	assert_used(w, 0, 0, 0);
	assert_null(ledger_pod(&w->ledger, "p"));
	ledger_remove_pod(&w->ledger, "p");
	ledger_remove_pod(&w->ledger, "unknown");
	assert_used(w, 0, 0, 0);
}

static void ledger_keeps_a_deleting_pod_until_it_is_gone(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "p", 3, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	pod.deleting = true;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_used(w, 3, 0, 0);
	/* An older event does not undo it. */
	show(w, "n", "GPU-n-0");
	assert_true(ledger_pod(&w->ledger, "p")->facts.deleting);
}

static void ledger_counts_a_pod_when_its_node_appears_later(void **state)
{
	struct world *w = *state;
	_cleanup_node_facts_ struct node_facts late;

	show(w, "late", "GPU-late-1");
	assert_int_equal(ledger_node(&w->ledger, "late")->unplaced_units, 3);
	fixture_node(&late, "late", GPU_POLICY_BINPACK, 2, NODE_GPUS);
	assert_int_equal(ledger_set_node(&w->ledger, &late), 0);
	assert_int_equal(ledger_node(&w->ledger, "late")->unplaced_units, 0);
	assert_int_equal(ledger_node(&w->ledger, "late")->gpus[1].units_used, 3);
}

static void ledger_forgets_an_unknown_node_with_its_last_pod(void **state)
{
	struct world *w = *state;

	show(w, "ghost", NULL);
	assert_non_null(ledger_node(&w->ledger, "ghost"));
	ledger_remove_pod(&w->ledger, "p");
	assert_null(ledger_node(&w->ledger, "ghost"));
}

static void ledger_keeps_the_pods_of_a_removed_node(void **state)
{
	struct world *w = *state;

	show(w, "n", "GPU-n-1");
	ledger_remove_node(&w->ledger, "n", "uid-n");
	assert_int_equal(ledger_node(&w->ledger, "n")->facts.n_gpus, 0);
	assert_int_equal(ledger_node(&w->ledger, "n")->unplaced_units, 3);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 0, 3, 0);
}

static void ledger_ignores_the_removal_of_an_earlier_node_of_that_name(void **state)
{
	struct world *w = *state;

	show(w, "n", "GPU-n-1");
	free(w->node.uid);
	w->node.uid = strdup("uid-second");
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	ledger_remove_node(&w->ledger, "n", "uid-n");
	assert_used(w, 0, 3, 0);
	ledger_remove_node(&w->ledger, "n", "uid-second");
	assert_int_equal(ledger_node(&w->ledger, "n")->facts.n_gpus, 0);
}

static void ledger_follows_a_gpu_by_uuid_when_indices_change(void **state)
{
	struct world *w = *state;
	struct gpu_facts swapped = w->node.gpus[0];

	show(w, "n", "GPU-n-1");
	w->node.gpus[0] = w->node.gpus[1];
	w->node.gpus[1] = swapped;
	w->node.gpus[0].index = 0;
	w->node.gpus[1].index = 1;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 3, 0, 0);
	assert_string_equal(gpu(w, 0)->facts.uuid, "GPU-n-1");
}

static void ledger_takes_over_a_fact_of_a_gpu_that_wakes_no_pod(void **state)
{
	struct world *w = *state;
	uint64_t generation = w->ledger.generation, mib = w->node.gpus[1].mib + 1;

	w->node.gpus[1].mib = mib;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(gpu(w, 1)->facts.mib, mib);
	assert_int_equal(w->ledger.generation, generation);
}

static void ledger_counts_pods_of_a_vanished_gpu_as_unplaced(void **state)
{
	struct world *w = *state;

	show(w, "n", "GPU-n-1");
	w->node.n_gpus = 1;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(ledger_node(&w->ledger, "n")->unplaced_units, 3);
	w->node.n_gpus = 2;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 0, 3, 0);
}

static void ledger_says_over_when_a_gpu_shrank_below_its_pods(void **state)
{
	struct world *w = *state;
	size_t over;

	show(w, "n", "GPU-n-1");
	w->node.gpus[1].mib = 2048;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(ledger_check(&w->ledger, &over), 0);
	assert_int_equal(over, 1);
	assert_int_equal(gpu(w, 1)->units_total, 2);
	assert_used(w, 0, 3, 0);
	ledger_remove_pod(&w->ledger, "p");
	assert_used(w, 0, 0, 0);
}

static void ledger_sums_of_absurd_pods_stop_at_the_top_and_come_down_again(void **state)
{
	struct world *w = *state;
	char uid[8];

	for (int i = 0; i < 6; i++) {
		_cleanup_pod_facts_ struct pod_facts pod = {0};

		snprintf(uid, sizeof(uid), "big%d", i);
		fixture_pod(&pod, uid, 0x3fffffff, "");
		fixture_bind(&pod, "n", i % 2 ? "GPU-n-0" : NULL);
		assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	}
	show(w, "n", "GPU-n-0");
	for (int i = 0; i < 6; i++) {
		snprintf(uid, sizeof(uid), "big%d", i);
		ledger_remove_pod(&w->ledger, uid);
		assert_int_equal(ledger_check(&w->ledger, NULL), 0);
	}
	assert_used(w, 3, 0, 0);
	assert_int_equal(ledger_node(&w->ledger, "n")->recounts, 0);
}

static void hold_occupies_until_it_expires(void **state)
{
	struct world *w = *state;

	show(w, NULL, NULL);
	assert_int_equal(hold(w, "GPU-n-0", 100), 0);
	assert_used(w, 3, 0, 0);
	assert_int_equal(ledger_expire(&w->ledger, 99), 0);
	assert_used(w, 3, 0, 0);
	assert_int_equal(ledger_expire(&w->ledger, 100), 1);
	assert_used(w, 0, 0, 0);
	assert_int_equal(occupancy(w), OCCUPANCY_WAITING);
	assert_int_equal(ledger_expire(&w->ledger, 200), 0);
}

static void hold_replaces_the_earlier_hold(void **state)
{
	struct world *w = *state;

	assert_int_equal(hold(w, "GPU-n-0", 100), 0);
	assert_int_equal(hold(w, "GPU-n-1", 300), 0);
	assert_used(w, 0, 3, 0);
	assert_int_equal(ledger_expire(&w->ledger, 200), 0);
	assert_int_equal(ledger_expire(&w->ledger, 300), 1);
	assert_used(w, 0, 0, 0);
}

static void hold_may_use_what_it_holds_itself(void **state)
{
	struct world *w = *state;

	assert_int_equal(claim(w, "p", 15, "n", "GPU-n-0", false, 100), 0);
	assert_int_equal(claim(w, "p", 15, "n", "GPU-n-0", false, 200), 0);
	assert_int_equal(claim(w, "p", 15, "n", "GPU-n-0", true, 0), 0);
	assert_used(w, 15, 0, 0);
}

static void hold_that_does_not_fit_leaves_the_earlier_one(void **state)
{
	struct world *w = *state;

	assert_int_equal(claim(w, "other", 13, "n", "GPU-n-1", true, 0), 0);
	assert_int_equal(hold(w, "GPU-n-0", 100), 0);
	assert_int_equal(hold(w, "GPU-n-1", 200), -ENOSPC);
	assert_int_equal(hold(w, "GPU-elsewhere", 200), -ENOSPC);
	assert_used(w, 3, 13, 0);
	assert_int_equal(ledger_expire(&w->ledger, 100), 1);
}

static void hold_knows_the_reasons_to_refuse(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};

	assert_int_equal(claim(w, "p", 3, "unknown", "GPU-n-0", false, 100), -ENOENT);
	fixture_pod(&pod, "p", 3, "");
	fixture_place(&placement, &pod.request, "GPU-n-0");
	placement.containers[0].gpus[0].units = 2;
	assert_int_equal(ledger_hold(&w->ledger, &pod, "n", &placement, 100), -EINVAL);
	assert_null(ledger_pod(&w->ledger, "p"));
	assert_null(ledger_node(&w->ledger, "unknown"));
	show(w, "n", "GPU-n-0");
	assert_int_equal(hold(w, "GPU-n-0", 100), -EBUSY);
}

static void hold_on_an_unhealthy_gpu_is_refused(void **state)
{
	struct world *w = *state;

	w->node.gpus[0].healthy = false;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(hold(w, "GPU-n-0", 100), -ENOSPC);
	assert_int_equal(reserve(w, "GPU-n-1"), 0);
}

static void hold_of_a_pod_never_shown_is_forgotten_with_it(void **state)
{
	struct world *w = *state;

	assert_int_equal(hold(w, "GPU-n-0", 100), 0);
	ledger_drop_hold(&w->ledger, "p");
	assert_null(ledger_pod(&w->ledger, "p"));
	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	ledger_release_reservation(&w->ledger, "p");
	assert_null(ledger_pod(&w->ledger, "p"));
}

static void hold_of_a_deleted_pod_ends(void **state)
{
	struct world *w = *state;

	assert_int_equal(hold(w, "GPU-n-0", 100), 0);
	ledger_remove_pod(&w->ledger, "p");
	assert_used(w, 0, 0, 0);
	assert_int_equal(ledger_expire(&w->ledger, 100), 0);
}

static void drop_hold_ends_nothing_but_a_hold(void **state)
{
	struct world *w = *state;

	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	ledger_drop_hold(&w->ledger, "p");
	ledger_drop_hold(&w->ledger, "unknown");
	assert_used(w, 3, 0, 0);
}

static void reservation_outlives_the_hold_it_came_from(void **state)
{
	struct world *w = *state;

	assert_int_equal(hold(w, "GPU-n-0", 100), 0);
	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	assert_int_equal(ledger_expire(&w->ledger, 1000), 0);
	assert_used(w, 3, 0, 0);
	assert_int_equal(occupancy(w), OCCUPANCY_RESERVED);
	assert_int_equal(reserve(w, "GPU-n-0"), -EBUSY);
	assert_int_equal(hold(w, "GPU-n-0", 100), -EBUSY);
}

static void reservation_stays_when_an_old_event_shows_the_pod_unbound(void **state)
{
	assert_int_equal(reserve(*state, "GPU-n-0"), 0);
	show(*state, NULL, NULL);
	assert_used(*state, 3, 0, 0);
	assert_int_equal(occupancy(*state), OCCUPANCY_RESERVED);
}

static void reservation_gives_way_to_what_the_api_server_shows(void **state)
{
	struct world *w = *state;

	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	show(w, "n", "GPU-n-1");
	assert_used(w, 0, 3, 0);
	ledger_release_reservation(&w->ledger, "p");
	assert_used(w, 0, 3, 0);
}

static void reservation_gives_way_to_a_binding_on_another_node(void **state)
{
	struct world *w = *state;

	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	show(w, "elsewhere", NULL);
	assert_used(w, 0, 0, 0);
	assert_int_equal(ledger_node(&w->ledger, "elsewhere")->unplaced_units, 3);
}

static void ledger_confirm_twice_changes_nothing(void **state)
{
	struct world *w = *state;

	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	ledger_confirm(&w->ledger, "p");
	ledger_confirm(&w->ledger, "p");
	assert_int_equal(occupancy(w), OCCUPANCY_BOUND);
	ledger_release_reservation(&w->ledger, "p");
	assert_used(w, 3, 0, 0);
	show(w, "n", "GPU-n-0");
	assert_used(w, 3, 0, 0);
}

static void ledger_release_twice_changes_nothing(void **state)
{
	struct world *w = *state;

	show(w, NULL, NULL);
	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	ledger_release_reservation(&w->ledger, "p");
	ledger_release_reservation(&w->ledger, "p");
	assert_used(w, 0, 0, 0);
	ledger_confirm(&w->ledger, "p");
	assert_int_equal(occupancy(w), OCCUPANCY_WAITING);
	assert_used(w, 0, 0, 0);
}

static void ledger_confirm_after_the_deletion_brings_nothing_back(void **state)
{
	struct world *w = *state;

	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	show(w, "n", "GPU-n-0");
	ledger_remove_pod(&w->ledger, "p");
	ledger_confirm(&w->ledger, "p");
	assert_used(w, 0, 0, 0);
}

static void generation_grows_when_something_becomes_free(void **state)
{
	struct world *w = *state;
	uint64_t before;

	assert_int_equal(hold(w, "GPU-n-0", 100), 0);
	before = w->ledger.generation;
	assert_int_equal(reserve(w, "GPU-n-0"), 0);
	show(w, "n", "GPU-n-0");
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(w->ledger.generation, before);
	ledger_remove_pod(&w->ledger, "p");
	assert_true(w->ledger.generation > before);
	before = w->ledger.generation;
	w->node.gpus[0].mib *= 2;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_true(w->ledger.generation > before);
}

static void choose_sees_the_node_without_the_pods_own_hold(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0}, other = {0};
	_cleanup_placement_ struct placement placement = {0};

	assert_int_equal(claim(w, "p", 15, "n", "GPU-n-0", false, 100), 0);
	assert_int_equal(claim(w, "q", 15, "n", "GPU-n-1", false, 100), 0);
	fixture_pod(&pod, "p", 15, "");
	fixture_pod(&other, "r", 1, "");
	assert_int_equal(ledger_choose(&w->ledger, "n", &pod, &placement), FITS);
	assert_string_equal(placement.containers[0].gpus[0].uuid, "GPU-n-0");
	assert_int_equal(ledger_choose(&w->ledger, "n", &other, NULL), REJECT_FULL);
	assert_int_equal(ledger_choose(&w->ledger, "unknown", &other, NULL), REJECT_NO_GPU_NODE);
	assert_used(w, 15, 15, 0);
}

static void gpu_mode_parse_knows_the_six_words(void **state)
{
	enum gpu_mode mode = GPU_MODE_TOPOLOGY;

	assert_int_equal(gpu_mode_parse("", &mode), 0);
	assert_int_equal(mode, GPU_MODE_NONE);
	for (int i = 0; i < GPU_MODE_MAX; i++) {
		assert_int_equal(gpu_mode_parse(gpu_mode_text((enum gpu_mode)i), &mode), 0);
		assert_int_equal(mode, i);
	}
	assert_string_equal(gpu_mode_text(GPU_MODE_CORE_MEM), "core_mem");
	assert_string_equal(gpu_mode_text(GPU_MODE_DRA), "dra");
	assert_int_equal(gpu_mode_parse("mps", &mode), -EINVAL);
	assert_int_equal(gpu_mode_parse("Share", &mode), -EINVAL);
}

#define ledger_test(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

/* A caller that changes one fact of a node shows all others again. */
static void what_the_ledger_says_of_a_node_is_what_it_was_shown(void **state)
{
	struct world *w = *state;
	struct node_facts facts;

	w->node.models = strdup("T4,Tesla-T4");
	w->node.address = strdup("10.0.0.1");
	w->node.instances_max = 16;
	w->node.host = (struct host_amount){.cpu_milli = 16000, .memory_mib = 65536};
	w->node.policy = GPU_POLICY_SPREAD;
	w->node.mixing = w->node.changing = w->node.held_unreadable = true;
	w->node.serving = false;
	w->node.gpus[1].healthy = false;
	strcpy(w->node.details[1].reason, "Xid 79");
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	node_ledger_facts(ledger_node(&w->ledger, "n"), &facts);
	assert_string_equal(facts.name, "n");
	assert_string_equal(facts.uid, w->node.uid);
	assert_string_equal(facts.address, "10.0.0.1");
	assert_string_equal(facts.models, "T4,Tesla-T4");
	assert_int_equal(facts.mode, w->node.mode);
	assert_int_equal(facts.policy, GPU_POLICY_SPREAD);
	assert_int_equal(facts.unit_mib, w->node.unit_mib);
	assert_int_equal(facts.n_gpus, 2);
	assert_int_equal(facts.instances_max, 16);
	assert_int_equal(facts.host.cpu_milli, 16000);
	assert_int_equal(facts.host.memory_mib, 65536);
	assert_true(facts.mixing && facts.changing && facts.held_unreadable && !facts.serving);
	assert_true(facts.gpus[0].healthy && !facts.gpus[1].healthy);
	assert_string_equal(facts.details[1].reason, "Xid 79");
	/* Shown again, nothing changes. */
	assert_int_equal(ledger_set_node(&w->ledger, &facts), 0);
	assert_string_equal(ledger_node(&w->ledger, "n")->model->names, "T4,Tesla-T4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ledger_test(ledger_counts_a_bound_pod_once_however_often_it_is_shown),
		ledger_test(ledger_does_not_unbind_a_pod_for_an_older_event),
		ledger_test(ledger_keeps_the_first_placement_of_a_bound_pod),
		ledger_test(ledger_keeps_no_pod_that_asks_for_nothing),
		ledger_test(ledger_counts_a_pod_without_placement_against_the_node),
		ledger_test(ledger_counts_a_placement_that_names_no_gpu_against_the_node),
		ledger_test(ledger_believes_no_placement_that_does_not_match_the_request),
		ledger_test(ledger_frees_a_finished_pod_and_never_takes_it_back),
		ledger_test(ledger_frees_a_reserved_pod_that_finished),
		ledger_test(ledger_ignores_a_pod_whose_end_is_all_that_was_seen),
		ledger_test(ledger_frees_a_deleted_pod_and_knows_nothing_of_it_afterwards),
		ledger_test(ledger_keeps_a_deleting_pod_until_it_is_gone),
		ledger_test(ledger_counts_a_pod_when_its_node_appears_later),
		ledger_test(ledger_forgets_an_unknown_node_with_its_last_pod),
		ledger_test(ledger_keeps_the_pods_of_a_removed_node),
		ledger_test(ledger_ignores_the_removal_of_an_earlier_node_of_that_name),
		ledger_test(ledger_follows_a_gpu_by_uuid_when_indices_change),
		ledger_test(ledger_takes_over_a_fact_of_a_gpu_that_wakes_no_pod),
		ledger_test(ledger_counts_pods_of_a_vanished_gpu_as_unplaced),
		ledger_test(ledger_says_over_when_a_gpu_shrank_below_its_pods),
		ledger_test(ledger_sums_of_absurd_pods_stop_at_the_top_and_come_down_again),
		ledger_test(hold_occupies_until_it_expires),
		ledger_test(hold_replaces_the_earlier_hold),
		ledger_test(hold_may_use_what_it_holds_itself),
		ledger_test(hold_that_does_not_fit_leaves_the_earlier_one),
		ledger_test(hold_knows_the_reasons_to_refuse),
		ledger_test(hold_on_an_unhealthy_gpu_is_refused),
		ledger_test(hold_of_a_pod_never_shown_is_forgotten_with_it),
		ledger_test(hold_of_a_deleted_pod_ends),
		ledger_test(drop_hold_ends_nothing_but_a_hold),
		ledger_test(reservation_outlives_the_hold_it_came_from),
		ledger_test(reservation_stays_when_an_old_event_shows_the_pod_unbound),
		ledger_test(reservation_gives_way_to_what_the_api_server_shows),
		ledger_test(reservation_gives_way_to_a_binding_on_another_node),
		ledger_test(ledger_confirm_twice_changes_nothing),
		ledger_test(ledger_release_twice_changes_nothing),
		ledger_test(ledger_confirm_after_the_deletion_brings_nothing_back),
		ledger_test(generation_grows_when_something_becomes_free),
		ledger_test(choose_sees_the_node_without_the_pods_own_hold),
		ledger_test(what_the_ledger_says_of_a_node_is_what_it_was_shown),
		cmocka_unit_test(gpu_mode_parse_knows_the_six_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
