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
#include "model-fixture.h"

#define NODE_GPUS ((const uint32_t[]){15, 15})
#define EXPIRES 30
#define SECOND INT64_C(1000000000)

struct world {
	struct ledger ledger;
	struct node_facts node; /* "n", two GPUs of 15 units; pod "p" with 3 of GPU-n-0 runs there */
};

static void show(struct world *w, const char *uid, bool running, bool finished)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, uid, 3, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	pod.running = running;
	pod.finished = finished;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

static int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	ledger_init(&w->ledger);
	fixture_node(&w->node, "n", GPU_POLICY_BINPACK, 2, NODE_GPUS);
	*state = w;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	show(w, "p", true, false);
	return 0;
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

static void assert_used(struct world *w, uint32_t gpu0, uint32_t gpu1)
{
	const struct node_ledger *node = ledger_node(&w->ledger, "n");

	assert_int_equal(node->gpus[0].units_used, gpu0);
	assert_int_equal(node->gpus[1].units_used, gpu1);
	assert_int_equal(node->unplaced_units, 0);
	assert_int_equal(ledger_check(&w->ledger, NULL), 0);
}

/* The agent writes held anew: at, the pod that lives (NULL: none) on GPU-n-0, the one that ended. */
static void say(struct world *w, const char *at, const char *lives, const char *ended)
{
	struct held *held = &w->node.held;
	struct held_pod *pod;

	held_release(held);
	snprintf(held->at, sizeof(held->at), "%s", at);
	held->names_ended = true;
	if (lives) {
		assert_int_equal(held_add_pod(held, lives, "default", lives, &pod), 0);
		assert_int_equal(held_pod_add_gpu(pod, "GPU-n-0", 3, 0), 0);
	}
	if (ended)
		assert_int_equal(held_add_ended(held, ended), 0);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

/* The watch of nodes has told everything. */
static size_t expire(struct world *w, int64_t now_ns)
{
	w->ledger.nodes_told_ns = now_ns;
	return ledger_expire(&w->ledger, now_ns);
}

static void a_deleted_pod_that_ran_keeps_its_gpu_until_its_time_is_over(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	assert_used(w, 3, 0);
	assert_int_equal(ledger_pod(&w->ledger, "p")->occupancy, OCCUPANCY_ORPHAN);
	assert_int_equal(expire(w, EXPIRES - 1), 0);
	assert_used(w, 3, 0);
	assert_int_equal(expire(w, EXPIRES), 1);
	assert_used(w, 0, 0);
	assert_null(ledger_pod(&w->ledger, "p"));
}

/* The LIST of pods came before that of nodes. It was a use after free; found by the simulation. */
static void a_node_that_only_an_orphan_named_is_known_when_the_orphan_has_ended(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	ledger_remove_node(&w->ledger, w->node.name, w->node.uid);
	assert_int_equal(ledger_node(&w->ledger, w->node.name)->facts.n_gpus, 0);
	say(w, "2", NULL, "p");
	assert_used(w, 0, 0);
	assert_int_equal(ledger_node(&w->ledger, w->node.name)->facts.n_gpus, 2);
}

static void a_deleted_pod_whose_containers_ended_leaves_at_once(void **state)
{
	struct world *w = *state;

	show(w, "p", false, false);
	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	assert_used(w, 0, 0);
}

static void a_deleted_pod_that_was_only_reserved_leaves_at_once(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};

	fixture_pod(&pod, "q", 5, "");
	fixture_place(&placement, &pod.request, "GPU-n-1");
	assert_int_equal(ledger_reserve(&w->ledger, &pod, "n", &placement), 0);
	assert_used(w, 3, 5);
	ledger_delete_pod(&w->ledger, "q", EXPIRES);
	assert_used(w, 3, 0);
}

static void an_orphan_ends_when_its_node_says_that_it_ended(void **state)
{
	struct world *w = *state;
	uint64_t before;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	before = w->ledger.generation;
	say(w, "1", NULL, "p");
	assert_used(w, 0, 0);
	assert_true(w->ledger.generation > before);
}

static void what_the_node_says_of_another_pod_ends_no_orphan(void **state)
{
	struct world *w = *state;

	show(w, "q", true, false);
	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	ledger_delete_pod(&w->ledger, "q", EXPIRES);
	/* The agent has seen the deletion of p only. */
	say(w, "1", "p", NULL);
	assert_used(w, 6, 0);
	say(w, "2", "p", "q");
	assert_used(w, 3, 0);
}

static void an_orphan_that_lives_outlasts_its_time(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	say(w, "1", "p", NULL);
	assert_int_equal(expire(w, 10 * EXPIRES), 0);
	assert_used(w, 3, 0);
	say(w, "2", NULL, "p");
	assert_used(w, 0, 0);
}

/* From the moment at which ledger_expire() has seen it. */
static void assert_ends_by_time(struct world *w, int64_t from_ns)
{
	assert_int_equal(expire(w, from_ns), 0);
	assert_int_equal(expire(w, from_ns + ORPHAN_NS - 1), 0);
	assert_int_equal(expire(w, from_ns + ORPHAN_NS), 1);
}

/* Its agent would name it as ended. */
static void an_orphan_that_is_listed_no_more_without_a_word_ends_by_time(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	say(w, "1", "p", NULL);
	say(w, "2", NULL, NULL);
	assert_used(w, 3, 0);
	assert_ends_by_time(w, 100 * SECOND);
	assert_used(w, 0, 0);
}

static void an_orphan_stays_when_somebody_takes_the_annotation_away(void **state)
{
	struct world *w = *state;

	say(w, "1", "g", NULL);
	assert_used(w, 6, 0);
	held_release(&w->node.held);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 6, 0);
	assert_int_equal(expire(w, 100 * SECOND), 0);
	say(w, "2", "g", NULL);
	assert_int_equal(expire(w, 1000 * SECOND), 0);
	assert_used(w, 6, 0);
	say(w, "3", NULL, "g");
	assert_used(w, 3, 0);
}

static void an_orphan_does_not_end_by_time_while_its_agent_is_silent(void **state)
{
	struct world *w = *state;

	ledger_hear_agent(&w->ledger, "n", 100 * SECOND);
	ledger_hear_agent(&w->ledger, "unknown", 100 * SECOND);
	ledger_delete_pod(&w->ledger, "p", 131 * SECOND);
	assert_int_equal(expire(w, 131 * SECOND), 0);
	assert_int_equal(expire(w, 100000 * SECOND), 0);
	assert_used(w, 3, 0);
	/* It has to see first what happened while it was away. */
	ledger_hear_agent(&w->ledger, "n", 100001 * SECOND);
	ledger_hear_agent(&w->ledger, "n", 99 * SECOND);
	ledger_hear_agent(&w->ledger, "n", 100011 * SECOND);
	ledger_hear_agent(&w->ledger, "n", 100021 * SECOND);
	assert_int_equal(expire(w, 100031 * SECOND - 1), 0);
	assert_used(w, 3, 0);
	assert_int_equal(expire(w, 100031 * SECOND), 1);
	assert_used(w, 0, 0);
}

static void an_orphan_ends_by_time_while_its_agent_is_heard(void **state)
{
	struct world *w = *state;

	ledger_hear_agent(&w->ledger, "n", 100 * SECOND);
	ledger_delete_pod(&w->ledger, "p", 131 * SECOND);
	ledger_hear_agent(&w->ledger, "n", 110 * SECOND);
	ledger_hear_agent(&w->ledger, "n", 120 * SECOND);
	assert_int_equal(expire(w, 131 * SECOND), 1);
}

/* What the agent wrote in this time may be on a connection that is dead. */
static void an_orphan_does_not_end_by_time_while_the_watch_of_nodes_is_silent(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", 131 * SECOND);
	w->ledger.nodes_told_ns = 131 * SECOND - 1;
	assert_int_equal(ledger_expire(&w->ledger, 135 * SECOND), 0);
	assert_used(w, 3, 0);
	w->ledger.nodes_told_ns = 131 * SECOND;
	assert_int_equal(ledger_expire(&w->ledger, 135 * SECOND), 1);
	assert_used(w, 0, 0);
}

/* The chart is removed, and with it the Lease. */
static void an_orphan_ends_by_time_on_a_node_without_an_agent(void **state)
{
	struct world *w = *state;

	ledger_hear_agent(&w->ledger, "n", 100 * SECOND);
	ledger_delete_pod(&w->ledger, "p", 131 * SECOND);
	ledger_hear_agent(&w->ledger, "n", 0);
	assert_int_equal(expire(w, 131 * SECOND), 1);
}

static void what_the_node_said_before_the_deletion_counts_as_well(void **state)
{
	struct world *w = *state;

	say(w, "1", NULL, "p");
	assert_used(w, 3, 0);
	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	assert_used(w, 0, 0);
	show(w, "q", true, false);
	say(w, "2", "q", NULL);
	assert_used(w, 3, 0);
	ledger_delete_pod(&w->ledger, "q", EXPIRES);
	assert_int_equal(expire(w, 10 * EXPIRES), 0);
	assert_used(w, 3, 0);
}

static void an_agent_that_names_no_ended_pods_ends_orphans_by_a_new_time(void **state)
{
	struct world *w = *state;

	say(w, "1", NULL, NULL);
	w->node.held.names_ended = false;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 3, 0);
	snprintf(w->node.held.at, sizeof(w->node.held.at), "2");
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 0, 0);
}

static void a_new_ledger_learns_of_orphans_from_the_node(void **state)
{
	struct world *w = *state;

	say(w, "1", "g", NULL);
	assert_used(w, 6, 0);
	assert_int_equal(ledger_pod(&w->ledger, "g")->occupancy, OCCUPANCY_ORPHAN);
	assert_string_equal(ledger_pod(&w->ledger, "g")->facts.name, "g");
	assert_int_equal(expire(w, INT64_MAX), 0);
	/* Again, as any change of the node shows it. */
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 6, 0);
	say(w, "2", NULL, "g");
	assert_used(w, 3, 0);
}

static void a_pod_that_the_node_wrongly_lists_is_counted_once_and_as_the_api_server_shows_it(void **state)
{
	struct world *w = *state;

	say(w, "1", "p", NULL);
	assert_used(w, 3, 0);
	say(w, "2", "g", NULL);
	assert_used(w, 6, 0);
	show(w, "g", true, false);
	assert_used(w, 6, 0);
	assert_int_equal(ledger_pod(&w->ledger, "g")->occupancy, OCCUPANCY_BOUND);
	assert_true(ledger_pod(&w->ledger, "g")->has_placement);
	say(w, "3", NULL, NULL);
	assert_used(w, 6, 0);
}

static void an_orphan_ends_when_the_api_server_shows_its_end(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	show(w, "p", false, true);
	assert_used(w, 0, 0);
	assert_null(ledger_pod(&w->ledger, "p"));
}

static void an_older_event_does_not_end_an_orphan(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	fixture_pod(&pod, "p", 3, "");
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_used(w, 3, 0);
	ledger_delete_pod(&w->ledger, "p", 10 * EXPIRES);
	assert_int_equal(expire(w, EXPIRES), 1);
}

static void orphans_of_a_removed_node_end_by_time(void **state)
{
	struct world *w = *state;

	say(w, "1", "g", NULL);
	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	ledger_remove_node(&w->ledger, "n", w->node.uid);
	assert_int_equal(ledger_pod(&w->ledger, "g")->occupancy, OCCUPANCY_ORPHAN);
	assert_int_equal(ledger_pod(&w->ledger, "p")->occupancy, OCCUPANCY_ORPHAN);
	assert_int_equal(expire(w, EXPIRES), 1);
	assert_int_equal(expire(w, EXPIRES + ORPHAN_NS), 1);
	assert_null(ledger_node(&w->ledger, "n"));
}

/* A Node object that is deleted by hand comes back with the kubelet's next status. */
static void orphans_outlast_a_node_object_that_is_made_anew(void **state)
{
	struct world *w = *state;

	ledger_remove_pod(&w->ledger, "p");
	say(w, "1", "g", NULL);
	ledger_remove_node(&w->ledger, "n", w->node.uid);
	held_release(&w->node.held);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 3, 0);
	say(w, "2", NULL, "g");
	assert_used(w, 0, 0);
}

/* The agent of the node that has these GPUs now has not said anything of orphans. */
static void join(struct world *w, const char *uid, size_t n_gpus)
{
	held_release(&w->node.held);
	free(w->node.uid);
	w->node.uid = strdup(uid);
	w->node.n_gpus = n_gpus;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

static void rename_gpus(struct world *w)
{
	for (size_t i = 0; i < 2; i++)
		snprintf(w->node.gpus[i].uuid, sizeof(w->node.gpus[i].uuid), "GPU-other-%zu", i);
}

static void orphans_end_when_another_machine_joins_under_the_name_of_theirs(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	ledger_remove_node(&w->ledger, "n", w->node.uid);
	rename_gpus(w);
	join(w, "another", 0); /* its kubelet comes before its agent */
	assert_non_null(ledger_pod(&w->ledger, "p"));
	join(w, "another", 2);
	assert_null(ledger_pod(&w->ledger, "p"));
	assert_used(w, 0, 0);
}

static void an_orphan_whose_gpu_is_missing_outlasts_what_a_known_node_says(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	rename_gpus(w);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(ledger_pod(&w->ledger, "p")->occupancy, OCCUPANCY_ORPHAN);
}

static void an_orphan_that_another_machine_lists_lives_there(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	ledger_remove_node(&w->ledger, "n", w->node.uid);
	rename_gpus(w);
	say(w, "2", "p", NULL);
	assert_int_equal(ledger_pod(&w->ledger, "p")->occupancy, OCCUPANCY_ORPHAN);
}

static void an_orphan_on_several_gpus_counts_on_each_as_its_node_says(void **state)
{
	struct world *w = *state;
	struct held_pod *pod;

	snprintf(w->node.held.at, sizeof(w->node.held.at), "1");
	assert_int_equal(held_add_pod(&w->node.held, "g", "default", "g", &pod), 0);
	assert_int_equal(held_pod_add_gpu(pod, "GPU-n-0", 4, 0), 0);
	assert_int_equal(held_pod_add_gpu(pod, "GPU-n-1", 6, 0), 0);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_used(w, 7, 6);
}

/* `held` lists the pod with these units of this GPU. */
static void say_size(struct world *w, const char *at, const char *uid, const char *gpu, uint32_t units)
{
	struct held *held = &w->node.held;
	struct held_pod *pod;

	held_release(held);
	snprintf(held->at, sizeof(held->at), "%s", at);
	held->names_ended = true;
	assert_int_equal(held_add_pod(held, uid, "default", uid, &pod), 0);
	assert_int_equal(held_pod_add_gpu(pod, gpu, units, 0), 0);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

/* This replica has not seen the last change of the pod's size: its watch was interrupted, and the new LIST no
 * longer has the pod. Another pod got units that the containers still had; found by the simulation. */
static void an_orphan_has_the_size_that_its_node_says(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	say_size(w, "1", "p", "GPU-n-0", 5);
	assert_used(w, 5, 0);
	assert_int_equal(ledger_pod(&w->ledger, "p")->occupancy, OCCUPANCY_ORPHAN);
	say_size(w, "2", "p", "GPU-n-0", 2);
	assert_used(w, 2, 0);
	say(w, "3", NULL, "p");
	assert_used(w, 0, 0);
}

static void what_the_node_said_of_the_size_before_the_watch_told_the_deletion_counts(void **state)
{
	struct world *w = *state;

	say_size(w, "1", "p", "GPU-n-0", 5);
	assert_used(w, 3, 0); /* the API server still shows the pod */
	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	assert_used(w, 5, 0);
	assert_int_equal(ledger_pod(&w->ledger, "p")->expires_ns, 0);
}

static void the_size_on_gpus_that_the_orphan_never_had_is_not_its_own(void **state)
{
	struct world *w = *state;

	ledger_delete_pod(&w->ledger, "p", EXPIRES);
	say_size(w, "1", "p", "GPU-n-1", 5);
	assert_used(w, 3, 0);
}

static void the_size_of_an_orphan_of_several_containers_is_that_of_all(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_pod(&pod, "two", 3, "");
	assert_int_equal(request_add(&pod.request, "c1", CONTAINER_MAIN, 1, "4", NULL, NULL), 0);
	fixture_bind(&pod, "n", "GPU-n-1");
	pod.running = true;
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
	assert_used(w, 3, 7);
	ledger_delete_pod(&w->ledger, "two", EXPIRES);
	say_size(w, "1", "two", "GPU-n-1", 7);
	assert_int_equal(ledger_pod(&w->ledger, "two")->facts.request.n_containers, 2); /* as it was */
	say_size(w, "2", "two", "GPU-n-1", 9);
	assert_used(w, 3, 9);
}

static void an_orphan_counts_as_many_containers_as_its_node_says(void **state)
{
	struct world *w = *state;
	struct held_pod *pod;

	snprintf(w->node.held.at, sizeof(w->node.held.at), "1");
	assert_int_equal(held_add_pod(&w->node.held, "g", "default", "g", &pod), 0);
	assert_int_equal(held_pod_add_gpu(pod, "GPU-n-1", 6, 0), 0);
	pod->instances = 3;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(ledger_node(&w->ledger, "n")->gpus[1].instances, 3);
	say(w, "2", NULL, "g");
	assert_int_equal(ledger_node(&w->ledger, "n")->gpus[1].instances, 0);
}

static void nothing_fits_on_a_node_that_does_not_serve(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	uint64_t before;
	char text[64];

	fixture_pod(&pod, "q", 5, "");
	fixture_place(&placement, &pod.request, "GPU-n-1");
	w->node.serving = false;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(ledger_choose(&w->ledger, "n", &pod, NULL), REJECT_NOT_SERVING);
	assert_string_equal(reject_reason_text(REJECT_NOT_SERVING, &pod.request, text, sizeof(text)),
		"GPU node's agent is not serving");
	assert_int_equal(ledger_reserve(&w->ledger, &pod, "n", &placement), -ENOSPC);
	assert_used(w, 3, 0);
	before = w->ledger.generation;
	w->node.serving = true;
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_true(w->ledger.generation > before);
	assert_int_equal(ledger_choose(&w->ledger, "n", &pod, NULL), FITS);
}

static void nothing_fits_on_a_node_whose_agent_is_lost(void **state)
{
	struct world *w = *state;
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	uint64_t before;

	fixture_pod(&pod, "q", 5, "");
	ledger_set_agent_lost(&w->ledger, "n", true);
	ledger_set_agent_lost(&w->ledger, "unknown", true);
	assert_null(ledger_node(&w->ledger, "unknown"));
	assert_int_equal(ledger_choose(&w->ledger, "n", &pod, NULL), REJECT_NOT_SERVING);
	/* What the node looks like says nothing about its Lease. */
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
	assert_int_equal(ledger_choose(&w->ledger, "n", &pod, NULL), REJECT_NOT_SERVING);
	before = w->ledger.generation;
	ledger_set_agent_lost(&w->ledger, "n", false);
	assert_true(w->ledger.generation > before);
	assert_int_equal(ledger_choose(&w->ledger, "n", &pod, NULL), FITS);
}

#define orphan_test(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		orphan_test(a_deleted_pod_that_ran_keeps_its_gpu_until_its_time_is_over),
		orphan_test(a_node_that_only_an_orphan_named_is_known_when_the_orphan_has_ended),
		orphan_test(a_deleted_pod_whose_containers_ended_leaves_at_once),
		orphan_test(a_deleted_pod_that_was_only_reserved_leaves_at_once),
		orphan_test(an_orphan_ends_when_its_node_says_that_it_ended),
		orphan_test(what_the_node_says_of_another_pod_ends_no_orphan),
		orphan_test(an_orphan_that_lives_outlasts_its_time),
		orphan_test(an_orphan_that_is_listed_no_more_without_a_word_ends_by_time),
		orphan_test(an_orphan_stays_when_somebody_takes_the_annotation_away),
		orphan_test(an_orphan_does_not_end_by_time_while_its_agent_is_silent),
		orphan_test(an_orphan_ends_by_time_while_its_agent_is_heard),
		orphan_test(an_orphan_does_not_end_by_time_while_the_watch_of_nodes_is_silent),
		orphan_test(an_orphan_ends_by_time_on_a_node_without_an_agent),
		orphan_test(what_the_node_said_before_the_deletion_counts_as_well),
		orphan_test(an_agent_that_names_no_ended_pods_ends_orphans_by_a_new_time),
		orphan_test(a_new_ledger_learns_of_orphans_from_the_node),
		orphan_test(a_pod_that_the_node_wrongly_lists_is_counted_once_and_as_the_api_server_shows_it),
		orphan_test(an_orphan_ends_when_the_api_server_shows_its_end),
		orphan_test(an_older_event_does_not_end_an_orphan),
		orphan_test(orphans_of_a_removed_node_end_by_time),
		orphan_test(orphans_outlast_a_node_object_that_is_made_anew),
		orphan_test(orphans_end_when_another_machine_joins_under_the_name_of_theirs),
		orphan_test(an_orphan_whose_gpu_is_missing_outlasts_what_a_known_node_says),
		orphan_test(an_orphan_that_another_machine_lists_lives_there),
		orphan_test(an_orphan_on_several_gpus_counts_on_each_as_its_node_says),
		orphan_test(an_orphan_has_the_size_that_its_node_says),
		orphan_test(what_the_node_said_of_the_size_before_the_watch_told_the_deletion_counts),
		orphan_test(the_size_on_gpus_that_the_orphan_never_had_is_not_its_own),
		orphan_test(the_size_of_an_orphan_of_several_containers_is_that_of_all),
		orphan_test(an_orphan_counts_as_many_containers_as_its_node_says),
		orphan_test(nothing_fits_on_a_node_that_does_not_serve),
		orphan_test(nothing_fits_on_a_node_whose_agent_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
