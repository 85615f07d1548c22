/* Gangs over time: order, patience, and what becomes of one that is placed in part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "gang-fixture.h"
#include "model-fixture.h"

static void what_is_freed_goes_to_the_gang_of_higher_priority_then_to_the_older_one(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "there", 8, "n0");
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "old", 2, 4);
	scene_pods(scene, (const char *[]){"b0", "b1"}, 2, "young", 2, 4);
	scene_pods(scene, (const char *[]){"c0", "c1"}, 2, "high", 2, 4);
	scene_facts(scene, "c0")->priority = scene_facts(scene, "c1")->priority = 7;
	scene_show(scene, "c0");
	scene_show(scene, "c1");
	assert_int_equal(scene_ask(scene, "b0"), GANG_WAIT);
	assert_int_equal(scene_ask(scene, "a0"), GANG_WAIT);
	assert_int_equal(scene_ask(scene, "c0"), GANG_WAIT);
	scene_delete(scene, "there");
	/* kube-scheduler asks for another one first. */
	assert_int_equal(scene_ask(scene, "b0"), GANG_WAIT);
	assert_string_equal(scene_held(scene, "c1"), "n0");
	scene_delete(scene, "c0");
	scene_delete(scene, "c1");
	assert_int_equal(scene_ask(scene, "b0"), GANG_WAIT);
	assert_string_equal(scene_held(scene, "a0"), "n0");
}

static void a_gang_of_which_a_part_is_placed_after_its_time_is_evicted(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 3, 3);

	for (int i = 0; i < 3; i++)
		scene_ask_and_bind(scene, (const char *[]){"u0", "u1", "u2"}[i]);
	assert_string_equal(scene_orders(scene), "go:u2 ");
	for (int i = 0; i < 3; i++)
		scene_sent(scene, (const char *[]){"u0", "u1", "u2"}[i]);
	/* The last one's Binding is refused: it was deleted. */
	scene_bound(scene, "u0", true);
	scene_bound(scene, "u1", true);
	scene_delete(scene, "u2");
	scene_wait(scene, 0);
	scene_wait(scene, 59 * SECOND);
	assert_string_equal(scene_orders(scene), "");
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "evict:u0 evict:u1 ");
	/* A budget may refuse. */
	scene_wait(scene, 5 * SECOND);
	assert_string_equal(scene_orders(scene), "evict:u0 evict:u1 ");
	scene_facts(scene, "u0")->deleting = true;
	scene_show(scene, "u0");
	scene_wait(scene, 5 * SECOND);
	assert_string_equal(scene_orders(scene), "evict:u1 ");
}

static void scene_pods_of(struct scene *scene, const char *owner, const char *const *uids, size_t n,
	const char *gang, uint32_t min, uint32_t units)
{
	scene_pods(scene, uids, n, gang, min, units);
	for (size_t i = 0; i < n; i++) {
		struct pod_facts *facts = scene_facts(scene, uids[i]);

		free(facts->owner);
		facts->owner = strdup(owner);
		scene_show(scene, uids[i]);
	}
}

/* Enough Bindings have left, and the watch has not shown them yet. */
static void what_is_held_for_who_goes_singly_is_left_to_it(void **state)
{
	struct scene *scene = *state;
	_cleanup_placement_ struct placement placement;

	placement_init(&placement);
	scene_nodes(scene, 1, 15);
	scene_node(scene, "n1", 4);
	scene_pods(scene, (const char *[]){"u0", "u1"}, 2, "g", 2, 5);
	scene_all_at_bind(scene, (const char *[]){"u0", "u1"}, 2);
	scene_orders(scene);
	scene_sent(scene, "u0");
	scene_sent(scene, "u1");
	scene_pods(scene, (const char *[]){"u2", "u3"}, 2, "g", 2, 5);
	assert_int_equal(scene_ask_for(scene, "u2", "n0"), GANG_NONE);
	assert_int_equal(ledger_choose(&scene->ledger, "n0", scene_facts(scene, "u2"), &placement), FITS);
	assert_int_equal(
		ledger_hold(&scene->ledger, scene_facts(scene, "u2"), "n0", &placement, INT64_MAX), 0);
	scene->now_ns += SECOND;
	assert_int_equal(scene_ask_for(scene, "u3", "n1"), GANG_NONE);
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "u2"), "n0");
}

/* A member has run and ended as it should. */
static void succeed(struct scene *scene, const char *uid)
{
	struct pod_facts *facts = scene_facts(scene, uid);

	facts->finished = facts->succeeded = true;
	assert_int_equal(gangs_see_pod(&scene->gangs, &scene->ledger, facts, true, scene->now_ns), 0);
	facts->finished = facts->succeeded = false;
	ledger_remove_pod(&scene->ledger, uid);
}

/* All Bindings were thought lost, and one had been carried out: its pod came and went alone. */
static void who_has_succeeded_before_the_others_came_counts_as_placed(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 20);
	scene_pods_of(scene, "job", (const char *[]){"u0", "u1", "u2"}, 3, "g", 3, 5);
	scene_ask(scene, "u0");
	scene_bound(scene, "u0", true);
	succeed(scene, "u0");
	scene_wait(scene, 0);
	assert_int_equal(scene_ask(scene, "u1"), GANG_WAIT);
	/* Nobody is made in its place: the two that are left need only each other. */
	scene_wait(scene, 10 * SECOND);
	assert_int_equal(scene_ask(scene, "u1"), GANG_NODE);
	scene_bound(scene, "u1", true);
	scene_wait(scene, 0);
	assert_int_equal(scene_ask(scene, "u2"), GANG_NODE);
	scene_orders(scene);
	scene_bound(scene, "u2", true);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "unmark:u1 unmark:u2 ");
}

/* kube-scheduler's view of it is older, or the watch shows it once more. */
static void who_has_succeeded_counts_once_whatever_is_shown_of_it_later(void **state)
{
	struct scene *scene = *state;
	struct gang_view view;

	scene_nodes(scene, 1, 20);
	scene_pods_of(scene, "job", (const char *[]){"u0", "u1", "u2"}, 3, "g", 3, 5);
	scene_ask(scene, "u0");
	scene_bound(scene, "u0", true);
	succeed(scene, "u0");
	succeed(scene, "u0");
	assert_int_equal(
		gangs_see_pod(&scene->gangs, &scene->ledger, scene_facts(scene, "u0"), false, scene->now_ns),
		0);
	assert_false(gangs_find(&scene->gangs, &scene->ledger, "u0", scene->now_ns, &view));
	scene_wait(scene, 0);
	scene_wait(scene, 10 * SECOND);
	assert_true(gangs_find(&scene->gangs, &scene->ledger, "u1", scene->now_ns, &view));
	assert_int_equal(view.n_members, 2);
	assert_int_equal(view.min, 2);
}

static void who_has_failed_is_replaced_and_needed(void **state)
{
	struct scene *scene = *state;
	struct pod_facts *facts;

	scene_nodes(scene, 1, 20);
	scene_pods_of(scene, "job", (const char *[]){"u0", "u1"}, 2, "g", 2, 5);
	facts = scene_facts(scene, "u0");
	scene_ask(scene, "u0");
	scene_bound(scene, "u0", true);
	facts->finished = true;
	assert_int_equal(gangs_see_pod(&scene->gangs, &scene->ledger, facts, true, scene->now_ns), 0);
	facts->finished = false;
	scene_wait(scene, 0);
	assert_int_equal(scene_ask(scene, "u1"), GANG_WAIT);
}

/* u0 of a Job's two, before the gang has started; u1 is deleted. */
static void one_of_two_succeeds(struct scene *scene)
{
	scene_nodes(scene, 1, 20);
	scene_pods_of(scene, "job", (const char *[]){"u0", "u1"}, 2, "g", 2, 5);
	scene_ask(scene, "u0");
	scene_bound(scene, "u0", true);
	succeed(scene, "u0");
	scene_delete(scene, "u1");
}

/* The same name, by another controller. */
static void who_has_succeeded_for_another_controller_does_not_count(void **state)
{
	struct scene *scene = *state;

	one_of_two_succeeds(scene);
	scene_pods_of(scene, "another", (const char *[]){"u2"}, 1, "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
}

static void nothing_is_left_of_a_gang_whose_pods_have_succeeded_and_gone(void **state)
{
	struct scene *scene = *state;

	one_of_two_succeeds(scene);
	assert_int_equal(scene->gangs.by_key.count, 1);
	gangs_delete_pod(&scene->gangs, "u0");
	gangs_delete_pod(&scene->gangs, "u0");
	assert_int_equal(scene->gangs.by_uid.count, 0);
	assert_int_equal(scene->gangs.by_key.count, 0);
}

static void a_pod_group_says_after_which_time(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	assert_int_equal(gangs_set_group(&scene->gangs, "default/g",
				 &(struct gang_group){.min = 2, .timeout_ns = 7 * SECOND}),
		0);
	assert_int_equal(scene_ask(scene, "u0"), GANG_NODE);
	scene_bound(scene, "u0", true);
	scene_delete(scene, "u1");
	scene_wait(scene, 0);
	scene_wait(scene, 7 * SECOND);
	assert_string_equal(scene_orders(scene), "evict:u0 ");
}

static void what_is_left_of_a_whole_gang_is_left_alone(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	scene_ask(scene, "u0");
	scene_ask(scene, "u1");
	scene_bound(scene, "u0", false); /* the mark is off: somebody saw the gang whole */
	scene_delete(scene, "u1");
	scene_wait(scene, 0);
	scene_wait(scene, 3600 * SECOND);
	assert_string_equal(scene_orders(scene), "");
}

static void a_gang_of_another_scheduler_gets_nothing(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	scene_wait(scene, 600 * SECOND);
	assert_string_equal(scene_held(scene, "u0"), "");
	assert_string_equal(scene_orders(scene), "");
}

static void a_replica_that_does_not_lead_plans_nothing(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 1, 2);

	scene_ask(scene, "u0");
	scene_pod(scene, "u1", "g", 2, 5);
	gangs_look(&scene->gangs, &scene->ledger, scene->now_ns, false);
	assert_string_equal(scene_held(scene, "u0"), "");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "u0"), "n0");
}

/* Found by the storm: after a fail-over the replica that kube-scheduler asked before planned on, and held
 * GPUs in its ledger, and its requeues had the pods tried again and again. */
static void a_gang_that_kube_scheduler_asks_another_replica_for_is_left_to_that_one(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "there", 8, "n0");
	scene_pods(scene, (const char *[]){"u0", "u1"}, 2, "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	scene_delete(scene, "there");
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "nudge:u0 ");
	for (int i = 0; i < 15; i++)
		scene_wait(scene, SECOND);
	assert_string_equal(scene_held(scene, "u0"), "");
	scene_orders(scene);
	for (int i = 0; i < 60; i++)
		scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "");
	assert_string_equal(scene_held(scene, "u0"), "");
	/* It asks us again. */
	assert_int_equal(scene_ask(scene, "u1"), GANG_NODE);
	assert_string_equal(scene_held(scene, "u0"), "n0");
}

/* Requeues may not have arrived. */
static void a_gang_that_is_not_asked_for_in_an_outage_is_tried_again(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "there", 8, "n0");
	scene_pods(scene, (const char *[]){"u0", "u1"}, 2, "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	scene_delete(scene, "there");
	scene_wait(scene, 0);
	gangs_set_following(&scene->gangs, false);
	scene_wait(scene, 15 * SECOND);
	gangs_set_following(&scene->gangs, true);
	scene_orders(scene);
	scene_wait(scene, 2 * SECOND);
	assert_string_equal(scene_orders(scene), "nudge:u0 ");
}

static void gangs_that_met_outside_the_ledger_try_one_at_a_time(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 20);
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 2, 5);
	scene_pods(scene, (const char *[]){"b0", "b1"}, 2, "b", 2, 5);
	/* Each has one member at bind, and kube-scheduler finds no CPU for the others. */
	scene_ask_and_bind(scene, "b0");
	scene_ask_and_bind(scene, "a0");
	scene_wait(scene, 4 * SECOND);
	assert_string_equal(scene_held(scene, "a1"), "");
	assert_string_equal(scene_held(scene, "b1"), "");
	scene_wait(scene, 2 * SECOND);
	assert_string_equal(scene_held(scene, "a1"), "n0");
	assert_string_equal(scene_held(scene, "b1"), "");
	assert_int_equal(scene_ask(scene, "b1"), GANG_WAIT);
	assert_string_equal(scene->text, "its gang is tried again in a moment");
}

/* Found by the simulation: a PodGroup outlives the pods, who go one after the other while they are tried. */
static void a_gang_whose_pods_are_gone_keeps_nobody_out(void **state)
{
	struct gang_group group = {.min = 2};
	struct scene *scene = *state;

	scene_nodes(scene, 1, 20);
	assert_int_equal(gangs_set_group(&scene->gangs, "default/a", &group), 0);
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 0, 5);
	scene_pods(scene, (const char *[]){"b0", "b1"}, 2, "b", 2, 5);
	scene_ask_and_bind(scene, "b0");
	scene_ask_and_bind(scene, "a0");
	scene_wait(scene, 4 * SECOND);
	scene_wait(scene, 2 * SECOND);
	assert_string_equal(scene_held(scene, "a1"), "n0");
	scene_delete(scene, "a0");
	scene_delete(scene, "a1");
	scene_wait(scene, 2 * SECOND);
	assert_int_equal(scene_ask(scene, "b1"), GANG_NODE);
}

static struct gang_view view_of(struct scene *scene, const char *uid)
{
	struct gang_view view;

	assert_true(gangs_find(&scene->gangs, &scene->ledger, uid, scene->now_ns, &view));
	return view;
}

/* What kube-scheduler said is old after some time, and a node that it would not take may have room. */
static void a_plan_on_nodes_that_are_not_the_members_costs_the_gang_nothing(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 2, 10);
	scene_occupy(scene, "there", 8, "n0");
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 2, 5);
	assert_int_equal(scene_ask_for(scene, "a0", "n0"), GANG_WAIT);
	assert_string_equal(scene->text, "no room for its whole gang");
	scene_wait(scene, 11 * SECOND);
	assert_string_equal(scene_orders(scene), "nudge:a0 ");
	assert_int_equal(scene_ask_for(scene, "a0", "n0"), GANG_WAIT);
	assert_string_equal(scene->text, "no room for its whole gang");
	assert_string_equal(scene_held(scene, "a0"), "");
	assert_string_equal(scene_held(scene, "a1"), "");
	assert_int_equal(view_of(scene, "a0").failures, 0);
	/* It said the same again: that is believed longer. */
	scene_wait(scene, 11 * SECOND);
	assert_string_equal(scene_orders(scene), "");
	assert_string_equal(view_of(scene, "a0").text, "no room for its whole gang");
	scene_wait(scene, 10 * SECOND);
	assert_string_equal(scene_orders(scene), "nudge:a0 ");
	/* And what it says now at once. */
	assert_int_equal(scene_ask_for(scene, "a0", "n1"), GANG_NODE);
	assert_string_equal(scene_held(scene, "a1"), "n1");
}

/* A node that is full for kube-scheduler, of pods that it has not forgotten yet, is not among them. */
static void that_there_is_no_room_holds_for_the_nodes_that_were_named_only(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 2, 10);
	scene_occupy(scene, "there", 8, "n0");
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 2, 5);
	assert_int_equal(scene_ask_for(scene, "a0", "n0"), GANG_WAIT);
	assert_string_equal(scene->text, "no room for its whole gang");
	scene_wait(scene, SECOND / 10);
	assert_int_equal(scene_ask_for(scene, "a1", "n1"), GANG_NODE);
	assert_string_equal(scene_held(scene, "a0"), "n1");
}

static void who_is_left_of_a_gang_that_has_run_needs_no_others(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	scene_bound_together(scene, (const char *[]){"u0", "u1"}, 2);
	scene_delete(scene, "u0");
	scene_delete(scene, "u1");
	scene_wait(scene, 0);
	scene_wait(scene, 1800 * SECOND);
	/* Its controller makes one anew, and perhaps others. */
	scene_pod(scene, "u2", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	scene_wait(scene, 0);
	assert_int_equal(scene_wait(scene, 9 * SECOND), SECOND);
	assert_string_equal(scene_orders(scene), "");
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "nudge:u2 ");
	assert_int_equal(scene_ask(scene, "u2"), GANG_NONE);
	assert_false(gangs_is_forming(&scene->gangs, "u2"));
	/* Enough of them are a gang again. */
	scene_pod(scene, "u3", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u3"), GANG_NODE);
	assert_string_equal(scene_held(scene, "u2"), "n0");
	scene_delete(scene, "u2");
	scene_delete(scene, "u3");
	scene_wait(scene, 0);
	/* Another controller's is another gang. */
	scene_pod(scene, "v0", "g", 2, 5);
	free(scene_facts(scene, "v0")->owner);
	scene_facts(scene, "v0")->owner = strdup("next");
	scene_delete(scene, "v0");
	scene_show(scene, "v0");
	assert_int_equal(scene_ask(scene, "v0"), GANG_WAIT);
	assert_string_equal(scene->text, "waits for the other pods of its gang");
	scene_wait(scene, 0);
	scene_wait(scene, 60 * SECOND);
	assert_int_equal(scene_ask(scene, "v0"), GANG_WAIT);
}

/* A pod of u2's controller, as a LIST shows it that has finished. */
static void show_finished(struct scene *scene, const char *owner, bool forming)
{
	_cleanup_pod_facts_ struct pod_facts finished = {0};

	assert_int_equal(pod_facts_copy(scene_facts(scene, "u2"), &finished), 0);
	free(finished.owner);
	finished.owner = strdup(owner);
	fixture_bind(&finished, "n0", "GPU-n0-0");
	finished.finished = true;
	finished.gang_forming = forming;
	assert_int_equal(gangs_has_run(&scene->gangs, &finished), 0);
}

/* One member of a gang of two, and a process that has not seen any other. */
static void wait_alone(struct scene *scene)
{
	scene_nodes(scene, 1, 10);
	scene_pod(scene, "u2", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	scene_wait(scene, 0);
	assert_int_equal(scene_wait(scene, 9 * SECOND), SECOND);
	assert_string_equal(scene_orders(scene), "");
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "recall:u2 ");
}

static void after_a_restart_those_who_have_finished_tell_that_a_gang_has_run(void **state)
{
	struct scene *scene = *state;

	wait_alone(scene);
	/* Nobody has answered. */
	assert_int_equal(scene_wait(scene, 4 * SECOND), SECOND);
	assert_string_equal(scene_orders(scene), "");
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "recall:u2 ");
	show_finished(scene, "g", false);
	gangs_recalled(&scene->gangs, "u2");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "nudge:u2 ");
	assert_int_equal(scene_ask(scene, "u2"), GANG_NONE);
	assert_false(gangs_is_forming(&scene->gangs, "u2"));
}

static void who_ran_in_part_or_for_another_controller_does_not_tell(void **state)
{
	struct scene *scene = *state;

	wait_alone(scene);
	show_finished(scene, "g", true);
	show_finished(scene, "another", false);
	gangs_recalled(&scene->gangs, "u2");
	assert_int_equal(scene_wait(scene, 0), INT64_MAX);
	scene_wait(scene, 600 * SECOND);
	assert_string_equal(scene_orders(scene), "");
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	assert_string_equal(scene->text, "waits for the other pods of its gang");
}

/* Of an older Job of the same name, which never had all of its pods at once. */
static void who_has_succeeded_for_another_controller_does_not_count_after_a_restart(void **state)
{
	_cleanup_pod_facts_ struct pod_facts finished = {0};
	struct scene *scene = *state;

	wait_alone(scene);
	assert_int_equal(pod_facts_copy(scene_facts(scene, "u2"), &finished), 0);
	finished.uid[1] = '0';
	fixture_bind(&finished, "n0", "GPU-n0-0");
	finished.finished = finished.succeeded = finished.gang_forming = true;
	finished.owner[0] = 'h';
	assert_int_equal(gangs_has_run(&scene->gangs, &finished), 0);
	gangs_recalled(&scene->gangs, "u2");
	scene_wait(scene, 0);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	/* One of its own does. */
	finished.uid[1] = '1';
	finished.owner[0] = 'g';
	assert_int_equal(gangs_has_run(&scene->gangs, &finished), 0);
	assert_int_equal(scene_ask(scene, "u2"), GANG_NODE);
}

static void who_belongs_to_no_controller_is_left_over_of_nothing(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_pod(scene, "u2", "g", 2, 5);
	scene_facts(scene, "u2")->owner[0] = '\0';
	scene_delete(scene, "u2");
	scene_show(scene, "u2");
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	scene_wait(scene, 0);
	scene_wait(scene, 60 * SECOND);
	assert_string_equal(scene_orders(scene), "");
}

/* Its controller makes all of them anew, and others may follow this one too. */
static void who_comes_after_one_left_over_is_gone_waits_its_own_time_for_others(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	scene_bound_together(scene, (const char *[]){"u0", "u1"}, 2);
	scene_delete(scene, "u0");
	scene_delete(scene, "u1");
	scene_wait(scene, 0);
	scene_pod(scene, "u2", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	scene_wait(scene, 0);
	scene_wait(scene, 9 * SECOND);
	scene_delete(scene, "u2");
	scene_pod(scene, "u3", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u3"), GANG_WAIT);
	assert_int_equal(scene_wait(scene, 2 * SECOND), 10 * SECOND);
	assert_int_equal(scene_wait(scene, 9 * SECOND), SECOND);
	assert_string_equal(scene_orders(scene), "");
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "nudge:u3 ");
}

/* Found by the simulation: a pod of another controller was labelled into the gang and was gone soon. */
static void who_is_left_over_is_not_forgotten_for_a_pod_that_goes_again(void **state)
{
	static const char *const three[] = {"u0", "u1", "u2"};
	struct scene *scene = scene_gang(*state, 2, 3, 3);

	scene_bound_together(scene, three, 3);
	for (int i = 0; i < 3; i++)
		scene_delete(scene, three[i]);
	scene_wait(scene, 0);
	scene_pod(scene, "u3", "g", 3, 5);
	scene_pod(scene, "other", "g", 3, 5);
	scene_facts(scene, "other")->owner[0] = 'x';
	scene_show(scene, "other");
	assert_int_equal(scene_ask(scene, "u3"), GANG_WAIT);
	scene_wait(scene, 0);
	/* No finished pod is left that would tell of the gang. */
	scene_wait(scene, 11 * SECOND);
	gangs_recalled(&scene->gangs, "u3");
	assert_int_equal(scene_ask(scene, "u3"), GANG_WAIT);
	scene_delete(scene, "other");
	scene_orders(scene);
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "nudge:u3 ");
	assert_int_equal(scene_ask(scene, "u3"), GANG_NONE);
}

/* A gang of another controller has started under the name since. */
static void who_is_left_over_of_an_older_gang_waits_for_others(void **state)
{
	static const char *const old[] = {"u0", "u1"}, *const young[] = {"x0", "x1"};
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	scene_bound_together(scene, old, 2);
	for (int i = 0; i < 2; i++)
		scene_delete(scene, old[i]);
	scene_wait(scene, 0);
	for (int i = 0; i < 2; i++) {
		scene_pod(scene, young[i], "g", 2, 5);
		scene_facts(scene, young[i])->owner[0] = 'x';
		scene_show(scene, young[i]);
	}
	scene_bound_together(scene, young, 2);
	for (int i = 0; i < 2; i++)
		scene_delete(scene, young[i]);
	scene_wait(scene, 0);
	scene_pod(scene, "u2", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	scene_wait(scene, 0);
	scene_wait(scene, 11 * SECOND);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
}

/* It was deleted just before kube-scheduler asked, and no event will tell of it. */
static void who_is_asked_for_and_never_shown_is_forgotten_when_no_question_comes(void **state)
{
	struct scene *scene = *state;
	struct gang_view view;

	scene_nodes(scene, 1, 10);
	scene_pod(scene, "other", "h", 2, 1);
	scene_pod(scene, "u0", "g", 2, 5);
	scene_delete(scene, "u0");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
		scene_wait(scene, 9 * SECOND);
		assert_true(gangs_find(&scene->gangs, &scene->ledger, "u0", scene->now_ns, &view));
	}
	scene_wait(scene, 2 * SECOND);
	assert_false(gangs_find(&scene->gangs, &scene->ledger, "u0", scene->now_ns, &view));
}

static void a_gang_that_has_run_is_forgotten_after_an_hour(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_pod(scene, "other", "h", 2, 1);
	scene_pods(scene, (const char *[]){"u0", "u1"}, 2, "g", 2, 5);
	scene_bound_together(scene, (const char *[]){"u0", "u1"}, 2);
	scene_delete(scene, "u0");
	scene_delete(scene, "u1");
	scene_wait(scene, 0);
	assert_int_equal(scene->gangs.by_key.count, 2);
	scene_wait(scene, 3601 * SECOND);
	assert_int_equal(scene->gangs.by_key.count, 1);
}

static void what_lacks_is_said_to_people(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_pods(scene, (const char *[]){"a0", "a1", "a2"}, 3, "a", 3, 4);
	scene_ask(scene, "a0");
	assert_int_equal(view_of(scene, "a0").min, 3);
	assert_int_equal(view_of(scene, "a0").n_room, 2);
	/* A fourth one needs none. */
	scene_pod(scene, "a3", "a", 3, 1);
	scene_ask(scene, "a3");
	assert_int_equal(scene_held(scene, "a3")[0], 'n');
	scene_ask_and_bind(scene, "a0");
	scene_wait(scene, 4 * SECOND);
	assert_int_equal(view_of(scene, "a0").failures, 1);
	assert_string_equal(view_of(scene, "a0").missing, "a1");
	scene_delete(scene, "a1");
	assert_null(view_of(scene, "a0").missing);
}

static size_t requeues(struct scene *scene)
{
	size_t n = 0;

	for (const char *at = scene_orders(scene); (at = strstr(at, "nudge:")); at++)
		n++;
	return n;
}

/* What `kubectl describe` shows is what kube-scheduler was told last. */
static void who_was_told_another_reason_is_asked_for_once_more(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 3, 4);
	scene_ask(scene, "a0");
	assert_string_equal(scene->text, "waits for the other pods of its gang");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "");
	/* The last one comes, and there is no room. */
	scene_pod(scene, "a2", "a", 3, 4);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "nudge:a0 ");
	scene_ask(scene, "a0");
	assert_string_equal(scene->text, "no room for its whole gang");
	scene_wait(scene, 5 * SECOND);
	assert_string_equal(scene_orders(scene), "");
	scene_delete(scene, "a2");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "nudge:a0 ");
}

static void of_many_who_were_told_another_reason_few_are_asked_for_at_a_time(void **state)
{
	struct scene *scene = *state;
	char uid[8];

	scene_nodes(scene, 1, 10);
	for (int i = 0; i < 20; i++) {
		snprintf(uid, sizeof(uid), "a%d", i);
		scene_pod(scene, uid, "a", 21, 4);
		scene_ask(scene, uid);
	}
	scene_pod(scene, "a20", "a", 21, 4);
	scene_wait(scene, 0);
	assert_int_equal(requeues(scene), REQUEUES_PER_LOOK);
	assert_int_equal(scene->requeues_again_ns, SECOND / 20);
	scene_wait(scene, SECOND / 20);
	assert_int_equal(requeues(scene), 4);
	scene_wait(scene, SECOND);
	assert_int_equal(requeues(scene), 0);
}

/* A launcher and its workers: the launcher's Binding was thought lost, and it ran and succeeded before the
 * workers came. */
static void workers_start_though_a_pod_of_another_controller_of_their_gang_has_succeeded(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 40);
	scene_pods_of(scene, "launcher", (const char *[]){"u0"}, 1, "g", 3, 5);
	scene_pods_of(scene, "workers", (const char *[]){"u1", "u2"}, 2, "g", 3, 5);
	scene_ask(scene, "u0");
	scene_bound(scene, "u0", true);
	succeed(scene, "u0");
	for (int i = 0; i < 4; i++)
		scene_wait(scene, 10 * SECOND);
	gangs_recalled(&scene->gangs, "u1");
	scene_wait(scene, 10 * SECOND);
	assert_int_equal(scene_ask(scene, "u1"), GANG_NODE);
}

/* More gangs wait than one look plans: it has come to the middle of them. */
static void a_more_important_gang_that_comes_in_the_middle_of_a_round_is_planned_first(void **state)
{
	struct scene *scene = *state;
	char uid[16], gang[16];

	scene_nodes(scene, 1, 8);
	scene_occupy(scene, "f1", 1, "n0");
	scene_occupy(scene, "f2", 7, "n0");
	for (int i = 0; i < 50; i++) {
		snprintf(uid, sizeof(uid), "a%d", i);
		snprintf(gang, sizeof(gang), "g%d", i);
		scene_pod(scene, uid, gang, 1, 8);
		scene_ask(scene, uid);
	}
	scene_wait(scene, 0);
	ledger_remove_pod(&scene->ledger, "f1");
	scene_wait(scene, SECOND / 20);
	scene_pod(scene, "top", "top", 1, 8);
	scene_facts(scene, "top")->priority = 1000;
	scene_show(scene, "top");
	scene_ask(scene, "top");
	ledger_remove_pod(&scene->ledger, "f2");
	scene_wait(scene, SECOND / 20);
	assert_string_equal(scene_held(scene, "top"), "n0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scene_test(what_is_freed_goes_to_the_gang_of_higher_priority_then_to_the_older_one),
		scene_test(a_gang_of_which_a_part_is_placed_after_its_time_is_evicted),
		scene_test(what_is_held_for_who_goes_singly_is_left_to_it),
		scene_test(who_has_succeeded_before_the_others_came_counts_as_placed),
		scene_test(who_has_succeeded_counts_once_whatever_is_shown_of_it_later),
		scene_test(who_has_failed_is_replaced_and_needed),
		scene_test(who_has_succeeded_for_another_controller_does_not_count),
		scene_test(nothing_is_left_of_a_gang_whose_pods_have_succeeded_and_gone),
		scene_test(a_pod_group_says_after_which_time),
		scene_test(what_is_left_of_a_whole_gang_is_left_alone),
		scene_test(a_gang_of_another_scheduler_gets_nothing),
		scene_test(a_replica_that_does_not_lead_plans_nothing),
		scene_test(a_gang_that_kube_scheduler_asks_another_replica_for_is_left_to_that_one),
		scene_test(a_gang_that_is_not_asked_for_in_an_outage_is_tried_again),
		scene_test(gangs_that_met_outside_the_ledger_try_one_at_a_time),
		scene_test(a_gang_whose_pods_are_gone_keeps_nobody_out),
		scene_test(a_plan_on_nodes_that_are_not_the_members_costs_the_gang_nothing),
		scene_test(that_there_is_no_room_holds_for_the_nodes_that_were_named_only),
		scene_test(who_is_left_of_a_gang_that_has_run_needs_no_others),
		scene_test(after_a_restart_those_who_have_finished_tell_that_a_gang_has_run),
		scene_test(who_ran_in_part_or_for_another_controller_does_not_tell),
		scene_test(who_has_succeeded_for_another_controller_does_not_count_after_a_restart),
		scene_test(who_belongs_to_no_controller_is_left_over_of_nothing),
		scene_test(who_comes_after_one_left_over_is_gone_waits_its_own_time_for_others),
		scene_test(who_is_left_over_is_not_forgotten_for_a_pod_that_goes_again),
		scene_test(who_is_left_over_of_an_older_gang_waits_for_others),
		scene_test(who_is_asked_for_and_never_shown_is_forgotten_when_no_question_comes),
		scene_test(a_gang_that_has_run_is_forgotten_after_an_hour),
		scene_test(what_lacks_is_said_to_people),
		scene_test(who_was_told_another_reason_is_asked_for_once_more),
		scene_test(of_many_who_were_told_another_reason_few_are_asked_for_at_a_time),
		scene_test(workers_start_though_a_pod_of_another_controller_of_their_gang_has_succeeded),
		scene_test(a_more_important_gang_that_comes_in_the_middle_of_a_round_is_planned_first),
	};

	return cmocka_run_group_tests_name("gang-time", tests, NULL, NULL);
}
