#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/policy/levels.h"

/* Three levels: ecs with at most 2 pods, ecs without a limit, eci. */
struct fixture {
	struct level_policy *policy;
	struct level_use use[LEVELS_MAX];
	struct level_wait wait;
	struct amounts requests;
	struct level_answer answer;
	bool nominated;
	uint32_t together;
	int64_t now_s;
};

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){.policy = level_policy_new(), .now_s = 1000};
	f.policy->name = strdup("team");
	f.policy->n_levels = 3;
	f.policy->levels[0] = (struct level){.kind = LEVEL_ECS, .has_max = true, .max = 2};
	f.policy->levels[1] = (struct level){.kind = LEVEL_ECS};
	f.policy->levels[2] = (struct level){.kind = LEVEL_ECI};
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	level_policy_free(f->policy);
	level_amounts_release(&f->requests);
	return 0;
}

/* room: one letter for each level, '-' where no node has room. */
static enum level_verdict ask(struct fixture *f, const char *room)
{
	struct level_question question = {.policy = f->policy,
		.together = f->together,
		.use = f->use,
		.requests = &f->requests,
		.nominated = f->nominated,
		.now_ns = f->now_s * NS_PER_S};

	for (size_t i = 0; room[i]; i++)
		question.room |= (uint64_t)(room[i] != '-') << i;
	level_decide(&question, &f->wait, &f->answer);
	return f->answer.verdict;
}

static void expect(struct fixture *f, const char *room, enum level_verdict verdict, size_t level)
{
	enum level_verdict is = ask(f, room);

	if (is != verdict || f->answer.level != level)
		fail_msg("room %s: verdict %d level %zu", room, is, f->answer.level);
}

static const char *text(struct fixture *f)
{
	static char buf[LEVEL_TEXT_SIZE];

	return level_answer_text(f->policy, &f->answer, buf);
}

static void the_first_level_with_room_below_its_maximum_is_used(void **state)
{
	struct fixture *f = *state;

	expect(f, "abc", LEVEL_USE, 0);
	f->use[0].pods = 1;
	expect(f, "abc", LEVEL_USE, 0);
	f->use[0].pods = 2;
	expect(f, "abc", LEVEL_USE, 1);
	assert_string_equal(
		text(f), "ResourcePolicy team: level 2 (ecs): level 1 (ecs) has its maximum of 2 pods");
	f->use[0].pods = 1;
	expect(f, "-bc", LEVEL_USE, 1);
	expect(f, "--c", LEVEL_USE, 2);
	expect(f, "---", LEVEL_NONE, 2);
	assert_string_equal(text(f),
		"ResourcePolicy team: no level is left: level 1 (ecs) has no room, level 2 (ecs) has no room, level 3 (eci) has no room");
}

static void who_is_placed_together_needs_room_below_the_maximum_for_all(void **state)
{
	struct fixture *f = *state;

	f->together = 2;
	expect(f, "abc", LEVEL_USE, 0);
	f->use[0].pods = 1;
	expect(f, "abc", LEVEL_USE, 1);
	assert_string_equal(text(f),
		"ResourcePolicy team: level 2 (ecs): level 1 (ecs) would exceed its maximum of 2 pods with 2 pods together");
	expect(f, "a--", LEVEL_NONE, 2);
	f->use[0].pods = 0;
	f->policy->levels[0].has_max = false;
	assert_int_equal(level_amounts_add(&f->policy->levels[0].max_resources, "cpu", 4000), 0);
	assert_int_equal(level_amounts_add(&f->requests, "cpu", 2000), 0);
	expect(f, "abc", LEVEL_USE, 0);
	f->use[0].milli[0] = 1;
	expect(f, "abc", LEVEL_USE, 1);
	f->together = UINT32_MAX;
	f->requests.list[0].milli = INT64_MAX;
	expect(f, "abc", LEVEL_USE, 1);
}

static void a_maximum_of_zero_closes_a_level(void **state)
{
	struct fixture *f = *state;

	f->policy->levels[0].max = 0;
	expect(f, "abc", LEVEL_USE, 1);
}

static void max_resources_counts_the_pod_that_asks(void **state)
{
	struct fixture *f = *state;

	f->policy->levels[0].has_max = false;
	assert_int_equal(level_amounts_add(&f->policy->levels[0].max_resources, "cpu", 4000), 0);
	assert_int_equal(level_amounts_add(&f->requests, "cpu", 1500), 0);
	f->use[0].milli[0] = 2500;
	expect(f, "abc", LEVEL_USE, 0);
	f->use[0].milli[0] = 2501;
	expect(f, "abc", LEVEL_USE, 1);
	assert_string_equal(
		text(f), "ResourcePolicy team: level 2 (ecs): level 1 (ecs) would exceed its maxResources");
	/* What does not ask for the resource has nothing to do with its limit. */
	level_amounts_release(&f->requests);
	expect(f, "abc", LEVEL_USE, 0);
}

static void exceed_max_waits_for_room_in_a_level_below_its_maximum_without_end(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_MAX;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_true(f->answer.until_ns == INT64_MAX);
	f->now_s += 100000;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_string_equal(
		text(f), "ResourcePolicy team: waits for level 1 (ecs): level 1 (ecs) has no room");
	f->use[0].pods = 2;
	expect(f, "-bc", LEVEL_USE, 1);
	/* Level 2 has no limit. */
	expect(f, "--c", LEVEL_USE, 2);
}

static void timeout_or_exceed_max_waits_for_room_as_long_as_it_says(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	f->policy->timeout_ns = 60 * NS_PER_S;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_true(f->answer.until_ns == 1060 * NS_PER_S);
	f->now_s = 1059;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_true(f->answer.until_ns == 1060 * NS_PER_S);
	f->now_s = 1060;
	expect(f, "-bc", LEVEL_USE, 1);
	/* Level 2 has neither max nor the label. */
	expect(f, "--c", LEVEL_USE, 2);
}

static void timeout_or_exceed_max_does_not_wait_for_a_full_level(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	f->use[0].pods = 2;
	expect(f, "abc", LEVEL_USE, 1);
}

static void the_clock_of_a_level_begins_anew_when_it_was_full_or_had_room(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	f->policy->timeout_ns = 60 * NS_PER_S;
	expect(f, "-bc", LEVEL_WAIT, 0);
	f->now_s = 1050;
	f->use[0].pods = 2;
	expect(f, "-bc", LEVEL_USE, 1);
	f->use[0].pods = 1;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_true(f->answer.until_ns == 1110 * NS_PER_S);
	f->now_s = 1090;
	expect(f, "abc", LEVEL_USE, 0);
	f->now_s = 1100;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_true(f->answer.until_ns == 1160 * NS_PER_S);
}

static void a_level_that_awaits_scaling_is_waited_for_without_a_maximum(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	f->policy->levels[1].awaits_scaling = true;
	f->use[0].pods = 2;
	expect(f, "--c", LEVEL_WAIT, 1);
	assert_true(f->answer.until_ns == (1000 + 15 * 60) * NS_PER_S);
	f->now_s += 15 * 60;
	expect(f, "--c", LEVEL_USE, 2);
}

static void timeout_waits_in_levels_without_a_limit_too(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT;
	f->policy->timeout_ns = 10 * NS_PER_S;
	f->use[0].pods = 2;
	expect(f, "--c", LEVEL_WAIT, 1);
	f->now_s += 10;
	expect(f, "--c", LEVEL_USE, 2);
}

static void a_level_with_a_terminating_pod_is_waited_for(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_LACK_NO_TERMINATING;
	f->use[0].terminating = 1;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_string_equal(text(f),
		"ResourcePolicy team: waits for the end of a terminating pod of level 1 (ecs): level 1 (ecs) has no room");
	f->use[0].pods = 2;
	expect(f, "abc", LEVEL_WAIT, 0);
	f->use[0].terminating = 0;
	expect(f, "abc", LEVEL_USE, 1);
	expect(f, "-bc", LEVEL_USE, 1);
}

static void the_last_level_is_never_waited_for_in_vain(void **state)
{
	struct fixture *f = *state;

	f->policy->n_levels = 1;
	for (int advance = 0; advance < ADVANCE_MAX_VALUE; advance++) {
		f->policy->advance = (enum level_advance)advance;
		expect(f, "-", LEVEL_NONE, 0);
		assert_int_equal(f->answer.preempt, 1);
	}
}

static void preemption_comes_after_all_levels_by_default(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_int_equal(f->answer.preempt, 0);
	f->now_s += 3600;
	f->use[0].pods = 2;
	expect(f, "---", LEVEL_NONE, 2);
	assert_int_equal(f->answer.preempt, 2 | 4); /* who is preempted in a full level makes no room there */
}

static void a_level_that_is_waited_for_without_end_is_the_last_one_for_preemption(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_MAX;
	expect(f, "-bc", LEVEL_WAIT, 0);
	assert_int_equal(f->answer.preempt, 1);
}

static void before_next_unit_tries_preemption_in_each_level_once(void **state)
{
	struct fixture *f = *state;

	f->policy->preempts_each = true;
	expect(f, "--c", LEVEL_WAIT, 0);
	assert_int_equal(f->answer.preempt, 1);
	expect(f, "--c", LEVEL_WAIT, 1);
	assert_int_equal(f->answer.preempt, 1 | 2);
	expect(f, "--c", LEVEL_USE, 2);
}

static void before_next_unit_stays_while_victims_are_on_their_way_out(void **state)
{
	struct fixture *f = *state;

	f->policy->preempts_each = true;
	expect(f, "-bc", LEVEL_WAIT, 0);
	f->nominated = true;
	expect(f, "-bc", LEVEL_WAIT, 0);
	expect(f, "-bc", LEVEL_WAIT, 0);
	expect(f, "abc", LEVEL_USE, 0);
}

static void before_next_unit_does_not_preempt_in_a_full_level(void **state)
{
	struct fixture *f = *state;

	f->policy->preempts_each = true;
	f->use[0].pods = 2;
	expect(f, "-bc", LEVEL_USE, 1);
}

static void a_level_has_real_nodes_or_virtual_ones_with_its_labels(void **state)
{
	struct level ecs = {.kind = LEVEL_ECS}, eci = {.kind = LEVEL_ECI};

	assert_int_equal(level_pairs_add(&ecs.node_selector, "pool", "a"), 0);
	assert_true(level_has_node(&ecs, "arch=x\npool=a\n", false));
	assert_false(level_has_node(&ecs, "pool=ab\n", false));
	assert_false(level_has_node(&ecs, NULL, false));
	assert_false(level_has_node(&ecs, "pool=a\n", true));
	assert_true(level_has_node(&eci, NULL, true));
	assert_false(level_has_node(&eci, NULL, false));
	level_pairs_release(&ecs.node_selector);
}

static void a_long_text_names_four_levels_and_counts_the_others(void **state)
{
	struct fixture *f = *state;

	f->policy->n_levels = LEVELS_MAX;
	expect(f, "", LEVEL_NONE, LEVELS_MAX - 1);
	assert_non_null(strstr(text(f), "level 4 (idc) has no room, and 28 more"));
	assert_null(strstr(text(f), "level 5"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_level_with_room_below_its_maximum_is_used),
		TEST(who_is_placed_together_needs_room_below_the_maximum_for_all),
		TEST(a_maximum_of_zero_closes_a_level),
		TEST(max_resources_counts_the_pod_that_asks),
		TEST(exceed_max_waits_for_room_in_a_level_below_its_maximum_without_end),
		TEST(timeout_or_exceed_max_waits_for_room_as_long_as_it_says),
		TEST(timeout_or_exceed_max_does_not_wait_for_a_full_level),
		TEST(the_clock_of_a_level_begins_anew_when_it_was_full_or_had_room),
		TEST(a_level_that_awaits_scaling_is_waited_for_without_a_maximum),
		TEST(timeout_waits_in_levels_without_a_limit_too),
		TEST(a_level_with_a_terminating_pod_is_waited_for),
		TEST(the_last_level_is_never_waited_for_in_vain),
		TEST(preemption_comes_after_all_levels_by_default),
		TEST(a_level_that_is_waited_for_without_end_is_the_last_one_for_preemption),
		TEST(before_next_unit_tries_preemption_in_each_level_once),
		TEST(before_next_unit_stays_while_victims_are_on_their_way_out),
		TEST(before_next_unit_does_not_preempt_in_a_full_level),
		TEST(a_level_has_real_nodes_or_virtual_ones_with_its_labels),
		TEST(a_long_text_names_four_levels_and_counts_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
