#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "core/policy/level-book.h"

#define NOW (1000 * NS_PER_S)

struct fixture {
	struct level_nodes nodes;
	struct level_book book;
};

/* Nodes a (pool a), b (pool b), v (virtual); policies are added by each test. */
static int set_up(void **state)
{
	static struct fixture f;

	level_nodes_init(&f.nodes);
	level_nodes_set(&f.nodes, "a", "pool=a\n");
	level_nodes_set(&f.nodes, "b", "pool=b\n");
	level_nodes_set(&f.nodes, "v", "type=virtual-kubelet\n");
	level_book_init(&f.book, &f.nodes);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	level_book_release(&f->book);
	level_nodes_release(&f->nodes);
	return 0;
}

/* Levels: pool a with at most max pods, pool b, virtual nodes. Selects app=<app>. */
static struct level_policy *policy_new(const char *name, const char *app, uint32_t max, int64_t created)
{
	struct level_policy *policy = level_policy_new();

	policy->uid = strdup(name);
	policy->name = strdup(name);
	policy->namespace_ = strdup("team");
	policy->created = created;
	policy->n_levels = 3;
	policy->levels[0] = (struct level){.kind = LEVEL_ECS, .has_max = true, .max = max};
	policy->levels[1] = (struct level){.kind = LEVEL_ECS};
	policy->levels[2] = (struct level){.kind = LEVEL_ECI};
	level_pairs_add(&policy->levels[0].node_selector, "pool", "a");
	level_pairs_add(&policy->levels[1].node_selector, "pool", "b");
	if (app)
		selector_require(&policy->selector, "app", SELECTOR_IN, &app, 1);
	return policy;
}

static struct level_pod_facts facts(const char *uid, const char *labels, const char *node)
{
	return (struct level_pod_facts){.uid = strdup(uid),
		.namespace_ = strdup("team"),
		.name = strdup(uid),
		.labels = strdup(labels),
		.node = strdup(node)};
}

static struct level_pod *pod(struct fixture *f, const char *uid, const char *labels, const char *node)
{
	struct level_pod_facts shown = facts(uid, labels, node);

	return level_book_set_pod(&f->book, &shown, true);
}

static struct level_pod *terminating(struct fixture *f, const char *uid, const char *labels, const char *node)
{
	struct level_pod_facts shown = facts(uid, labels, node);

	shown.terminating = true;
	return level_book_set_pod(&f->book, &shown, true);
}

/* "pods/terminating" of each level. */
static const char *sums(struct fixture *f, const char *policy)
{
	static char text[128];
	struct level_use use[LEVELS_MAX];

	level_book_sum(&f->book, policy, use);
	snprintf(text, sizeof(text), "%u/%u %u/%u %u/%u", use[0].pods, use[0].terminating, use[1].pods,
		use[1].terminating, use[2].pods, use[2].terminating);
	return text;
}

static int ask(struct fixture *f, struct level_pod *asking, uint64_t room)
{
	struct level_answer answer;

	level_book_ask(&f->book, asking, 1, room, NOW, &answer);
	if (answer.verdict == LEVEL_USE)
		level_book_claim(&f->book, asking, answer.level, NOW);
	return answer.verdict == LEVEL_USE ? (int)answer.level : -1;
}

static void bound_pods_are_in_the_level_of_their_node(void **state)
{
	struct fixture *f = *state;

	level_book_set_policy(&f->book, policy_new("p", "web", 2, 0));
	pod(f, "1", "app=web\n", "a");
	pod(f, "2", "app=web\n", "a");
	pod(f, "3", "app=web\n", "b");
	pod(f, "4", "app=web\n", "v");
	pod(f, "5", "app=web\n", "");
	pod(f, "6", "app=db\n", "a");
	pod(f, "7", "app=web\n", "elsewhere");
	assert_string_equal(sums(f, "p"), "2/0 1/0 1/0");
	level_book_delete_pod(&f->book, "1");
	level_book_delete_pod(&f->book, "1");
	assert_string_equal(sums(f, "p"), "1/0 1/0 1/0");
}

static void claims_count_until_the_pod_is_bound_wherever_it_is(void **state)
{
	struct fixture *f = *state;
	struct level_pod *one, *two, *three;

	level_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	one = pod(f, "1", "app=web\n", "");
	two = pod(f, "2", "app=web\n", "");
	three = pod(f, "3", "app=web\n", "");
	assert_int_equal(ask(f, one, 7), 0);
	assert_int_equal(ask(f, one, 7), 0); /* its own claim does not count against it */
	assert_int_equal(ask(f, two, 7), 0);
	assert_int_equal(ask(f, three, 7), 1);
	assert_string_equal(sums(f, "p"), "2/0 1/0 0/0");
	pod(f, "1", "app=web\n", "a");
	assert_string_equal(sums(f, "p"), "2/0 1/0 0/0");
	pod(f, "2", "app=web\n", "v"); /* somebody bound it by hand */
	assert_string_equal(sums(f, "p"), "1/0 1/0 1/0");
}

static void a_claim_ends_by_time_and_when_it_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct level_pod *one;
	uint64_t freed;

	level_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	one = pod(f, "1", "app=web\n", "");
	ask(f, one, 7);
	freed = f->book.freed;
	level_book_expire(&f->book, NOW + 599 * NS_PER_S, NOW);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
	assert_int_equal(f->book.freed, freed);
	level_book_expire(&f->book, NOW + 600 * NS_PER_S, NOW);
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
	assert_true(f->book.freed > freed);
}

static void a_bound_claim_frees_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t freed;

	level_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	ask(f, pod(f, "1", "app=web\n", ""), 7);
	freed = f->book.freed;
	pod(f, "1", "app=web\n", "a");
	pod(f, "1", "app=web\n", "a");
	assert_int_equal(f->book.freed, freed);
	level_book_delete_pod(&f->book, "1");
	assert_true(f->book.freed > freed);
}

static void terminating_pods_count_only_if_the_policy_says_so(void **state)
{
	struct fixture *f = *state;
	struct level_policy *policy = policy_new("q", "db", 2, 0);

	policy->ignores_terminating = false;
	level_book_set_policy(&f->book, policy);
	level_book_set_policy(&f->book, policy_new("p", "web", 2, 0));
	terminating(f, "1", "app=web\n", "a");
	terminating(f, "2", "app=db\n", "a");
	assert_string_equal(sums(f, "p"), "0/1 0/0 0/0");
	assert_string_equal(sums(f, "q"), "1/1 0/0 0/0");
}

static void pods_scheduled_before_the_policy_are_ignored_if_it_says_so(void **state)
{
	struct fixture *f = *state;
	struct level_policy *policy = policy_new("p", "web", 2, 500);
	struct level_pod_facts before = facts("1", "app=web\n", "a"), after = facts("2", "app=web\n", "a");

	policy->ignores_previous = true;
	level_book_set_policy(&f->book, policy);
	before.scheduled = 499;
	after.scheduled = 500;
	level_book_set_pod(&f->book, &before, true);
	level_book_set_pod(&f->book, &after, true);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
}

static void only_pods_with_the_labels_and_annotations_of_a_level_count_there(void **state)
{
	struct fixture *f = *state;
	struct level_policy *policy = policy_new("p", NULL, 2, 0);
	struct level_pod_facts both = facts("3", "unit=first\n", "a");

	level_pairs_add(&policy->levels[0].pod_labels, "unit", "first");
	level_pairs_add(&policy->levels[0].pod_annotations, "note", "x");
	level_book_set_policy(&f->book, policy);
	assert_non_null(table_get(&f->book.annotation_keys, "note"));
	pod(f, "1", "app=web\n", "a");
	pod(f, "2", "unit=first\n", "a");
	both.annotations = strdup("note=x\n");
	level_book_set_pod(&f->book, &both, true);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
}

static void each_group_has_the_whole_maximum_and_a_pod_without_the_label_has_no_group(void **state)
{
	struct fixture *f = *state;
	struct level_policy *policy = policy_new("p", NULL, 1, 0);

	policy->keys[policy->n_keys++] = strdup("hash");
	level_book_set_policy(&f->book, policy);
	assert_int_equal(ask(f, pod(f, "1", "hash=old\n", ""), 7), 0);
	assert_int_equal(ask(f, pod(f, "2", "hash=old\n", ""), 7), 1);
	assert_int_equal(ask(f, pod(f, "3", "hash=new\n", ""), 7), 0);
	assert_null(pod(f, "4", "app=web\n", "")->group);
	assert_string_equal(sums(f, "p"), "2/0 1/0 0/0");
	level_book_delete_pod(&f->book, "1");
	level_book_delete_pod(&f->book, "2");
	level_book_delete_pod(&f->book, "3");
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
}

static void the_oldest_policy_that_selects_a_pod_has_it(void **state)
{
	struct fixture *f = *state;

	level_book_set_policy(&f->book, policy_new("z", NULL, 2, 100));
	level_book_set_policy(&f->book, policy_new("young", NULL, 2, 200));
	level_book_set_policy(&f->book, policy_new("y", NULL, 2, 100));
	pod(f, "1", "app=web\n", "a");
	assert_string_equal(sums(f, "y"), "1/0 0/0 0/0");
	level_book_remove_policy(&f->book, "y");
	assert_string_equal(sums(f, "z"), "1/0 0/0 0/0");
	level_book_remove_policy(&f->book, "z");
	level_book_remove_policy(&f->book, "z");
	assert_string_equal(sums(f, "young"), "1/0 0/0 0/0");
	level_book_remove_policy(&f->book, "young");
	assert_string_equal(sums(f, "young"), "0/0 0/0 0/0");
}

static void a_changed_policy_counts_the_pods_that_run_anew(void **state)
{
	struct fixture *f = *state;
	struct level_policy *swapped = policy_new("p", NULL, 2, 0);
	struct level first = swapped->levels[0];

	level_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	pod(f, "1", "app=web\n", "a");
	pod(f, "2", "app=web\n", "");
	swapped->levels[0] = swapped->levels[1];
	swapped->levels[1] = first;
	level_book_set_policy(&f->book, swapped);
	assert_string_equal(sums(f, "p"), "0/0 1/0 0/0");
}

static void relabelled_and_removed_nodes_move_their_pods(void **state)
{
	struct fixture *f = *state;
	uint64_t generation;

	level_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	pod(f, "1", "app=web\n", "a");
	assert_int_equal(level_nodes_set(&f->nodes, "a", "pool=b\n"), 0);
	assert_string_equal(sums(f, "p"), "0/0 1/0 0/0");
	generation = f->nodes.generation;
	assert_int_equal(level_nodes_set(&f->nodes, "a", "pool=b\n"), 0);
	assert_int_equal(f->nodes.generation, generation);
	level_nodes_remove(&f->nodes, "a");
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
	assert_int_equal(level_book_levels_of(&f->book, level_book_policy(&f->book, "p"), "b"), 2);
	assert_int_equal(level_book_levels_of(&f->book, level_book_policy(&f->book, "p"), "a"), 0);
}

static void a_new_list_has_shown_nobody_yet_and_keeps_all(void **state)
{
	struct fixture *f = *state;
	struct level_pod_facts asked = facts("new", "app=web\n", ""), waits = facts("waits", "app=web\n", "");

	level_book_set_policy(&f->book, policy_new("p", NULL, 5, 0));
	level_book_set_pod(&f->book, &waits, false)->waits = true;
	pod(f, "1", "app=web\n", "a");
	pod(f, "2", "app=web\n", "a");
	ask(f, level_book_set_pod(&f->book, &asked, false), 7);
	assert_true(level_book_is_shown(&f->book, "1"));
	assert_false(level_book_is_shown(&f->book, "new"));
	level_book_begin_list(&f->book);
	pod(f, "2", "app=web\n", "a");
	assert_false(level_book_is_shown(&f->book, "1"));
	assert_true(level_book_is_shown(&f->book, "2"));
	assert_false(level_book_is_shown(&f->book, "never"));
	assert_non_null(level_book_pod(&f->book, "new"));
	assert_string_equal(sums(f, "p"), "3/0 0/0 0/0");
	assert_true(pod(f, "waits", "app=web\n", "")->waits);
}

static void on_a_node_of_two_levels_a_pod_is_in_the_one_that_it_was_given(void **state)
{
	struct fixture *f = *state;
	struct level_policy *policy = policy_new("p", NULL, 1, 0);

	level_pairs_release(&policy->levels[0].node_selector);
	level_pairs_release(&policy->levels[1].node_selector);
	level_book_set_policy(&f->book, policy);
	assert_int_equal(level_book_levels_of(&f->book, level_book_policy(&f->book, "p"), "a"), 3);
	assert_int_equal(ask(f, pod(f, "1", "", ""), 3), 0);
	assert_int_equal(ask(f, pod(f, "2", "", ""), 3), 1);
	pod(f, "1", "", "a");
	pod(f, "2", "", "a");
	assert_string_equal(sums(f, "p"), "1/0 1/0 0/0");
}

static void a_pod_that_no_watch_shows_is_forgotten(void **state)
{
	struct fixture *f = *state;
	struct level_pod_facts asked = facts("new", "app=web\n", "");
	struct level_pod *unseen;

	level_book_set_policy(&f->book, policy_new("p", NULL, 5, 0));
	unseen = level_book_set_pod(&f->book, &asked, false);
	unseen->forget_ns = NOW + NS_PER_S;
	level_book_expire(&f->book, NOW, NOW);
	assert_non_null(level_book_pod(&f->book, "new"));
	level_book_expire(&f->book, NOW + NS_PER_S, NOW);
	assert_null(level_book_pod(&f->book, "new"));
}

/* As kube-scheduler asks that has not heard yet. */
static struct level_pod *asked_about(struct fixture *f, const char *uid)
{
	struct level_pod_facts shown = facts(uid, "app=web\n", "");

	return level_book_set_pod(&f->book, &shown, false);
}

static void a_question_about_a_pod_whose_end_was_told_brings_it_not_back(void **state)
{
	struct fixture *f = *state;
	char uid[LEVEL_UID_SIZE];

	level_book_set_policy(&f->book, policy_new("p", NULL, 1, 0));
	pod(f, "1", "app=web\n", "");
	level_book_delete_pod(&f->book, "1");
	level_book_delete_pod(&f->book, "unknown");
	assert_null(asked_about(f, "1"));
	assert_null(asked_about(f, "unknown"));
	assert_int_equal(f->book.pods.count, 0);
	/* One that is shown is there; and of those who ended long ago nobody asks. */
	assert_non_null(pod(f, "unknown", "app=web\n", ""));
	for (int i = 0; i < LEVEL_GONE_MAX; i++) {
		snprintf(uid, sizeof(uid), "old%d", i);
		level_book_delete_pod(&f->book, uid);
	}
	assert_non_null(asked_about(f, "1"));
	assert_null(asked_about(f, "old0"));
}

static void what_a_pod_claims_that_an_open_watch_does_not_show_is_free_soon(void **state)
{
	struct fixture *f = *state;
	uint64_t freed;

	level_book_set_policy(&f->book, policy_new("p", NULL, 1, 0));
	assert_int_equal(ask(f, asked_about(f, "1"), 7), 0);
	level_book_pod(&f->book, "1")->forget_ns = NOW + 60 * NS_PER_S;
	freed = f->book.freed;
	level_book_expire(&f->book, NOW + 30 * NS_PER_S, NOW - 1);
	level_book_expire(&f->book, NOW + 30 * NS_PER_S, 0);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
	assert_int_equal(f->book.freed, freed);
	level_book_expire(&f->book, NOW + 31 * NS_PER_S, NOW);
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
	assert_true(f->book.freed > freed);
	/* One that is shown may wait for its volumes. */
	assert_int_equal(ask(f, pod(f, "2", "app=web\n", ""), 7), 0);
	level_book_expire(&f->book, NOW + 31 * NS_PER_S, NOW + 31 * NS_PER_S);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
}

static void a_finished_pod_is_nowhere(void **state)
{
	struct fixture *f = *state;
	struct level_pod_facts done = facts("1", "app=web\n", "a");

	level_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	pod(f, "1", "app=web\n", "a");
	done.finished = true;
	assert_null(level_book_set_pod(&f->book, &done, true));
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
	assert_null(level_book_pod(&f->book, "1"));
}

/* Whatever happens in whatever order: the sums are what a fresh count of the same pods gives. */
static void sums_equal_a_fresh_count_after_any_history(void **state)
{
	struct fixture *f = *state;
	static const char *const nodes[] = {"", "a", "b", "v", "none"};
	static const char *const labels[] = {"app=web\nhash=1\n", "app=web\nhash=2\n", "app=db\n", "x=y\n"};

	srand(7);
	level_book_set_policy(&f->book, policy_new("p", "web", 3, 0));
	for (int step = 0; step < 20000; step++) {
		char uid[8], before[128];
		struct level_pod *known;

		snprintf(uid, sizeof(uid), "%d", rand() % 20);
		known = level_book_pod(&f->book, uid);
		switch (rand() % 8) {
		case 0:
			level_book_delete_pod(&f->book, uid);
			break;
		case 1:
			terminating(f, uid, labels[rand() % 4], nodes[rand() % 5]);
			break;
		case 2:
		case 3:
			if (known && known->group && !*known->facts.node)
				ask(f, known, (uint64_t)rand() % 8);
			break;
		case 4:
			if (known)
				level_book_drop_claim(&f->book, known);
			break;
		case 5: {
			struct level_policy *policy = policy_new("p", rand() % 2 ? "web" : NULL, 3, 0);

			if (rand() % 2)
				policy->keys[policy->n_keys++] = strdup("hash");
			if (rand() % 50 == 0)
				level_book_set_policy(&f->book, policy);
			else
				level_policy_free(policy);
			break;
		}
		default:
			pod(f, uid, labels[rand() % 4], nodes[rand() % 5]);
		}
		strcpy(before, sums(f, "p"));
		f->book.stale = true;
		assert_string_equal(sums(f, "p"), before);
	}
}

/* What kube-scheduler does with answers, in any order: pods are asked about, bound where they were let,
 * rejected by others, deleted; and all is counted anew now and then, as after a restart of ours. */
static void a_level_never_has_more_than_its_maximum_while_only_answers_are_followed(void **state)
{
	struct fixture *f = *state;
	static const char *const nodes[] = {"a", "b", "v"};

	srand(11);
	level_book_set_policy(&f->book, policy_new("p", "web", 3, 0));
	for (int step = 0; step < 20000; step++) {
		struct level_use use[LEVELS_MAX];
		struct level_pod *known;
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", rand() % 12);
		known = level_book_pod(&f->book, uid);
		if (!known)
			pod(f, uid, "app=web\n", "");
		else if (rand() % 12 == 0)
			level_book_delete_pod(&f->book, uid);
		else if (known->claim >= 0 && rand() % 2)
			pod(f, uid, "app=web\n", nodes[known->claim]);
		else if (known->claim >= 0 && rand() % 8 == 0)
			level_book_drop_claim(&f->book, known);
		else if (!*known->facts.node)
			ask(f, known, (uint64_t)rand() % 8);
		f->book.stale = rand() % 20 == 0;
		level_book_sum(&f->book, "p", use);
		assert_true(use[0].pods <= 3);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Who waits for its time is not put back by whoever changes policies beside it. */
static void a_policy_that_comes_or_goes_leaves_what_pods_of_others_have_waited(void **state)
{
	struct fixture *f = *state;
	struct level_answer answer;
	struct level_pod *waiting;

	level_book_set_policy(&f->book, policy_new("p", "web", 5, 0));
	waiting = pod(f, "u", "app=web\n", "");
	level_book_ask(&f->book, waiting, 1, 0, NOW, &answer);
	assert_true(waiting->wait.since_ns[0] == NOW);
	level_book_set_policy(&f->book, policy_new("q", "db", 5, 0));
	level_book_remove_policy(&f->book, "q");
	level_book_ask(&f->book, waiting, 1, 0, NOW + NS_PER_S, &answer);
	assert_true(waiting->wait.since_ns[0] == NOW);
	/* A change of its own does. */
	level_book_set_policy(&f->book, policy_new("p", "web", 6, 0));
	level_book_ask(&f->book, waiting, 1, 0, NOW + 2 * NS_PER_S, &answer);
	assert_true(waiting->wait.since_ns[0] == NOW + 2 * NS_PER_S);
}

/* Nodes remember what a policy said about them. */
static void books_that_share_nodes_keep_their_policies_apart(void **state)
{
	struct fixture *f = *state;
	struct level_policy *swapped = policy_new("p", NULL, 5, 0);
	struct level_book other;
	struct level first;

	level_book_init(&other, &f->nodes);
	first = swapped->levels[0];
	swapped->levels[0] = swapped->levels[1];
	swapped->levels[1] = first;
	level_book_set_policy(&f->book, policy_new("p", NULL, 5, 0));
	level_book_set_policy(&other, swapped);
	for (int twice = 0; twice < 2; twice++) {
		assert_int_equal(level_book_levels_of(&f->book, level_book_policy(&f->book, "p"), "a"), 1);
		assert_int_equal(level_book_levels_of(&other, level_book_policy(&other, "p"), "a"), 2);
	}
	level_nodes_set(&f->nodes, "a", "pool=b\n");
	assert_int_equal(level_book_levels_of(&f->book, level_book_policy(&f->book, "p"), "a"), 2);
	for (int i = 0; i < 100; i++) {
		level_book_set_policy(&other, policy_new("p", NULL, 5, 0));
		assert_int_equal(level_book_levels_of(&other, level_book_policy(&other, "p"), "a"), 2);
		assert_int_equal(level_book_levels_of(&f->book, level_book_policy(&f->book, "p"), "v"), 4);
	}
	level_book_release(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bound_pods_are_in_the_level_of_their_node),
		TEST(claims_count_until_the_pod_is_bound_wherever_it_is),
		TEST(a_claim_ends_by_time_and_when_it_is_dropped),
		TEST(a_bound_claim_frees_nothing),
		TEST(a_policy_that_comes_or_goes_leaves_what_pods_of_others_have_waited),
		TEST(books_that_share_nodes_keep_their_policies_apart),
		TEST(terminating_pods_count_only_if_the_policy_says_so),
		TEST(pods_scheduled_before_the_policy_are_ignored_if_it_says_so),
		TEST(only_pods_with_the_labels_and_annotations_of_a_level_count_there),
		TEST(each_group_has_the_whole_maximum_and_a_pod_without_the_label_has_no_group),
		TEST(the_oldest_policy_that_selects_a_pod_has_it),
		TEST(a_changed_policy_counts_the_pods_that_run_anew),
		TEST(relabelled_and_removed_nodes_move_their_pods),
		TEST(a_new_list_has_shown_nobody_yet_and_keeps_all),
		TEST(on_a_node_of_two_levels_a_pod_is_in_the_one_that_it_was_given),
		TEST(a_pod_that_no_watch_shows_is_forgotten),
		TEST(a_question_about_a_pod_whose_end_was_told_brings_it_not_back),
		TEST(what_a_pod_claims_that_an_open_watch_does_not_show_is_free_soon),
		TEST(a_finished_pod_is_nowhere),
		TEST(sums_equal_a_fresh_count_after_any_history),
		TEST(a_level_never_has_more_than_its_maximum_while_only_answers_are_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
