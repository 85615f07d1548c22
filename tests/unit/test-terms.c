/* When another mode or unit comes into force on a node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "node/terms.h"

#define NOW (1000 * NS_PER_S)

static const struct terms share = {GPU_MODE_SHARE, 1024}, share_128 = {GPU_MODE_SHARE, 128},
			  cgpu = {GPU_MODE_CGPU, 1024}, none = {GPU_MODE_NONE, 1024},
			  none_128 = {GPU_MODE_NONE, 128};

/* An empty node that serves `in_force`, is asked for `asked`, and everybody knows that it is closed. */
static struct terms_seen closed(const struct terms *asked, int64_t now_ns)
{
	return (struct terms_seen){.asked = *asked, .closed = true, .following = true, .now_ns = now_ns};
}

static void assert_in_force(const struct terms_change *change, const struct terms *terms)
{
	assert_int_equal(change->in_force.mode, terms->mode);
	assert_int_equal(change->in_force.unit_mib, terms->unit_mib);
}

static void what_is_in_force_is_open(void **state)
{
	struct terms_change change = {share, 5};
	struct terms_seen seen = closed(&share, NOW);

	seen.holders = 3;
	assert_int_equal(terms_settle(&change, &seen), TERMS_OPEN);
	assert_int_equal(change.closed_since_ns, 0);
}

static void node_without_a_mode_takes_one_at_once(void **state)
{
	struct terms_change change = {none, 0};
	struct terms_seen seen = {.asked = cgpu, .now_ns = NOW};

	assert_int_equal(terms_settle(&change, &seen), TERMS_CHANGED);
	assert_in_force(&change, &cgpu);
	assert_int_equal(terms_settle(&change, &seen), TERMS_OPEN);
}

static void unit_of_a_node_without_a_mode_is_what_is_asked_for(void **state)
{
	struct terms_change change = {none, 0};
	struct terms_seen seen = {.asked = none_128, .now_ns = NOW};

	assert_int_equal(terms_settle(&change, &seen), TERMS_OPEN);
	assert_in_force(&change, &none_128);
}

static void wait_and_change(const struct terms *from, const struct terms *to)
{
	struct terms_change change = {*from, 0};
	struct terms_seen seen = closed(to, NOW);

	seen.closed = false; /* nobody was told yet */
	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	seen.closed = true;
	seen.now_ns += 10 * NS_PER_S;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	seen.now_ns += TERMS_CLOSED_NS - 1;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	assert_in_force(&change, from);
	seen.now_ns += 1;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CHANGED);
	assert_in_force(&change, to);
}

static void empty_node_changes_when_no_binding_can_be_on_its_way(void **state)
{
	wait_and_change(&share, &cgpu);
	wait_and_change(&share, &share_128);
	wait_and_change(&share_128, &cgpu);
	wait_and_change(&cgpu, &none);
}

static void pods_keep_what_they_came_under(void **state)
{
	struct terms_change change = {share, 0};
	struct terms_seen seen = closed(&share_128, NOW);

	seen.holders = 1;
	assert_int_equal(terms_settle(&change, &seen), TERMS_HELD);
	seen.now_ns += 3600 * NS_PER_S;
	assert_int_equal(terms_settle(&change, &seen), TERMS_HELD);
	assert_in_force(&change, &share);
	/* It was closed long enough meanwhile. */
	seen.holders = 0;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CHANGED);
	assert_in_force(&change, &share_128);
}

static void pod_that_was_on_its_way_is_waited_for(void **state)
{
	struct terms_change change = {share, 0};
	struct terms_seen seen = closed(&cgpu, NOW);

	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	seen.now_ns += TERMS_CLOSED_NS / 2;
	seen.holders = 1;
	assert_int_equal(terms_settle(&change, &seen), TERMS_HELD);
	seen.now_ns += TERMS_CLOSED_NS;
	assert_int_equal(terms_settle(&change, &seen), TERMS_HELD);
	assert_in_force(&change, &share);
}

static void while_the_watch_of_pods_is_away_nothing_changes(void **state)
{
	struct terms_change change = {share, NOW};
	struct terms_seen seen = closed(&cgpu, NOW + 2 * TERMS_CLOSED_NS);

	seen.following = false;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	seen.following = true;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CHANGED);
}

static void what_is_put_back_meanwhile_is_open_again_and_the_time_starts_anew(void **state)
{
	struct terms_change change = {share, 0};
	struct terms_seen seen = closed(&cgpu, NOW), back = closed(&share, NOW + NS_PER_S);

	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	assert_int_equal(terms_settle(&change, &back), TERMS_OPEN);
	seen.now_ns = NOW + TERMS_CLOSED_NS;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	assert_in_force(&change, &share);
}

/* The annotation that is still shown is the one that we have just taken away. */
static void node_that_is_shown_open_was_not_closed(void **state)
{
	struct terms_change change = {share, 0};
	struct terms_seen seen = closed(&cgpu, NOW);

	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	seen.closed = false;
	seen.now_ns = NOW + TERMS_CLOSED_NS;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	seen.closed = true;
	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
}

static void third_mode_that_is_asked_for_meanwhile_is_the_one_that_comes(void **state)
{
	struct terms_change change = {share, 0};
	struct terms_seen seen = closed(&cgpu, NOW), third = closed(&share_128, NOW + TERMS_CLOSED_NS);

	assert_int_equal(terms_settle(&change, &seen), TERMS_CLOSED);
	assert_int_equal(terms_settle(&change, &third), TERMS_CHANGED);
	assert_in_force(&change, &share_128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_force_is_open),
		cmocka_unit_test(node_without_a_mode_takes_one_at_once),
		cmocka_unit_test(unit_of_a_node_without_a_mode_is_what_is_asked_for),
		cmocka_unit_test(empty_node_changes_when_no_binding_can_be_on_its_way),
		cmocka_unit_test(pods_keep_what_they_came_under),
		cmocka_unit_test(pod_that_was_on_its_way_is_waited_for),
		cmocka_unit_test(while_the_watch_of_pods_is_away_nothing_changes),
		cmocka_unit_test(what_is_put_back_meanwhile_is_open_again_and_the_time_starts_anew),
		cmocka_unit_test(node_that_is_shown_open_was_not_closed),
		cmocka_unit_test(third_mode_that_is_asked_for_meanwhile_is_the_one_that_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
