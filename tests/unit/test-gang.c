#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/placement/decide.h"
#include "gang-fixture.h"

static const char *const four[] = {"u0", "u1", "u2", "u3"};

static void the_first_question_holds_places_for_all(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 4, 4);

	assert_int_equal(scene_ask(scene, "u2"), GANG_NODE);
	for (size_t i = 0; i < 4; i++)
		assert_string_not_equal(scene_held(scene, four[i]), "");
	/* No GPU has anything left. */
	scene_pod(scene, "stranger", NULL, 0, 1);
	assert_int_equal(
		ledger_choose(&scene->ledger, "n0", scene_facts(scene, "stranger"), NULL), REJECT_FULL);
	assert_int_equal(
		ledger_choose(&scene->ledger, "n1", scene_facts(scene, "stranger"), NULL), REJECT_FULL);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(scene_ask(scene, four[i]), GANG_NODE);
		assert_string_equal(scene->node, scene_held(scene, four[i]));
	}
}

static void nothing_is_held_for_a_gang_that_finds_no_room_as_a_whole(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 2, 10);
	scene_pods(scene, four, 4, "g", 4, 6);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	assert_string_equal(scene->text, "no room for its whole gang");
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(scene_held(scene, four[i]), "");
}

static void a_gang_waits_for_its_last_member_and_is_woken_when_it_comes(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 3, 4);

	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	assert_string_equal(scene->text, "waits for the other pods of its gang");
	assert_int_equal(scene_ask(scene, "u1"), GANG_WAIT);
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "");
	scene_pod(scene, "u3", "g", 4, 5);
	scene_wait(scene, 0);
	/* u2 and u3 were never asked for: kube-scheduler will, or a second later it is told to. */
	assert_string_equal(scene_orders(scene), "nudge:u0 nudge:u1 ");
	assert_string_not_equal(scene_held(scene, "u3"), "");
	scene_wait(scene, SECOND);
	/* The others have not been asked for since. */
	assert_string_equal(scene_orders(scene), "nudge:u2 nudge:u3 nudge:u0 nudge:u1 ");
}

static void a_gang_that_found_no_room_is_woken_when_there_is(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_pod(scene, "there", NULL, 0, 1);
	ledger_hold(&scene->ledger, scene_facts(scene, "there"), "n0",
		&(struct placement){.n_containers = 1,
			.containers = &(struct container_placement){.name = (char *)"main",
				.n_gpus = 1,
				.gpus = &(struct gpu_share){.uuid = "GPU-n0-0", .units = 1}}},
		INT64_MAX);
	scene_pods(scene, four, 2, "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	assert_int_equal(scene_ask(scene, "u1"), GANG_WAIT);
	ledger_drop_hold(&scene->ledger, "there");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "nudge:u0 nudge:u1 ");
	assert_string_equal(scene_held(scene, "u1"), "n0");
}

/* A gang of which u0 stands at bind. */
static struct scene *gathering(struct scene *scene, size_t n_nodes, size_t n_pods, uint32_t min)
{
	scene_gang(scene, n_nodes, n_pods, min);
	scene_ask_and_bind(scene, "u0");
	return scene;
}

static void no_binding_leaves_before_enough_members_are_at_bind(void **state)
{
	struct scene *scene = gathering(*state, 2, 4, 3);

	scene_ask_and_bind(scene, "u1");
	assert_string_equal(scene_orders(scene), "");
	scene_ask_and_bind(scene, "u3");
	assert_string_equal(scene_orders(scene), "go:u3 ");
	for (size_t i = 0; i < 4; i++)
		if (i != 2)
			scene_sent(scene, four[i]);
	/* The fourth goes at once. */
	assert_int_equal(scene_ask(scene, "u2"), GANG_NONE);
	assert_false(gangs_bind(&scene->gangs, &scene->ledger, "u2", "n0", scene->now_ns));
}

static void a_gang_that_does_not_gather_in_time_gives_everything_back_and_comes_again(void **state)
{
	struct scene *scene = gathering(*state, 2, 2, 2);

	assert_int_equal(scene_wait(scene, SECOND), 0 + GANG_BARRIER_NS - 2 * SECOND + SECOND);
	scene_wait(scene, 3 * SECOND);
	assert_string_equal(scene_orders(scene), "nudge:u1 away:u0 ");
	assert_string_equal(scene_held(scene, "u0"), "");
	assert_string_equal(scene_held(scene, "u1"), "");
	assert_int_equal(scene_ask(scene, "u1"), GANG_WAIT);
	assert_string_equal(scene->text, "its gang is tried again in a moment");
	scene_wait(scene, SECOND);
	assert_string_not_equal(scene_held(scene, "u0"), "");
	assert_string_equal(scene_orders(scene), "nudge:u1 ");
}

/* Each call waits for 4 s, whoever came before. */
static void a_call_of_bind_that_is_gone_does_not_end_the_wait_of_the_others(void **state)
{
	struct scene *scene = gathering(*state, 2, 4, 3);

	scene_wait(scene, 3 * SECOND);
	scene_ask_and_bind(scene, "u1");
	scene_orders(scene);
	scene_delete(scene, "u0");
	assert_string_equal(scene_orders(scene), "away:u0 ");
	scene_wait(scene, 2 * SECOND);
	assert_null(strstr(scene_orders(scene), "away"));
	scene_ask_and_bind(scene, "u2");
	scene_ask_and_bind(scene, "u3");
	assert_string_equal(scene_orders(scene), "go:u3 ");
}

static void a_member_that_goes_costs_the_others_their_plan_unless_another_takes_its_place(void **state)
{
	struct scene *scene = gathering(*state, 1, 3, 2);

	assert_string_equal(scene_held(scene, "u1"), "n0");
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	scene_delete(scene, "u1");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "nudge:u2 ");
	assert_string_equal(scene_held(scene, "u2"), "n0");
	scene_delete(scene, "u2");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "away:u0 ");
	assert_string_equal(scene_held(scene, "u0"), "");
}

static void a_member_that_is_deleted_at_bind_is_turned_away(void **state)
{
	struct scene *scene = gathering(*state, 1, 2, 2);

	scene_delete(scene, "u0");
	assert_string_equal(scene_orders(scene), "away:u0 ");
}

static void a_member_that_may_not_go_where_it_was_planned_goes_elsewhere(void **state)
{
	struct scene *scene = gathering(*state, 2, 2, 2);

	assert_string_equal(scene_held(scene, "u1"), "n0");
	assert_int_equal(scene_ask_for(scene, "u1", "n1"), GANG_NODE);
	assert_string_equal(scene->node, "n1");
	/* Who stands at bind stays where it is. */
	assert_string_equal(scene_held(scene, "u0"), "n0");
	assert_int_equal(scene_ask_for(scene, "u1", "n9"), GANG_WAIT);
	assert_string_equal(scene_orders(scene), "away:u0 ");
	assert_string_equal(scene_held(scene, "u0"), "");
}

/* Another process answered filter. */
static void who_comes_to_bind_without_a_place_gets_one_there_or_is_turned_away(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 2, 10);
	scene_occupy(scene, "there", 6, "n0");
	scene_pods(scene, four, 2, "g", 2, 5);
	scene_bind(scene, "u0", "n0");
	assert_string_equal(scene_orders(scene), "away:u0 ");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "u1"), "");
	scene_bind(scene, "u0", "n1");
	assert_string_equal(scene_held(scene, "u0"), "n1");
	scene_bind(scene, "u1", "n1");
	assert_string_equal(scene_orders(scene), "go:u1 ");
}

static void who_comes_to_bind_elsewhere_than_planned_holds_its_place_there(void **state)
{
	struct scene *scene = gathering(*state, 2, 2, 2);

	assert_string_equal(scene_held(scene, "u1"), "n0");
	scene_bind(scene, "u1", "n1");
	assert_string_equal(scene_held(scene, "u1"), "n1");
	assert_string_equal(scene_orders(scene), "go:u1 ");
}

static void a_spare_member_without_room_leaves_the_plan_alone(void **state)
{
	struct scene *scene = gathering(*state, 1, 3, 2);

	assert_int_equal(scene_ask(scene, "u1"), GANG_NODE);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	assert_string_equal(scene_held(scene, "u0"), "n0");
	assert_string_equal(scene_held(scene, "u1"), "n0");
}

static void hold_on(struct scene *scene, const char *uid, const char *node)
{
	assert_int_equal(decide_hold(&scene->ledger, scene_facts(scene, uid), node, scene->now_ns), FITS);
}

static void once_whole_a_gang_has_ordinary_pods(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 2, 2);

	scene_all_at_bind(scene, four, 2);
	for (size_t i = 0; i < 2; i++)
		scene_bound(scene, four[i], true);
	scene_orders(scene);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "unmark:u0 unmark:u1 ");
	/* One is made anew: it needs nobody else. */
	scene_delete(scene, "u1");
	scene_wait(scene, 0);
	scene_pod(scene, "u2", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_NONE);
	/* None is left: what comes under this name is another gang. */
	scene_delete(scene, "u0");
	scene_wait(scene, 0);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
}

static void members_bound_before_a_restart_count(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 4, 3);

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(scene_ask(scene, four[i]), GANG_NODE);
		scene_bound(scene, four[i], true);
	}
	scene_orders(scene);
	scene_ask_and_bind(scene, "u2");
	assert_string_equal(scene_orders(scene), "go:u2 ");
}

static void pods_without_a_gang_are_nobodys_business(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_pod(scene, "u0", NULL, 0, 5);
	assert_int_equal(scene_ask(scene, "u0"), GANG_NONE);
	assert_false(gangs_bind(&scene->gangs, &scene->ledger, "u0", "n0", scene->now_ns));
	assert_int_equal(scene_wait(scene, 0), INT64_MAX);
	assert_int_equal(scene->gangs.by_uid.count, 0);
}

static void the_largest_min_available_counts_and_a_pod_group_before_it(void **state)
{
	struct scene *scene = *state;
	struct gang_view view;

	scene_nodes(scene, 2, 10);
	scene_pod(scene, "u0", "g", 0, 5);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	assert_string_equal(scene->text, "its gang has no PodGroup and no min-available");
	scene_pod(scene, "u1", "g", 2, 5);
	scene_pod(scene, "u2", "g", 3, 5);
	assert_true(gangs_find(&scene->gangs, &scene->ledger, "u0", scene->now_ns, &view));
	assert_int_equal(view.min, 3);
	assert_true(view.mins_differ);
	assert_int_equal(gangs_set_group(&scene->gangs, "default/g", &(struct gang_group){.min = 4}), 0);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	assert_string_equal(scene->text, "waits for the other pods of its gang");
	gangs_remove_group(&scene->gangs, "default/g");
	assert_int_equal(scene_ask(scene, "u0"), GANG_NODE);
}

static void a_pod_that_changes_its_gang_leaves_the_other(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	free(scene_facts(scene, "u1")->gang);
	scene_facts(scene, "u1")->gang = NULL;
	scene_show(scene, "u1");
	assert_int_equal(scene_ask(scene, "u1"), GANG_NONE);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	scene_facts(scene, "u0")->gang[0] = 'h';
	scene_facts(scene, "u0")->gang_min = 1;
	scene_show(scene, "u0");
	assert_int_equal(scene_ask(scene, "u0"), GANG_NODE);
	assert_int_equal(scene->gangs.by_key.count, 1);
}

/* Found by the simulation, as the six that follow. */
static void the_next_of_a_gang_that_has_just_ended_is_of_another_one(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 2, 2);

	scene_all_at_bind(scene, four, 2);
	for (size_t i = 0; i < 2; i++)
		scene_bound(scene, four[i], true);
	scene_wait(scene, 0);
	scene_delete(scene, "u0");
	scene_delete(scene, "u1");
	scene_pod(scene, "u2", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
}

/* The answer to a Binding is ahead of the watch, which has yet to tell that another one has ended. */
static void who_is_only_said_to_be_bound_does_not_make_a_gang_whole(void **state)
{
	struct scene *scene = scene_gang(*state, 3, 3, 3);

	scene_all_at_bind(scene, four, 3);
	scene_bound(scene, "u0", true);
	scene_bound(scene, "u1", true);
	scene_sent(scene, "u2");
	ledger_confirm(&scene->ledger, "u2");
	scene_orders(scene);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "");
	scene_delete(scene, "u1");
	scene_bound(scene, "u2", true);
	scene_wait(scene, SECOND);
	assert_string_equal(scene_orders(scene), "");
	/* While a new LIST is read, who has gone may still be there. */
	scene_pod(scene, "u3", "g", 3, 5);
	scene_ask_and_bind(scene, "u3");
	gangs_set_following(&scene->gangs, false);
	scene_bound(scene, "u3", true);
	scene_orders(scene);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "");
	gangs_set_following(&scene->gangs, true);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "unmark:u0 unmark:u2 unmark:u3 ");
}

/* By the time it lands the others may be gone: with the mark it does not pass for a whole gang. */
static void later_members_carry_the_mark_until_the_watch_has_shown_them(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 2, 2);

	scene_all_at_bind(scene, four, 2);
	for (size_t i = 0; i < 2; i++)
		scene_bound(scene, four[i], false);
	scene_wait(scene, 0);
	scene_pod(scene, "u2", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_NONE);
	assert_true(gangs_is_forming(&scene->gangs, "u2"));
	hold_on(scene, "u2", "n1");
	scene_sent(scene, "u2");
	scene_delete(scene, "u0");
	scene_delete(scene, "u1");
	scene_bound(scene, "u2", true);
	scene_orders(scene);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "");
	scene_wait(scene, 61 * SECOND);
	assert_string_equal(scene_orders(scene), "evict:u2 ");
}

/* All members ended while no watch was open, and two of their successors were bound meanwhile, as members of
 * a gang that has started. The LIST shows these first, and tells of the others last. */
static void a_gang_whose_members_were_replaced_in_a_gap_has_not_started(void **state)
{
	static const char *const after[] = {"v0", "v1"};
	struct scene *scene = scene_gang(*state, 2, 4, 4);

	scene_bound_together(scene, four, 4);
	gangs_set_following(&scene->gangs, false);
	scene_node(scene, "n2", 10);
	for (size_t i = 0; i < 2; i++) {
		scene_pod(scene, after[i], "g", 4, 5);
		assert_int_equal(scene_ask(scene, after[i]), GANG_NONE);
		hold_on(scene, after[i], "n2");
		scene_sent(scene, after[i]);
	}
	for (size_t i = 0; i < 2; i++)
		scene_bound(scene, after[i], true);
	for (size_t i = 0; i < 4; i++)
		scene_delete(scene, four[i]);
	gangs_set_following(&scene->gangs, true);
	scene_orders(scene);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "");
	scene_wait(scene, 61 * SECOND);
	assert_string_equal(scene_orders(scene), "evict:v0 evict:v1 ");
}

static void nobody_goes_before_the_pod_groups_are_read(void **state)
{
	struct scene *scene = *state;
	const struct gang_group group = {.min = 2};

	scene_nodes(scene, 2, 10);
	gangs_set_groups_known(&scene->gangs, false);
	scene_pods(scene, four, 3, "g", 1, 5);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	assert_string_equal(scene->text, "the cluster's PodGroups are not read yet");
	/* Filter was another process's. */
	scene_bind(scene, "u1", "n0");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "away:u1 ");
	assert_int_equal(gangs_set_group(&scene->gangs, "default/g", &group), 0);
	gangs_set_groups_known(&scene->gangs, true);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "nudge:u0 ");
	scene_ask_and_bind(scene, "u0");
	assert_string_equal(scene_orders(scene), "");
	scene_ask_and_bind(scene, "u1");
	assert_string_equal(scene_orders(scene), "go:u1 ");
}

static void a_binding_that_was_refused_does_not_count(void **state)
{
	struct scene *scene = scene_gang(*state, 3, 3, 3);

	scene_all_at_bind(scene, four, 3);
	for (size_t i = 0; i < 3; i++)
		scene_sent(scene, four[i]);
	scene_bound(scene, "u0", true);
	ledger_release_reservation(&scene->ledger, "u1");
	ledger_release_reservation(&scene->ledger, "u2");
	scene_orders(scene);
	scene_bind(scene, "u1", "n0");
	scene_wait(scene, 0);
	assert_null(strstr(scene_orders(scene), "go:"));
}

static void without_a_number_nobody_waits_at_bind(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_pod(scene, "u0", "g", 0, 5);
	scene_bind(scene, "u0", "n0");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "away:u0 ");
}

static void who_was_turned_away_waits_like_any_pod_once_the_gang_is_there(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 3, 2);
	struct requeue_state waits;

	scene_all_at_bind(scene, four, 2);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	for (size_t i = 0; i < 2; i++)
		scene_bound(scene, four[i], true);
	scene_orders(scene);
	assert_true(requeue_list_find(&scene->requeues, "u2", REQUEUE_GANG, &waits));
	scene_wait(scene, 0);
	assert_false(requeue_list_find(&scene->requeues, "u2", REQUEUE_GANG, &waits));
	assert_true(requeue_list_find(&scene->requeues, "u2", REQUEUE_ROOM, &waits));
	assert_string_equal(scene_orders(scene), "unmark:u0 unmark:u1 ");
}

/* Filter has told it of its gang only, and has searched for no pods to evict. */
static void who_was_turned_away_is_asked_for_again_if_less_important_pods_are_there(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 3, 2);

	scene_facts(scene, "u2")->priority = 1;
	scene_show(scene, "u2");
	scene_all_at_bind(scene, four, 2);
	assert_int_equal(scene_ask(scene, "u2"), GANG_WAIT);
	for (size_t i = 0; i < 2; i++)
		scene_bound(scene, four[i], true);
	scene_orders(scene);
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "unmark:u0 unmark:u1 nudge:u2 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scene_test(the_first_question_holds_places_for_all),
		scene_test(nothing_is_held_for_a_gang_that_finds_no_room_as_a_whole),
		scene_test(a_gang_waits_for_its_last_member_and_is_woken_when_it_comes),
		scene_test(a_gang_that_found_no_room_is_woken_when_there_is),
		scene_test(no_binding_leaves_before_enough_members_are_at_bind),
		scene_test(a_gang_that_does_not_gather_in_time_gives_everything_back_and_comes_again),
		scene_test(a_call_of_bind_that_is_gone_does_not_end_the_wait_of_the_others),
		scene_test(a_member_that_goes_costs_the_others_their_plan_unless_another_takes_its_place),
		scene_test(a_member_that_is_deleted_at_bind_is_turned_away),
		scene_test(a_member_that_may_not_go_where_it_was_planned_goes_elsewhere),
		scene_test(who_comes_to_bind_without_a_place_gets_one_there_or_is_turned_away),
		scene_test(who_comes_to_bind_elsewhere_than_planned_holds_its_place_there),
		scene_test(a_spare_member_without_room_leaves_the_plan_alone),
		scene_test(once_whole_a_gang_has_ordinary_pods),
		scene_test(members_bound_before_a_restart_count),
		scene_test(pods_without_a_gang_are_nobodys_business),
		scene_test(the_largest_min_available_counts_and_a_pod_group_before_it),
		scene_test(a_pod_that_changes_its_gang_leaves_the_other),
		scene_test(the_next_of_a_gang_that_has_just_ended_is_of_another_one),
		scene_test(who_is_only_said_to_be_bound_does_not_make_a_gang_whole),
		scene_test(later_members_carry_the_mark_until_the_watch_has_shown_them),
		scene_test(a_gang_whose_members_were_replaced_in_a_gap_has_not_started),
		scene_test(nobody_goes_before_the_pod_groups_are_read),
		scene_test(a_binding_that_was_refused_does_not_count),
		scene_test(without_a_number_nobody_waits_at_bind),
		scene_test(who_was_turned_away_waits_like_any_pod_once_the_gang_is_there),
		scene_test(who_was_turned_away_is_asked_for_again_if_less_important_pods_are_there),
	};

	return cmocka_run_group_tests_name("gang", tests, NULL, NULL);
}
