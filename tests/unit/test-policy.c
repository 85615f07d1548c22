#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/policy/policy.h"

/* Three units: ecs with at most 2 pods, ecs without a limit, eci. */
struct fixture {
	struct resource_policy *policy;
	struct policy_unit_usage use[POLICY_UNITS_MAX];
	struct policy_wait wait;
	struct amounts requests;
	struct policy_answer answer;
	bool nominated;
	uint32_t together;
	int64_t now_s;
};

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){.policy = resource_policy_new(), .now_s = 1000};
	f.policy->name = strdup("team");
	f.policy->n_units = 3;
	f.policy->units[0] = (struct policy_unit){.kind = POLICY_UNIT_ECS, .has_max = true, .max = 2};
	f.policy->units[1] = (struct policy_unit){.kind = POLICY_UNIT_ECS};
	f.policy->units[2] = (struct policy_unit){.kind = POLICY_UNIT_ECI};
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	resource_policy_free(f->policy);
	amounts_release(&f->requests);
	return 0;
}

/* room: one letter for each unit, '-' where no node has room. */
static enum policy_verdict ask(struct fixture *f, const char *room)
{
	struct policy_question question = {.policy = f->policy,
		.together = f->together,
		.use = f->use,
		.requests = &f->requests,
		.nominated = f->nominated,
		.now_ns = f->now_s * NS_PER_S};

	for (size_t i = 0; room[i]; i++)
		question.room |= (uint64_t)(room[i] != '-') << i;
	policy_decide(&question, &f->wait, &f->answer);
	return f->answer.verdict;
}

static void expect(struct fixture *f, const char *room, enum policy_verdict verdict, size_t unit)
{
	enum policy_verdict is = ask(f, room);

	if (is != verdict || f->answer.unit != unit)
		fail_msg("room %s: verdict %d level %zu", room, is, f->answer.unit);
}

static const char *text(struct fixture *f)
{
	static char buf[POLICY_TEXT_SIZE];

	return policy_answer_text(f->policy, &f->answer, buf);
}

static void the_first_unit_with_room_below_its_maximum_is_used(void **state)
{
	struct fixture *f = *state;

	expect(f, "abc", POLICY_USE_UNIT, 0);
	f->use[0].pods = 1;
	expect(f, "abc", POLICY_USE_UNIT, 0);
	f->use[0].pods = 2;
	expect(f, "abc", POLICY_USE_UNIT, 1);
	assert_string_equal(
		text(f), "ResourcePolicy team: level 2 (ecs): level 1 (ecs) has its maximum of 2 pods");
	f->use[0].pods = 1;
	expect(f, "-bc", POLICY_USE_UNIT, 1);
	expect(f, "--c", POLICY_USE_UNIT, 2);
	expect(f, "---", POLICY_NO_UNIT, 2);
	assert_string_equal(text(f),
		"ResourcePolicy team: no level is left: level 1 (ecs) has no room, level 2 (ecs) has no room, level 3 (eci) has no room");
}

static void who_is_placed_together_needs_room_below_the_maximum_for_all(void **state)
{
	struct fixture *f = *state;

	f->together = 2;
	expect(f, "abc", POLICY_USE_UNIT, 0);
	f->use[0].pods = 1;
	expect(f, "abc", POLICY_USE_UNIT, 1);
	assert_string_equal(text(f),
		"ResourcePolicy team: level 2 (ecs): level 1 (ecs) would exceed its maximum of 2 pods with 2 pods together");
	expect(f, "a--", POLICY_NO_UNIT, 2);
	f->use[0].pods = 0;
	f->policy->units[0].has_max = false;
	assert_int_equal(amounts_add(&f->policy->units[0].max_resources, "cpu", 4000), 0);
	assert_int_equal(amounts_add(&f->requests, "cpu", 2000), 0);
	expect(f, "abc", POLICY_USE_UNIT, 0);
	f->use[0].milli[0] = 1;
	expect(f, "abc", POLICY_USE_UNIT, 1);
	f->together = UINT32_MAX;
	f->requests.list[0].milli = INT64_MAX;
	expect(f, "abc", POLICY_USE_UNIT, 1);
}

static void a_maximum_of_zero_closes_a_unit(void **state)
{
	struct fixture *f = *state;

	f->policy->units[0].max = 0;
	expect(f, "abc", POLICY_USE_UNIT, 1);
}

static void max_resources_counts_the_pod_that_asks(void **state)
{
	struct fixture *f = *state;

	f->policy->units[0].has_max = false;
	assert_int_equal(amounts_add(&f->policy->units[0].max_resources, "cpu", 4000), 0);
	assert_int_equal(amounts_add(&f->requests, "cpu", 1500), 0);
	f->use[0].milli[0] = 2500;
	expect(f, "abc", POLICY_USE_UNIT, 0);
	f->use[0].milli[0] = 2501;
	expect(f, "abc", POLICY_USE_UNIT, 1);
	assert_string_equal(
		text(f), "ResourcePolicy team: level 2 (ecs): level 1 (ecs) would exceed its maxResources");
	/* What does not ask for the resource has nothing to do with its limit. */
	amounts_release(&f->requests);
	expect(f, "abc", POLICY_USE_UNIT, 0);
}

static void exceed_max_waits_for_room_in_a_unit_below_its_maximum_without_end(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_MAX;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_true(f->answer.until_ns == INT64_MAX);
	f->now_s += 100000;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_string_equal(
		text(f), "ResourcePolicy team: waits for level 1 (ecs): level 1 (ecs) has no room");
	f->use[0].pods = 2;
	expect(f, "-bc", POLICY_USE_UNIT, 1);
	/* Unit 2 has no limit. */
	expect(f, "--c", POLICY_USE_UNIT, 2);
}

static void timeout_or_exceed_max_waits_for_room_as_long_as_it_says(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	f->policy->timeout_ns = 60 * NS_PER_S;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_true(f->answer.until_ns == 1060 * NS_PER_S);
	f->now_s = 1059;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_true(f->answer.until_ns == 1060 * NS_PER_S);
	f->now_s = 1060;
	expect(f, "-bc", POLICY_USE_UNIT, 1);
	/* Unit 2 has neither max nor the label. */
	expect(f, "--c", POLICY_USE_UNIT, 2);
}

static void timeout_or_exceed_max_does_not_wait_for_a_full_unit(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	f->use[0].pods = 2;
	expect(f, "abc", POLICY_USE_UNIT, 1);
}

static void the_clock_of_a_unit_begins_anew_when_it_was_full_or_had_room(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	f->policy->timeout_ns = 60 * NS_PER_S;
	expect(f, "-bc", POLICY_WAIT, 0);
	f->now_s = 1050;
	f->use[0].pods = 2;
	expect(f, "-bc", POLICY_USE_UNIT, 1);
	f->use[0].pods = 1;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_true(f->answer.until_ns == 1110 * NS_PER_S);
	f->now_s = 1090;
	expect(f, "abc", POLICY_USE_UNIT, 0);
	f->now_s = 1100;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_true(f->answer.until_ns == 1160 * NS_PER_S);
}

static void a_unit_that_awaits_scaling_is_waited_for_without_a_maximum(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	f->policy->units[1].awaits_scaling = true;
	f->use[0].pods = 2;
	expect(f, "--c", POLICY_WAIT, 1);
	assert_true(f->answer.until_ns == (1000 + 15 * 60) * NS_PER_S);
	f->now_s += 15 * 60;
	expect(f, "--c", POLICY_USE_UNIT, 2);
}

static void timeout_waits_in_units_without_a_limit_too(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT;
	f->policy->timeout_ns = 10 * NS_PER_S;
	f->use[0].pods = 2;
	expect(f, "--c", POLICY_WAIT, 1);
	f->now_s += 10;
	expect(f, "--c", POLICY_USE_UNIT, 2);
}

static void a_unit_with_a_terminating_pod_is_waited_for(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_LACK_NO_TERMINATING;
	f->use[0].terminating = 1;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_string_equal(text(f),
		"ResourcePolicy team: waits for the end of a terminating pod of level 1 (ecs): level 1 (ecs) has no room");
	f->use[0].pods = 2;
	expect(f, "abc", POLICY_WAIT, 0);
	f->use[0].terminating = 0;
	expect(f, "abc", POLICY_USE_UNIT, 1);
	expect(f, "-bc", POLICY_USE_UNIT, 1);
}

static void the_last_unit_is_never_waited_for_in_vain(void **state)
{
	struct fixture *f = *state;

	f->policy->n_units = 1;
	for (int advance = 0; advance < ADVANCE_MAX_VALUE; advance++) {
		f->policy->advance = (enum policy_advance)advance;
		expect(f, "-", POLICY_NO_UNIT, 0);
		assert_int_equal(f->answer.preempt, 1);
	}
}

static void preemption_comes_after_all_units_by_default(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_TIMEOUT_OR_MAX;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_int_equal(f->answer.preempt, 0);
	f->now_s += 3600;
	f->use[0].pods = 2;
	expect(f, "---", POLICY_NO_UNIT, 2);
	assert_int_equal(f->answer.preempt, 2 | 4); /* who is preempted in a full unit makes no room there */
}

static void a_unit_that_is_waited_for_without_end_is_the_last_one_for_preemption(void **state)
{
	struct fixture *f = *state;

	f->policy->advance = ADVANCE_MAX;
	expect(f, "-bc", POLICY_WAIT, 0);
	assert_int_equal(f->answer.preempt, 1);
}

static void before_next_unit_tries_preemption_in_each_unit_once(void **state)
{
	struct fixture *f = *state;

	f->policy->preempts_each = true;
	expect(f, "--c", POLICY_WAIT, 0);
	assert_int_equal(f->answer.preempt, 1);
	expect(f, "--c", POLICY_WAIT, 1);
	assert_int_equal(f->answer.preempt, 1 | 2);
	expect(f, "--c", POLICY_USE_UNIT, 2);
}

static void before_next_unit_stays_while_victims_are_on_their_way_out(void **state)
{
	struct fixture *f = *state;

	f->policy->preempts_each = true;
	expect(f, "-bc", POLICY_WAIT, 0);
	f->nominated = true;
	expect(f, "-bc", POLICY_WAIT, 0);
	expect(f, "-bc", POLICY_WAIT, 0);
	expect(f, "abc", POLICY_USE_UNIT, 0);
}

static void before_next_unit_does_not_preempt_in_a_full_unit(void **state)
{
	struct fixture *f = *state;

	f->policy->preempts_each = true;
	f->use[0].pods = 2;
	expect(f, "-bc", POLICY_USE_UNIT, 1);
}

static void a_unit_has_real_nodes_or_virtual_ones_with_its_labels(void **state)
{
	struct policy_unit ecs = {.kind = POLICY_UNIT_ECS}, eci = {.kind = POLICY_UNIT_ECI};

	assert_int_equal(label_pairs_add(&ecs.node_selector, "pool", "a"), 0);
	assert_true(policy_unit_has_node(&ecs, "arch=x\npool=a\n", false));
	assert_false(policy_unit_has_node(&ecs, "pool=ab\n", false));
	assert_false(policy_unit_has_node(&ecs, NULL, false));
	assert_false(policy_unit_has_node(&ecs, "pool=a\n", true));
	assert_true(policy_unit_has_node(&eci, NULL, true));
	assert_false(policy_unit_has_node(&eci, NULL, false));
	label_pairs_release(&ecs.node_selector);
}

static void a_long_text_names_four_units_and_counts_the_others(void **state)
{
	struct fixture *f = *state;

	f->policy->n_units = POLICY_UNITS_MAX;
	expect(f, "", POLICY_NO_UNIT, POLICY_UNITS_MAX - 1);
	assert_non_null(strstr(text(f), "level 4 (idc) has no room, and 28 more"));
	assert_null(strstr(text(f), "level 5"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_unit_with_room_below_its_maximum_is_used),
		TEST(who_is_placed_together_needs_room_below_the_maximum_for_all),
		TEST(a_maximum_of_zero_closes_a_unit),
		TEST(max_resources_counts_the_pod_that_asks),
		TEST(exceed_max_waits_for_room_in_a_unit_below_its_maximum_without_end),
		TEST(timeout_or_exceed_max_waits_for_room_as_long_as_it_says),
		TEST(timeout_or_exceed_max_does_not_wait_for_a_full_unit),
		TEST(the_clock_of_a_unit_begins_anew_when_it_was_full_or_had_room),
		TEST(a_unit_that_awaits_scaling_is_waited_for_without_a_maximum),
		TEST(timeout_waits_in_units_without_a_limit_too),
		TEST(a_unit_with_a_terminating_pod_is_waited_for),
		TEST(the_last_unit_is_never_waited_for_in_vain),
		TEST(preemption_comes_after_all_units_by_default),
		TEST(a_unit_that_is_waited_for_without_end_is_the_last_one_for_preemption),
		TEST(before_next_unit_tries_preemption_in_each_unit_once),
		TEST(before_next_unit_stays_while_victims_are_on_their_way_out),
		TEST(before_next_unit_does_not_preempt_in_a_full_unit),
		TEST(a_unit_has_real_nodes_or_virtual_ones_with_its_labels),
		TEST(a_long_text_names_four_units_and_counts_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
