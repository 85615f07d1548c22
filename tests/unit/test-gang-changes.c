/* Pods whose labels change, and PodGroups that change, while a gang waits, is bound or runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/placement/decide.h"
#include "gang-fixture.h"

static const char *const two[] = {"u0", "u1"};

/* The watch does not show it. */
static void label_unseen(struct scene *scene, const char *uid, const char *gang, uint32_t min)
{
	struct pod_facts *facts = scene_facts(scene, uid);

	free(facts->gang);
	facts->gang = gang ? strdup(gang) : NULL;
	facts->gang_min = min;
}

static void label(struct scene *scene, const char *uid, const char *gang, uint32_t min)
{
	label_unseen(scene, uid, gang, min);
	scene_show(scene, uid);
}

static size_t members_of(struct scene *scene, const char *uid)
{
	struct gang_view view;

	return gangs_find(&scene->gangs, &scene->ledger, uid, scene->now_ns, &view) ? view.n_members : 0;
}

static void a_pod_that_was_bound_without_a_record_is_not_labelled_into_a_gang(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 1, 2);

	scene_occupy(scene, "runs", 2, "n1");
	label(scene, "runs", "g", 2);
	scene_wait(scene, 0);
	assert_int_equal(members_of(scene, "runs"), 0);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	assert_string_equal(scene->text, "waits for the other pods of its gang");
}

/* After a start nothing but its labels tells. */
static void a_list_shows_members_that_were_bound_without_a_record(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 1, 2);

	scene_occupy(scene, "runs", 2, "n1");
	gangs_set_following(&scene->gangs, false);
	label(scene, "runs", "g", 2);
	gangs_set_following(&scene->gangs, true);
	assert_int_equal(members_of(scene, "runs"), 2);
}

static void a_bound_member_stays_in_its_gang_whatever_its_labels_say(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 2, 2);

	scene_bound_together(scene, two, 2);
	label(scene, "u0", NULL, 0);
	label(scene, "u1", "h", 9);
	assert_int_equal(members_of(scene, "u0"), 2);
	assert_int_equal(members_of(scene, "u1"), 2);
	scene_pod(scene, "u2", "g", 2, 5);
	assert_int_equal(scene_ask(scene, "u2"), GANG_NONE);
}

static void a_member_whose_binding_is_on_its_way_stays_until_it_is_refused(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	for (size_t i = 0; i < 2; i++)
		scene_ask_and_bind(scene, two[i]);
	for (size_t i = 0; i < 2; i++)
		scene_sent(scene, two[i]);
	label(scene, "u0", "h", 1);
	assert_int_equal(members_of(scene, "u1"), 2);
	ledger_release_reservation(&scene->ledger, "u0");
	assert_int_equal(scene_ask(scene, "u0"), GANG_NODE);
	assert_int_equal(members_of(scene, "u0"), 1);
	assert_int_equal(members_of(scene, "u1"), 1);
}

/* Found by the simulation: no node had room by kube-scheduler's own sums, so it never asked for the pod
 * again.
 */
static void a_member_whose_binding_is_refused_leaves_for_the_label_that_was_shown_meanwhile(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	for (size_t i = 0; i < 2; i++)
		scene_ask_and_bind(scene, two[i]);
	for (size_t i = 0; i < 2; i++)
		scene_sent(scene, two[i]);
	label(scene, "u0", "h", 1);
	scene_wait(scene, SECOND);
	assert_int_equal(members_of(scene, "u1"), 2);
	ledger_release_reservation(&scene->ledger, "u0");
	scene_wait(scene, SECOND);
	assert_int_equal(members_of(scene, "u0"), 1);
	assert_int_equal(members_of(scene, "u1"), 1);
}

static void a_planned_member_that_leaves_gives_its_place_back_and_the_others_theirs(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	assert_int_equal(scene_ask(scene, "u0"), GANG_NODE);
	assert_string_equal(scene_held(scene, "u1"), "n0");
	label(scene, "u1", "h", 2);
	assert_string_equal(scene_held(scene, "u1"), "");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "u0"), "");
}

/* kube-scheduler asks for a pod whose label is gone, and the watch tells of that afterwards. */
static void ask_before_the_watch(struct scene *scene, const char *uid)
{
	struct pod_facts *facts = scene_facts(scene, uid);

	free(facts->gang);
	facts->gang = NULL;
	facts->gang_min = 0;
	assert_int_equal(scene_ask(scene, uid), GANG_NONE);
	assert_int_equal(members_of(scene, uid), 0);
	ledger_drop_hold(&scene->ledger, uid);
	assert_int_equal(decide_hold(&scene->ledger, facts, "n0", scene->now_ns), FITS);
	scene_show(scene, uid);
}

static void a_pod_that_left_its_gang_keeps_what_filter_holds_for_it(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 1, 2);

	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	ask_before_the_watch(scene, "u0");
	assert_string_equal(scene_held(scene, "u0"), "n0");
}

static void a_planned_pod_that_left_its_gang_keeps_what_filter_holds_for_it(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);

	assert_int_equal(scene_ask(scene, "u0"), GANG_NODE);
	ask_before_the_watch(scene, "u1");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "u1"), "n0");
	assert_string_equal(scene_held(scene, "u0"), "");
}

/* An event that is older than the question puts it into its gang once more. */
static void a_pod_that_is_shown_late_in_its_gang_keeps_what_filter_holds_for_it(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 1, 2);

	ask_before_the_watch(scene, "u0");
	label(scene, "u0", "g", 2);
	label(scene, "u0", NULL, 0);
	assert_string_equal(scene_held(scene, "u0"), "n0");
}

static void set_min(struct scene *scene, uint32_t min)
{
	assert_int_equal(gangs_set_group(&scene->gangs, "default/g", &(struct gang_group){.min = min}), 0);
	scene_wait(scene, 0);
}

static void a_pod_group_that_needs_fewer_sends_those_at_bind(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 3, 0);

	set_min(scene, 3);
	scene_all_at_bind(scene, two, 2);
	scene_orders(scene);
	set_min(scene, 2);
	assert_string_equal(scene_orders(scene), "go:u0 ");
	/* Who carries it out sends both; if nobody does, the barrier's time ends it. */
	scene_wait(scene, 5 * SECOND);
	assert_string_equal(scene_orders(scene), "away:u0 away:u1 ");
}

static void a_pod_group_that_says_no_number_ends_a_plan_and_lets_nobody_start(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 2, 2);

	assert_int_equal(scene_ask(scene, "u0"), GANG_NODE);
	set_min(scene, 0);
	assert_string_equal(scene_held(scene, "u0"), "");
	assert_string_equal(scene_held(scene, "u1"), "");
	scene_wait(scene, 60 * SECOND);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	assert_string_equal(scene->text, "its PodGroup's minMember is not a number from 1 to 1000");
	gangs_remove_group(&scene->gangs, "default/g");
	assert_int_equal(scene_ask(scene, "u0"), GANG_NODE);
}

static void a_gang_that_has_started_stays_so_whatever_its_pod_group_says(void **state)
{
	static const uint32_t mins[] = {5, 0, 2};
	struct scene *scene = scene_gang(*state, 2, 2, 2);

	scene_bound_together(scene, two, 2);
	for (size_t i = 0; i < 3; i++) {
		set_min(scene, mins[i]);
		scene_wait(scene, 120 * SECOND);
		assert_string_equal(scene_orders(scene), "");
	}
	scene_pod(scene, "u2", "g", 2, 5);
	set_min(scene, 9);
	assert_int_equal(scene_ask(scene, "u2"), GANG_NONE);
}

/* kube-scheduler asks for a pod whose Binding has arrived after its time, as it knew the pod before. */
static void an_older_view_of_a_bound_member_takes_neither_its_node_nor_its_mark(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 2, 2);
	_cleanup_pod_facts_ struct pod_facts older = {0};
	const char *node, *text;

	assert_int_equal(pod_facts_copy(scene_facts(scene, "u1"), &older), 0);
	scene_all_at_bind(scene, two, 2);
	for (int i = 0; i < 2; i++)
		scene_sent(scene, two[i]);
	for (int i = 0; i < 2; i++)
		scene_bound(scene, two[i], true);
	scene_orders(scene);
	assert_int_equal(gangs_filter(&scene->gangs, &scene->ledger, &older, (const char *[]){"n0"}, 1,
				 scene->now_ns, &node, &text),
		GANG_NONE);
	assert_string_equal(gangs_facts(&scene->gangs, "u1")->node, "n0");
	scene_wait(scene, 0);
	assert_string_equal(scene_orders(scene), "unmark:u0 unmark:u1 ");
}

/* Found by the simulation: a pod left its gang and was bound, and kube-scheduler, whose watch was late, asked
 * for it as it had been before. */
static void a_bound_pod_does_not_return_to_the_gang_that_it_left(void **state)
{
	struct scene *scene = scene_gang(*state, 2, 1, 2);
	_cleanup_pod_facts_ struct pod_facts older = {0};
	const char *node, *text;

	scene_occupy(scene, "left", 2, "n1");
	assert_int_equal(pod_facts_copy(scene_facts(scene, "left"), &older), 0);
	older.node[0] = '\0';
	older.gang = strdup("g");
	older.gang_min = 2;
	assert_int_equal(gangs_filter(&scene->gangs, &scene->ledger, &older, (const char *[]){"n0"}, 1,
				 scene->now_ns, &node, &text),
		GANG_NONE);
	assert_int_equal(members_of(scene, "u0"), 1);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
}

/* Found by the simulation: kube-scheduler asked for the pod with its old label after the watch had shown the
 * new one, and then with the new one. No event of the watch follows. */
static void a_pod_that_kube_scheduler_asks_for_with_an_old_label_stays_known(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "s0", 4, "n0");
	scene_pod(scene, "u0", "g", 2, 5);
	scene_pod(scene, "u1", "old", 2, 5);
	label(scene, "u1", "g", 2);
	label_unseen(scene, "u1", "old", 2);
	assert_int_equal(scene_ask(scene, "u1"), GANG_WAIT);
	label_unseen(scene, "u1", "g", 2);
	assert_int_equal(scene_ask(scene, "u1"), GANG_WAIT);
	scene_wait(scene, 11 * SECOND);
	assert_int_equal(members_of(scene, "u1"), 2);
	assert_true(requeue_list_find(&scene->requeues, "u1", REQUEUE_GANG, &(struct requeue_state){0}));
	scene_orders(scene);
	scene_delete(scene, "s0");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "u1"), "n0");
	assert_string_equal(scene_orders(scene), "nudge:u1 ");
}

/* It was deleted before the watch could show it. */
static void a_pod_that_the_watch_never_shows_is_forgotten(void **state)
{
	struct scene *scene = scene_gang(*state, 1, 1, 2);

	scene_pod(scene, "u1", "g", 2, 5);
	scene_delete(scene, "u1");
	assert_int_equal(members_of(scene, "u0"), 1);
	assert_int_equal(scene_ask(scene, "u1"), GANG_NODE);
	/* The ledger knows what it holds by now. */
	assert_int_equal(scene_ask(scene, "u1"), GANG_NODE);
	assert_int_equal(members_of(scene, "u0"), 2);
	scene_wait(scene, 11 * SECOND);
	assert_int_equal(members_of(scene, "u0"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scene_test(a_pod_that_was_bound_without_a_record_is_not_labelled_into_a_gang),
		scene_test(a_list_shows_members_that_were_bound_without_a_record),
		scene_test(a_bound_member_stays_in_its_gang_whatever_its_labels_say),
		scene_test(a_member_whose_binding_is_on_its_way_stays_until_it_is_refused),
		scene_test(a_member_whose_binding_is_refused_leaves_for_the_label_that_was_shown_meanwhile),
		scene_test(a_planned_member_that_leaves_gives_its_place_back_and_the_others_theirs),
		scene_test(a_pod_that_left_its_gang_keeps_what_filter_holds_for_it),
		scene_test(a_planned_pod_that_left_its_gang_keeps_what_filter_holds_for_it),
		scene_test(a_pod_that_is_shown_late_in_its_gang_keeps_what_filter_holds_for_it),
		scene_test(a_pod_group_that_needs_fewer_sends_those_at_bind),
		scene_test(a_pod_group_that_says_no_number_ends_a_plan_and_lets_nobody_start),
		scene_test(a_gang_that_has_started_stays_so_whatever_its_pod_group_says),
		scene_test(an_older_view_of_a_bound_member_takes_neither_its_node_nor_its_mark),
		scene_test(a_bound_pod_does_not_return_to_the_gang_that_it_left),
		scene_test(a_pod_that_kube_scheduler_asks_for_with_an_old_label_stays_known),
		scene_test(a_pod_that_the_watch_never_shows_is_forgotten),
	};

	return cmocka_run_group_tests_name("gang changes", tests, NULL, NULL);
}
