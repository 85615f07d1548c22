/* What is kept for a gang that has waited too long, and for which nothing is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/registry/nomination.h"
#include "gang-fixture.h"
#include "model-fixture.h"

static bool fits(struct scene *scene, const char *uid)
{
	return ledger_choose(&scene->ledger, "n0", scene_facts(scene, uid), NULL) == FITS;
}

static void small_pods_take_what_is_freed_only_until_the_gang_has_waited_too_long(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "s0", 5, "n0");
	scene_occupy(scene, "s1", 5, "n0");
	scene_pods(scene, (const char *[]){"u0", "u1"}, 2, "g", 2, 5);
	scene_pod(scene, "small", NULL, 0, 1);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	scene_wait(scene, 0);
	scene_wait(scene, 299 * SECOND);
	scene_delete(scene, "s0");
	scene_wait(scene, 0);
	assert_true(fits(scene, "small"));
	scene_wait(scene, SECOND);
	assert_false(fits(scene, "small"));
	/* One of higher priority may. */
	scene_facts(scene, "small")->priority = 1;
	assert_true(fits(scene, "small"));
	scene_facts(scene, "small")->priority = 0;
	scene_delete(scene, "s1");
	scene_wait(scene, SECOND);
	assert_string_equal(scene_held(scene, "u0"), "n0");
	assert_string_equal(scene_held(scene, "u1"), "n0");
}

static void gpus_are_kept_for_one_gang_at_a_time_and_only_while_it_is_there(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "s0", 4, "n0");
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 2, 5);
	scene_pods(scene, (const char *[]){"b0", "b1"}, 2, "b", 2, 5);
	scene_pod(scene, "small", NULL, 0, 1);
	scene_ask(scene, "a0");
	scene_ask(scene, "b0");
	scene_wait(scene, 0);
	scene_wait(scene, 300 * SECOND);
	assert_non_null(ledger_pod(&scene->ledger, "a0")->nomination);
	assert_null(ledger_pod(&scene->ledger, "b0")->nomination);
	assert_false(fits(scene, "small"));
	scene_delete(scene, "a0");
	scene_wait(scene, 0);
	assert_null(ledger_pod(&scene->ledger, "a1")->nomination);
	assert_non_null(ledger_pod(&scene->ledger, "b0")->nomination);
	scene_delete(scene, "b0");
	scene_wait(scene, 0);
	assert_true(fits(scene, "small"));
}

static void nothing_is_kept_for_a_gang_that_would_not_fit_an_empty_cluster(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "s0", 4, "n0");
	scene_pods(scene, (const char *[]){"a0", "a1", "a2"}, 3, "a", 3, 5);
	scene_pod(scene, "small", NULL, 0, 1);
	scene_ask(scene, "a0");
	scene_wait(scene, 0);
	scene_wait(scene, 300 * SECOND);
	assert_true(fits(scene, "small"));
	assert_null(ledger_pod(&scene->ledger, "a0")->nomination);
}

/* A gang of three on a node that has room for two, which has waited long enough. */
static struct scene *hopeless(struct scene *scene)
{
	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "s0", 4, "n0");
	scene_pods(scene, (const char *[]){"a0", "a1", "a2"}, 3, "a", 3, 5);
	scene_ask(scene, "a0");
	scene_wait(scene, 0);
	scene_wait(scene, 300 * SECOND);
	assert_null(ledger_pod(&scene->ledger, "a0")->nomination);
	assert_int_equal(scene->gangs.fit_check_ns, scene->now_ns);
	return scene;
}

static void assert_kept_soon(struct scene *scene)
{
	scene_wait(scene, 0);
	scene_wait(scene, SECOND);
	assert_non_null(ledger_pod(&scene->ledger, "a0")->nomination);
}

static void a_gang_that_never_fits_is_looked_at_again_when_a_node_grows(void **state)
{
	struct scene *scene = hopeless(*state);

	scene_node(scene, "n0", 15);
	assert_kept_soon(scene);
}

static void a_gang_that_never_fits_is_looked_at_again_when_a_gpu_is_well(void **state)
{
	struct scene *scene = *state;
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, "n1", GPU_POLICY_BINPACK, 1, (const uint32_t[]){5});
	facts.gpus[0].healthy = false;
	assert_int_equal(ledger_set_node(&scene->ledger, &facts), 0);
	hopeless(scene);
	facts.gpus[0].healthy = true;
	assert_int_equal(ledger_set_node(&scene->ledger, &facts), 0);
	assert_kept_soon(scene);
}

static void a_gang_that_never_fits_is_looked_at_again_when_an_agent_serves(void **state)
{
	struct scene *scene = *state;

	scene_node(scene, "n1", 5);
	ledger_set_agent_lost(&scene->ledger, "n1", true);
	hopeless(scene);
	ledger_set_agent_lost(&scene->ledger, "n1", false);
	assert_kept_soon(scene);
}

static void a_gang_that_never_fits_is_looked_at_again_when_fewer_suffice(void **state)
{
	struct scene *scene = hopeless(*state);

	assert_int_equal(gangs_set_group(&scene->gangs, "default/a", &(struct gang_group){.min = 2}), 0);
	/* Both, beside who is there. */
	assert_kept_soon(scene);
}

static void a_gang_that_never_fits_is_looked_at_again_when_its_label_changes(void **state)
{
	struct scene *scene = hopeless(*state);

	for (int i = 0; i < 3; i++) {
		scene_facts(scene, (const char *[]){"a0", "a1", "a2"}[i])->gang_min = 2;
		scene_show(scene, (const char *[]){"a0", "a1", "a2"}[i]);
	}
	assert_kept_soon(scene);
}

static void while_nothing_grows_a_gang_that_never_fits_is_not_looked_at_again(void **state)
{
	struct scene *scene = hopeless(*state);
	_cleanup_node_facts_ struct node_facts facts;
	int64_t before = scene->gangs.fit_check_ns, checks = 0;

	scene_pod(scene, "s1", NULL, 0, 3);
	scene_delete(scene, "s1");
	fixture_node(&facts, "n0", GPU_POLICY_BINPACK, 1, (const uint32_t[]){10});
	for (int i = 0; i < 60; i++) {
		/* Its agent goes and comes, its address changes, pods come and go. */
		free(facts.address);
		facts.address = strdup(i % 2 ? "192.0.2.1" : "192.0.2.2");
		assert_int_equal(ledger_set_node(&scene->ledger, &facts), 0);
		ledger_set_agent_lost(&scene->ledger, "n0", i == 30);
		scene_delete(scene, i % 2 ? "s1" : "s0");
		scene_show(scene, i % 2 ? "s0" : "s1");
		scene_wait(scene, SECOND);
		checks += scene->gangs.fit_check_ns != before;
		before = scene->gangs.fit_check_ns;
	}
	assert_in_range(checks, 0, 1);
}

static void that_a_gang_never_fits_does_not_become_wrong_by_itself(void **state)
{
	struct scene *scene = hopeless(*state);
	int64_t before = scene->gangs.fit_check_ns;

	for (int i = 0; i < 7; i++) {
		scene_wait(scene, 100 * SECOND);
		assert_int_equal(scene_ask(scene, "a0"), GANG_WAIT);
	}
	assert_int_equal(scene->gangs.fit_check_ns, before);
	scene_node(scene, "n0", 15);
	assert_kept_soon(scene);
}

/* Found by the simulation: both had the same GPU kept for them, and small pods took turns on the other. */
static void what_is_kept_is_room_for_the_whole_gang(void **state)
{
	struct scene *scene = *state;
	const struct nomination *kept[2];

	scene_nodes(scene, 2, 10);
	scene_occupy(scene, "s0", 10, "n1");
	scene_pods(scene, (const char *[]){"u0", "u1"}, 2, "g", 2, 10);
	scene_pod(scene, "small", NULL, 0, 1);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	scene_wait(scene, 0);
	scene_wait(scene, 300 * SECOND);
	kept[0] = ledger_pod(&scene->ledger, "u0")->nomination;
	kept[1] = ledger_pod(&scene->ledger, "u1")->nomination;
	assert_non_null(kept[0]);
	assert_non_null(kept[1]);
	assert_ptr_not_equal(kept[0]->node, kept[1]->node);
	scene_delete(scene, "s0");
	scene_show(scene, "small");
	assert_int_not_equal(ledger_choose(&scene->ledger, "n1", scene_facts(scene, "small"), NULL), FITS);
}

/* On a node with a single large GPU that one must have it, however empty the small one is. */
static void what_is_kept_is_for_the_hardest_to_place_first(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_node(scene, "small", 4);
	scene_occupy(scene, "s0", 7, "n0");
	scene_occupy(scene, "s1", 4, "small");
	scene_pod(scene, "u0", "g", 2, 3);
	scene_pod(scene, "u1", "g", 2, 10);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	scene_wait(scene, 0);
	scene_wait(scene, 300 * SECOND);
	assert_string_equal(ledger_pod(&scene->ledger, "u1")->nomination->node->facts.name, "n0");
	assert_string_equal(ledger_pod(&scene->ledger, "u0")->nomination->node->facts.name, "small");
}

/* A GPU that never becomes free: another one of the same node may. */
static void what_has_not_become_free_for_too_long_is_not_waited_for(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 2, 10);
	scene_occupy(scene, "s0", 9, "n0");
	scene_occupy(scene, "s1", 10, "n1");
	scene_pods(scene, (const char *[]){"u0"}, 1, "g", 1, 10);
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	scene_wait(scene, 0);
	scene_wait(scene, 300 * SECOND);
	assert_string_equal(ledger_pod(&scene->ledger, "u0")->nomination->node->facts.name, "n0");
	assert_int_equal(scene_ask(scene, "u0"), GANG_WAIT);
	for (int i = 0; i < 301; i++)
		scene_wait(scene, SECOND);
	assert_string_equal(ledger_pod(&scene->ledger, "u0")->nomination->node->facts.name, "n1");
}

/* Returns what the next evaluation says. */
static int64_t look(struct scene *scene)
{
	return scene_wait(scene, 0);
}

/* A gang of two whose GPUs have been kept on n0, and where nothing else becomes free. */
static struct scene *kept(struct scene *scene, uint32_t used)
{
	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "s0", used, "n0");
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 2, 5);
	assert_int_equal(scene_ask(scene, "a0"), GANG_WAIT);
	look(scene);
	scene_wait(scene, 300 * SECOND);
	assert_non_null(ledger_pod(&scene->ledger, "a0")->nomination);
	return scene;
}

/* The evaluation that ends the keeping has planned the other gang before. */
static void what_is_no_longer_kept_is_another_gangs_within_a_second(void **state)
{
	struct scene *scene = kept(*state, 4);
	int64_t again_ns;

	scene_pod(scene, "b0", "b", 1, 5);
	assert_int_equal(scene_ask(scene, "b0"), GANG_WAIT);
	look(scene);
	scene_delete(scene, "a0");
	again_ns = look(scene);
	assert_null(ledger_pod(&scene->ledger, "a1")->nomination);
	assert_string_equal(scene_held(scene, "b0"), "");
	assert_in_range(again_ns, 1, SECOND);
	scene_wait(scene, again_ns);
	assert_string_equal(scene_held(scene, "b0"), "n0");
}

/* Likewise where the gang gets its place elsewhere, and the other one's turn was before. */
static void what_a_planned_gang_does_not_need_is_another_gangs_within_a_second(void **state)
{
	struct scene *scene = *state;
	int64_t again_ns;

	scene_node(scene, "n1", 10);
	scene_occupy(scene, "s1", 10, "n1");
	kept(scene, 6);
	scene_pods(scene, (const char *[]){"b0", "b1"}, 2, "b", 2, 2);
	scene_facts(scene, "b0")->priority = 1;
	scene_show(scene, "b0");
	assert_int_equal(scene_ask_for(scene, "b0", "n0"), GANG_WAIT);
	assert_int_equal(scene_ask_for(scene, "b1", "n0"), GANG_WAIT);
	look(scene);
	scene_delete(scene, "s1");
	again_ns = look(scene);
	assert_string_equal(scene_held(scene, "a0"), "n1");
	assert_string_equal(scene_held(scene, "a1"), "n1");
	assert_string_equal(scene_held(scene, "b0"), "");
	assert_in_range(again_ns, 1, SECOND);
	scene_wait(scene, again_ns);
	assert_string_equal(scene_held(scene, "b0"), "n0");
	assert_string_equal(scene_held(scene, "b1"), "n0");
}

/* Gang "a" has waited too long and gets places for two of its three pods; GPUs are now kept for "b". */
static struct scene *first_planned(struct scene *scene)
{
	scene_nodes(scene, 2, 10);
	scene_occupy(scene, "s0", 10, "n0");
	scene_occupy(scene, "s1", 10, "n1");
	scene_pods(scene, (const char *[]){"a0", "a1", "a2"}, 3, "a", 2, 5);
	scene_pods(scene, (const char *[]){"b0", "b1"}, 2, "b", 2, 5);
	scene_ask_for(scene, "a0", "n0");
	scene_ask_for(scene, "b0", "n0");
	scene_wait(scene, 0);
	scene_wait(scene, 300 * SECOND);
	assert_non_null(ledger_pod(&scene->ledger, "a0")->nomination);
	scene_delete(scene, "s0");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "a0"), "n0");
	assert_string_equal(scene_held(scene, "a1"), "n0");
	assert_non_null(ledger_pod(&scene->ledger, "b0")->nomination);
	return scene;
}

static void what_is_kept_for_a_later_gang_takes_no_places_from_one_that_has_them(void **state)
{
	struct scene *scene = first_planned(*state);

	/* It is not among those that have places. If it had one, too, that would be better. */
	assert_int_equal(scene_ask_for(scene, "a2", "n0"), GANG_WAIT);
	assert_int_equal(scene_ask_for(scene, "a0", "n0"), GANG_NODE);
	assert_int_equal(scene_ask_for(scene, "a1", "n0"), GANG_NODE);
}

/* Before filter, a ResourcePolicy asks whether the gang fits. */
static void what_is_kept_for_a_later_gang_is_room_for_a_policys_question(void **state)
{
	struct scene *scene = first_planned(*state);
	const char *mate;
	size_t needed;

	assert_true(gangs_seek(
		&scene->gangs, &scene->ledger, scene_facts(scene, "a2"), scene->now_ns, &needed, &mate));
	assert_int_equal(needed, 2);
	assert_true(gangs_fit_on(&scene->gangs, &scene->ledger, "a2", NULL, needed));
}

static void a_gang_that_lost_its_places_has_them_before_the_later_gang(void **state)
{
	struct scene *scene = first_planned(*state);

	/* kube-scheduler no longer offers the node, and then does again. */
	assert_int_equal(scene_ask_for(scene, "a0", "n1"), GANG_WAIT);
	assert_string_equal(scene_held(scene, "a1"), "");
	assert_int_equal(scene_ask_for(scene, "a0", "n0"), GANG_NODE);
	assert_string_equal(scene_held(scene, "a1"), "n0");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "b0"), "");
}

/* kube-scheduler's PreBind waits for the volumes of "a0" until the plan of its gang is given up. */
static void who_is_late_at_bind_has_its_part_of_what_is_kept_for_its_gang(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "s0", 10, "n0");
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 2, 5);
	scene_pod(scene, "small", NULL, 0, 1);
	scene_ask(scene, "a0");
	scene_wait(scene, 0);
	scene_wait(scene, 300 * SECOND);
	scene_delete(scene, "s0");
	scene_wait(scene, 0);
	assert_int_equal(scene_ask(scene, "a0"), GANG_NODE);
	scene_ask_and_bind(scene, "a1");
	scene_orders(scene);
	scene_wait(scene, GANG_BARRIER_NS);
	assert_non_null(strstr(scene_orders(scene), "away:a1 "));
	assert_false(fits(scene, "small"));
	scene_bind(scene, "a0", "n0");
	scene_wait(scene, 0);
	assert_false(fits(scene, "small"));
	scene_ask_and_bind(scene, "a1");
	assert_non_null(strstr(scene_orders(scene), "go:a1 "));
}

static bool is_kept_for(struct scene *scene, const char *uid)
{
	const struct ledger_pod *known = ledger_pod(&scene->ledger, uid);

	return known && known->nomination;
}

/* Gang "a" has had its places for a while; "b" could have them, too, and waits. */
static struct scene *next_waits(struct scene *scene, int64_t waited_ns)
{
	scene_nodes(scene, 2, 10);
	scene_occupy(scene, "s0", 10, "n0");
	scene_occupy(scene, "s1", 10, "n1");
	scene_pods(scene, (const char *[]){"a0", "a1"}, 2, "a", 2, 5);
	scene_pods(scene, (const char *[]){"b0", "b1"}, 2, "b", 2, 5);
	scene_ask(scene, "a0");
	scene_ask(scene, "b0");
	scene_wait(scene, 0);
	scene_wait(scene, waited_ns);
	scene_delete(scene, "s0");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "a1"), "n0");
	return scene;
}

static void what_a_gang_held_is_kept_for_it_before_the_next_gang_is_planned(void **state)
{
	struct scene *scene = next_waits(*state, 300 * SECOND);

	assert_true(is_kept_for(scene, "b0"));
	scene_ask_and_bind(scene, "a0");
	scene_wait(scene, GANG_BARRIER_NS);
	assert_string_equal(scene_held(scene, "a0"), "");
	assert_string_equal(scene_held(scene, "b0"), "");
	assert_true(is_kept_for(scene, "a0") && is_kept_for(scene, "a1"));
	assert_false(is_kept_for(scene, "b0"));
}

static void what_a_gang_held_is_kept_for_it_before_the_next_question(void **state)
{
	struct scene *scene = next_waits(*state, 300 * SECOND);

	/* A member could not be bound. */
	gangs_give_up(&scene->gangs, &scene->ledger, "a0", "the test says so", scene->now_ns);
	assert_int_equal(scene_ask(scene, "b0"), GANG_WAIT);
	scene_wait(scene, SECOND);
	assert_string_equal(scene_held(scene, "a0"), "n0");
	/* kube-scheduler offers no node where its plan has a place. */
	assert_int_equal(scene_ask_for(scene, "a1", "n1"), GANG_WAIT);
	assert_int_equal(scene_ask(scene, "b0"), GANG_WAIT);
	assert_true(is_kept_for(scene, "a0") && is_kept_for(scene, "a1"));
}

static void what_a_gang_held_is_the_next_gangs_if_it_has_not_waited_too_long(void **state)
{
	struct scene *scene = next_waits(*state, 290 * SECOND);

	scene_ask_and_bind(scene, "a0");
	scene_wait(scene, GANG_BARRIER_NS);
	assert_string_equal(scene_held(scene, "b0"), "n0");
	assert_string_equal(scene_held(scene, "b1"), "n0");
}

static void what_a_gang_held_is_not_kept_for_it_instead_of_an_earlier_one(void **state)
{
	struct scene *scene = *state;

	scene_nodes(scene, 2, 10);
	scene_occupy(scene, "s0", 10, "n0");
	scene_occupy(scene, "s1", 10, "n1");
	scene_pod(scene, "a0", "a", 2, 10);
	scene_pods(scene, (const char *[]){"b0", "b1"}, 2, "b", 2, 5);
	scene_ask(scene, "a0");
	scene_ask(scene, "b0");
	scene_wait(scene, 0);
	scene_wait(scene, 290 * SECOND);
	scene_pod(scene, "a1", "a", 2, 10);
	scene_wait(scene, 0);
	scene_wait(scene, 299 * SECOND);
	scene_delete(scene, "s0");
	assert_int_equal(scene_ask(scene, "b0"), GANG_NODE);
	scene_wait(scene, SECOND);
	assert_true(is_kept_for(scene, "a0"));
	gangs_give_up(&scene->gangs, &scene->ledger, "b0", "the test says so", scene->now_ns);
	assert_true(is_kept_for(scene, "a0") && is_kept_for(scene, "a1"));
	assert_false(is_kept_for(scene, "b0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scene_test(small_pods_take_what_is_freed_only_until_the_gang_has_waited_too_long),
		scene_test(gpus_are_kept_for_one_gang_at_a_time_and_only_while_it_is_there),
		scene_test(nothing_is_kept_for_a_gang_that_would_not_fit_an_empty_cluster),
		scene_test(a_gang_that_never_fits_is_looked_at_again_when_a_node_grows),
		scene_test(a_gang_that_never_fits_is_looked_at_again_when_a_gpu_is_well),
		scene_test(a_gang_that_never_fits_is_looked_at_again_when_an_agent_serves),
		scene_test(a_gang_that_never_fits_is_looked_at_again_when_fewer_suffice),
		scene_test(a_gang_that_never_fits_is_looked_at_again_when_its_label_changes),
		scene_test(while_nothing_grows_a_gang_that_never_fits_is_not_looked_at_again),
		scene_test(that_a_gang_never_fits_does_not_become_wrong_by_itself),
		scene_test(what_is_kept_is_room_for_the_whole_gang),
		scene_test(what_is_kept_is_for_the_hardest_to_place_first),
		scene_test(what_has_not_become_free_for_too_long_is_not_waited_for),
		scene_test(what_is_no_longer_kept_is_another_gangs_within_a_second),
		scene_test(what_a_planned_gang_does_not_need_is_another_gangs_within_a_second),
		scene_test(what_is_kept_for_a_later_gang_takes_no_places_from_one_that_has_them),
		scene_test(what_is_kept_for_a_later_gang_is_room_for_a_policys_question),
		scene_test(a_gang_that_lost_its_places_has_them_before_the_later_gang),
		scene_test(who_is_late_at_bind_has_its_part_of_what_is_kept_for_its_gang),
		scene_test(what_a_gang_held_is_kept_for_it_before_the_next_gang_is_planned),
		scene_test(what_a_gang_held_is_kept_for_it_before_the_next_question),
		scene_test(what_a_gang_held_is_the_next_gangs_if_it_has_not_waited_too_long),
		scene_test(what_a_gang_held_is_not_kept_for_it_instead_of_an_earlier_one),
	};

	return cmocka_run_group_tests_name("gang-keep", tests, NULL, NULL);
}
