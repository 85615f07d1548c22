/* What gangs may cost, whatever users submit: one loop answers kube-scheduler and looks at gangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gang-fixture.h"

#define MANY_NODES 5000
#define MEMBERS (GANG_NODE_SETS_MAX + 8)

/* n gangs of two, g0 is the oldest, which kube-scheduler has asked for. */
static void pairs(struct scene *scene, size_t n, uint32_t units)
{
	for (size_t i = 0; i < 2 * n; i++) {
		char uid[24], gang[24];

		snprintf(uid, sizeof(uid), "%s%zu", i % 2 ? "b" : "a", i / 2);
		snprintf(gang, sizeof(gang), "g%zu", i / 2);
		scene_pod(scene, uid, gang, 2, units);
		scene_ask_for(scene, uid, "n0");
	}
}

/* Whether a gang would find room if nobody else were there is asked with all pods taken out of the sums. */
static void gangs_that_never_fit_are_asked_about_rarely_and_hold_up_none_that_does(void **state)
{
	struct scene *scene = *state;
	int64_t before, checks = 0;

	scene_nodes(scene, 1, 10);
	scene_occupy(scene, "there", 10, "n0");
	pairs(scene, 6, 11);
	scene_pods(scene, (const char *[]){"u0", "u1"}, 2, "fits", 2, 5);
	for (int s = 0; s < 301; s++) {
		scene_ask_for(scene, "u0", "n0");
		scene_wait(scene, SECOND);
	}
	before = scene->gangs.fit_check_ns;
	for (int i = 0; i < 20; i++) {
		scene_wait(scene, SECOND / 20);
		checks += scene->gangs.fit_check_ns != before;
		before = scene->gangs.fit_check_ns;
	}
	assert_in_range(checks, 1, 2);
	for (int s = 0; s < 10; s++)
		scene_wait(scene, SECOND);
	assert_non_null(ledger_pod(&scene->ledger, "u0")->nomination);
	/* What was found holds for a while. */
	before = scene->gangs.fit_check_ns;
	for (int s = 0; s < 60; s++)
		scene_wait(scene, SECOND);
	assert_int_equal(scene->gangs.fit_check_ns, before);
	scene_delete(scene, "there");
	scene_wait(scene, 0);
	assert_string_equal(scene_held(scene, "u0"), "n0");
}

/* It was planned in this look, in vain. */
static bool is_looked_at(struct scene *scene, int number)
{
	struct gang_view view;
	char uid[24];

	snprintf(uid, sizeof(uid), "a%d", number);
	assert_true(gangs_find(&scene->gangs, &scene->ledger, uid, scene->now_ns, &view));
	return view.text && strcmp(view.text, "no room for its whole gang") == 0;
}

static void one_look_plans_for_few_gangs_where_there_are_many_nodes_and_gets_to_all(void **state)
{
	struct scene *scene = *state;
	bool seen[12] = {false};
	size_t n_seen = 0;

	scene_nodes(scene, MANY_NODES, 10);
	pairs(scene, 12, 11);
	for (int i = 0; i < 12; i++) {
		size_t n = 0;

		/* The ledger changes all the time: what was found before does not hold. */
		scene->ledger.generation++;
		scene_wait(scene, SECOND / 10);
		for (int k = 0; k < 12; k++) {
			bool looked_at = is_looked_at(scene, k);

			n += looked_at;
			seen[k] |= looked_at;
		}
		assert_in_range(n, 1, 4);
	}
	for (int k = 0; k < 12; k++)
		n_seen += seen[k];
	assert_int_equal(n_seen, 12);
}

/* Each member may have other nodes, by its affinity or by what is full at the time: 5,000 names each. */
static void the_nodes_of_few_questions_are_remembered(void **state)
{
	struct scene *scene = *state;
	char uid[16], node[16];

	scene_nodes(scene, MEMBERS, 10);
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		scene_pod(scene, uid, "g", MEMBERS, 10);
	}
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		snprintf(node, sizeof(node), "n%d", i);
		scene_ask_for(scene, uid, node);
		assert_in_range(scene->gangs.n_node_sets, 1, GANG_NODE_SETS_MAX);
	}
	assert_int_equal(scene->gangs.n_node_sets, GANG_NODE_SETS_MAX);
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		scene_delete(scene, uid);
	}
	assert_int_equal(scene->gangs.n_node_sets, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scene_test(gangs_that_never_fit_are_asked_about_rarely_and_hold_up_none_that_does),
		scene_test(one_look_plans_for_few_gangs_where_there_are_many_nodes_and_gets_to_all),
		scene_test(the_nodes_of_few_questions_are_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
