#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "core/policy/policy-book.h"
#include "model/facts.h"

#define NOW (1000 * NS_PER_S)

struct fixture {
	struct policy_nodes nodes;
	struct requeue_list requeues;
	struct policy_book book;
};

/* Nodes a (pool a), b (pool b), v (virtual); policies are added by each test. */
static int set_up(void **state)
{
	static struct fixture f;

	policy_nodes_init(&f.nodes);
	policy_nodes_set(&f.nodes, "a", "pool=a\n");
	policy_nodes_set(&f.nodes, "b", "pool=b\n");
	policy_nodes_set(&f.nodes, "v", "type=virtual-kubelet\n");
	requeue_list_init(&f.requeues);
	policy_book_init(&f.book, &f.nodes, &f.requeues);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	policy_book_release(&f->book);
	policy_nodes_release(&f->nodes);
	requeue_list_release(&f->requeues);
	return 0;
}

/* Units: pool a with at most max pods, pool b, virtual nodes. Selects app=<app>. */
static struct resource_policy *policy_new(const char *name, const char *app, uint32_t max, int64_t created)
{
	struct resource_policy *policy = resource_policy_new();

	policy->uid = strdup(name);
	policy->name = strdup(name);
	policy->namespace_ = strdup("team");
	policy->created = created;
	policy->n_units = 3;
	policy->units[0] = (struct policy_unit){.kind = POLICY_UNIT_ECS, .has_max = true, .max = max};
	policy->units[1] = (struct policy_unit){.kind = POLICY_UNIT_ECS};
	policy->units[2] = (struct policy_unit){.kind = POLICY_UNIT_ECI};
	label_pairs_add(&policy->units[0].node_selector, "pool", "a");
	label_pairs_add(&policy->units[1].node_selector, "pool", "b");
	if (app)
		selector_require(&policy->selector, "app", SELECTOR_IN, &app, 1);
	return policy;
}

static struct policy_pod_facts facts(const char *uid, const char *labels, const char *node)
{
	return (struct policy_pod_facts){.uid = strdup(uid),
		.namespace_ = strdup("team"),
		.name = strdup(uid),
		.labels = strdup(labels),
		.node = strdup(node)};
}

static struct policy_pod *pod(struct fixture *f, const char *uid, const char *labels, const char *node)
{
	struct policy_pod_facts shown = facts(uid, labels, node);

	return policy_book_set_pod(&f->book, &shown, true);
}

static struct policy_pod *terminating(
	struct fixture *f, const char *uid, const char *labels, const char *node)
{
	struct policy_pod_facts shown = facts(uid, labels, node);

	shown.terminating = true;
	return policy_book_set_pod(&f->book, &shown, true);
}

/* "pods/terminating" of each unit. */
static const char *sums(struct fixture *f, const char *policy)
{
	static char text[128];
	struct policy_unit_usage use[POLICY_UNITS_MAX];

	policy_book_sum(&f->book, policy, use);
	snprintf(text, sizeof(text), "%u/%u %u/%u %u/%u", use[0].pods, use[0].terminating, use[1].pods,
		use[1].terminating, use[2].pods, use[2].terminating);
	return text;
}

static int ask(struct fixture *f, struct policy_pod *asking, uint64_t room)
{
	struct policy_answer answer;

	policy_book_ask(&f->book, asking, 1, room, NOW, &answer);
	if (answer.verdict == POLICY_USE_UNIT)
		policy_book_claim(&f->book, asking, answer.unit, NOW);
	return answer.verdict == POLICY_USE_UNIT ? (int)answer.unit : -1;
}

static void bound_pods_are_in_the_unit_of_their_node(void **state)
{
	struct fixture *f = *state;

	policy_book_set_policy(&f->book, policy_new("p", "web", 2, 0));
	pod(f, "1", "app=web\n", "a");
	pod(f, "2", "app=web\n", "a");
	pod(f, "3", "app=web\n", "b");
	pod(f, "4", "app=web\n", "v");
	pod(f, "5", "app=web\n", "");
	pod(f, "6", "app=db\n", "a");
	pod(f, "7", "app=web\n", "elsewhere");
	assert_string_equal(sums(f, "p"), "2/0 1/0 1/0");
	policy_book_delete_pod(&f->book, "1");
	policy_book_delete_pod(&f->book, "1");
	assert_string_equal(sums(f, "p"), "1/0 1/0 1/0");
}

static void claims_count_until_the_pod_is_bound_wherever_it_is(void **state)
{
	struct fixture *f = *state;
	struct policy_pod *one, *two, *three;

	policy_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
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
	struct policy_pod *one;
	uint64_t freed;

	policy_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	one = pod(f, "1", "app=web\n", "");
	ask(f, one, 7);
	freed = f->book.freed;
	policy_book_expire(&f->book, NOW + 599 * NS_PER_S, NOW);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
	assert_int_equal(f->book.freed, freed);
	policy_book_expire(&f->book, NOW + 600 * NS_PER_S, NOW);
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
	assert_true(f->book.freed > freed);
}

static void a_bound_claim_frees_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t freed;

	policy_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	ask(f, pod(f, "1", "app=web\n", ""), 7);
	freed = f->book.freed;
	pod(f, "1", "app=web\n", "a");
	pod(f, "1", "app=web\n", "a");
	assert_int_equal(f->book.freed, freed);
	policy_book_delete_pod(&f->book, "1");
	assert_true(f->book.freed > freed);
}

static void terminating_pods_count_only_if_the_policy_says_so(void **state)
{
	struct fixture *f = *state;
	struct resource_policy *policy = policy_new("q", "db", 2, 0);

	policy->ignores_terminating = false;
	policy_book_set_policy(&f->book, policy);
	policy_book_set_policy(&f->book, policy_new("p", "web", 2, 0));
	terminating(f, "1", "app=web\n", "a");
	terminating(f, "2", "app=db\n", "a");
	assert_string_equal(sums(f, "p"), "0/1 0/0 0/0");
	assert_string_equal(sums(f, "q"), "1/1 0/0 0/0");
}

static void pods_scheduled_before_the_policy_are_ignored_if_it_says_so(void **state)
{
	struct fixture *f = *state;
	struct resource_policy *policy = policy_new("p", "web", 2, 500);
	struct policy_pod_facts before = facts("1", "app=web\n", "a"), after = facts("2", "app=web\n", "a");

	policy->ignores_previous = true;
	policy_book_set_policy(&f->book, policy);
	before.scheduled = 499;
	after.scheduled = 500;
	policy_book_set_pod(&f->book, &before, true);
	policy_book_set_pod(&f->book, &after, true);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
}

static void only_pods_with_the_labels_and_annotations_of_a_unit_count_there(void **state)
{
	struct fixture *f = *state;
	struct resource_policy *policy = policy_new("p", NULL, 2, 0);
	struct policy_pod_facts both = facts("3", "unit=first\n", "a");

	label_pairs_add(&policy->units[0].pod_labels, "unit", "first");
	label_pairs_add(&policy->units[0].pod_annotations, "note", "x");
	policy_book_set_policy(&f->book, policy);
	assert_non_null(table_get(&f->book.annotation_keys, "note"));
	pod(f, "1", "app=web\n", "a");
	pod(f, "2", "unit=first\n", "a");
	both.annotations = strdup("note=x\n");
	policy_book_set_pod(&f->book, &both, true);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
}

static void each_group_has_the_whole_maximum_and_a_pod_without_the_label_has_no_group(void **state)
{
	struct fixture *f = *state;
	struct resource_policy *policy = policy_new("p", NULL, 1, 0);

	policy->keys[policy->n_keys++] = strdup("hash");
	policy_book_set_policy(&f->book, policy);
	assert_int_equal(ask(f, pod(f, "1", "hash=old\n", ""), 7), 0);
	assert_int_equal(ask(f, pod(f, "2", "hash=old\n", ""), 7), 1);
	assert_int_equal(ask(f, pod(f, "3", "hash=new\n", ""), 7), 0);
	assert_null(pod(f, "4", "app=web\n", "")->group);
	assert_string_equal(sums(f, "p"), "2/0 1/0 0/0");
	policy_book_delete_pod(&f->book, "1");
	policy_book_delete_pod(&f->book, "2");
	policy_book_delete_pod(&f->book, "3");
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
}

static void the_oldest_policy_that_selects_a_pod_has_it(void **state)
{
	struct fixture *f = *state;

	policy_book_set_policy(&f->book, policy_new("z", NULL, 2, 100));
	policy_book_set_policy(&f->book, policy_new("young", NULL, 2, 200));
	policy_book_set_policy(&f->book, policy_new("y", NULL, 2, 100));
	pod(f, "1", "app=web\n", "a");
	assert_string_equal(sums(f, "y"), "1/0 0/0 0/0");
	policy_book_remove_policy(&f->book, "y");
	assert_string_equal(sums(f, "z"), "1/0 0/0 0/0");
	policy_book_remove_policy(&f->book, "z");
	policy_book_remove_policy(&f->book, "z");
	assert_string_equal(sums(f, "young"), "1/0 0/0 0/0");
	policy_book_remove_policy(&f->book, "young");
	assert_string_equal(sums(f, "young"), "0/0 0/0 0/0");
}

static void a_changed_policy_counts_the_pods_that_run_anew(void **state)
{
	struct fixture *f = *state;
	struct resource_policy *swapped = policy_new("p", NULL, 2, 0);
	struct policy_unit first = swapped->units[0];

	policy_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	pod(f, "1", "app=web\n", "a");
	pod(f, "2", "app=web\n", "");
	swapped->units[0] = swapped->units[1];
	swapped->units[1] = first;
	policy_book_set_policy(&f->book, swapped);
	assert_string_equal(sums(f, "p"), "0/0 1/0 0/0");
}

static void relabelled_and_removed_nodes_move_their_pods(void **state)
{
	struct fixture *f = *state;
	uint64_t generation;

	policy_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	pod(f, "1", "app=web\n", "a");
	assert_int_equal(policy_nodes_set(&f->nodes, "a", "pool=b\n"), 0);
	assert_string_equal(sums(f, "p"), "0/0 1/0 0/0");
	generation = f->nodes.generation;
	assert_int_equal(policy_nodes_set(&f->nodes, "a", "pool=b\n"), 0);
	assert_int_equal(f->nodes.generation, generation);
	policy_nodes_remove(&f->nodes, "a");
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
	assert_int_equal(policy_book_units_of(&f->book, policy_book_policy(&f->book, "p"), "b"), 2);
	assert_int_equal(policy_book_units_of(&f->book, policy_book_policy(&f->book, "p"), "a"), 0);
}

static void wait_for_unit(struct fixture *f, const struct policy_pod *pod)
{
	const struct pod_facts facts = {
		.uid = pod->facts.uid, .namespace_ = pod->facts.namespace_, .name = pod->facts.name};

	assert_int_equal(requeue_list_has_no_unit(&f->requeues, &facts, f->book.freed, 0, NOW), 0);
}

static bool waits_for_unit(const struct fixture *f, const char *uid)
{
	struct requeue_state state;

	return requeue_list_find(&f->requeues, uid, REQUEUE_UNIT, &state);
}

static void a_list_forgets_what_neither_it_nor_the_watch_has_shown_but_nobody_who_may_be_newer(void **state)
{
	struct fixture *f = *state;
	struct policy_pod_facts asked = facts("new", "app=web\n", ""),
				waits = facts("waits", "app=web\n", "");

	policy_book_set_policy(&f->book, policy_new("p", NULL, 5, 0));
	wait_for_unit(f, policy_book_set_pod(&f->book, &waits, false));
	pod(f, "1", "app=web\n", "a");
	pod(f, "2", "app=web\n", "a");
	ask(f, policy_book_set_pod(&f->book, &asked, false), 7);
	assert_true(policy_book_is_shown(&f->book, "1"));
	assert_false(policy_book_is_shown(&f->book, "new"));
	policy_book_begin_list(&f->book);
	pod(f, "2", "app=web\n", "a");
	assert_false(policy_book_is_shown(&f->book, "1"));
	assert_true(policy_book_is_shown(&f->book, "2"));
	assert_false(policy_book_is_shown(&f->book, "never"));
	policy_book_end_list(&f->book);
	assert_null(policy_book_pod(&f->book, "1"));
	assert_non_null(policy_book_pod(&f->book, "new"));
	assert_string_equal(sums(f, "p"), "2/0 0/0 0/0");
	pod(f, "waits", "app=web\n", "");
	assert_true(waits_for_unit(f, "waits"));
}

static void a_pod_waits_for_no_unit_once_it_is_bound_or_gone(void **state)
{
	struct fixture *f = *state;

	policy_book_set_policy(&f->book, policy_new("p", NULL, 5, 0));
	for (int i = 0; i < 4; i++) {
		char uid[2] = {(char)('0' + i), 0};

		wait_for_unit(f, pod(f, uid, "app=web\n", ""));
	}
	assert_int_equal(requeue_list_count(&f->requeues, REQUEUE_UNIT), 4);
	pod(f, "0", "app=web\n", "a");
	assert_false(waits_for_unit(f, "0"));
	policy_book_delete_pod(&f->book, "1");
	assert_false(waits_for_unit(f, "1"));
	policy_book_begin_list(&f->book);
	pod(f, "3", "app=web\n", "");
	policy_book_end_list(&f->book);
	assert_false(waits_for_unit(f, "2"));
	assert_true(waits_for_unit(f, "3"));
}

static void an_event_that_is_older_than_the_list_unbinds_nobody(void **state)
{
	struct fixture *f = *state;
	uint64_t freed;

	policy_book_set_policy(&f->book, policy_new("p", NULL, 5, 0));
	pod(f, "1", "app=web\n", "a");
	freed = f->book.freed;
	policy_book_begin_list(&f->book);
	assert_string_equal(pod(f, "1", "app=web\n", "")->facts.node, "a");
	assert_true(policy_book_is_shown(&f->book, "1"));
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
	assert_int_equal(f->book.freed, freed);
}

static void on_a_node_of_two_units_a_pod_is_in_the_one_that_it_was_given(void **state)
{
	struct fixture *f = *state;
	struct resource_policy *policy = policy_new("p", NULL, 1, 0);

	label_pairs_release(&policy->units[0].node_selector);
	label_pairs_release(&policy->units[1].node_selector);
	policy_book_set_policy(&f->book, policy);
	assert_int_equal(policy_book_units_of(&f->book, policy_book_policy(&f->book, "p"), "a"), 3);
	assert_int_equal(ask(f, pod(f, "1", "", ""), 3), 0);
	assert_int_equal(ask(f, pod(f, "2", "", ""), 3), 1);
	pod(f, "1", "", "a");
	pod(f, "2", "", "a");
	assert_string_equal(sums(f, "p"), "1/0 1/0 0/0");
}

static void a_pod_that_no_watch_shows_is_forgotten(void **state)
{
	struct fixture *f = *state;
	struct policy_pod_facts asked = facts("new", "app=web\n", "");
	struct policy_pod *unseen;

	policy_book_set_policy(&f->book, policy_new("p", NULL, 5, 0));
	unseen = policy_book_set_pod(&f->book, &asked, false);
	unseen->forget_ns = NOW + NS_PER_S;
	policy_book_expire(&f->book, NOW, NOW);
	assert_non_null(policy_book_pod(&f->book, "new"));
	policy_book_expire(&f->book, NOW + NS_PER_S, NOW);
	assert_null(policy_book_pod(&f->book, "new"));
}

/* As kube-scheduler asks that has not heard yet. */
static struct policy_pod *asked_about(struct fixture *f, const char *uid)
{
	struct policy_pod_facts shown = facts(uid, "app=web\n", "");

	return policy_book_set_pod(&f->book, &shown, false);
}

static void a_question_about_a_pod_whose_end_was_told_brings_it_not_back(void **state)
{
	struct fixture *f = *state;
	char uid[POLICY_UID_SIZE];

	policy_book_set_policy(&f->book, policy_new("p", NULL, 1, 0));
	pod(f, "1", "app=web\n", "");
	policy_book_delete_pod(&f->book, "1");
	policy_book_delete_pod(&f->book, "unknown");
	assert_null(asked_about(f, "1"));
	assert_null(asked_about(f, "unknown"));
	assert_int_equal(f->book.pods.count, 0);
	/* One that is shown is there; and of those who ended long ago nobody asks. */
	assert_non_null(pod(f, "unknown", "app=web\n", ""));
	for (int i = 0; i < POLICY_GONE_MAX; i++) {
		snprintf(uid, sizeof(uid), "old%d", i);
		policy_book_delete_pod(&f->book, uid);
	}
	assert_non_null(asked_about(f, "1"));
	assert_null(asked_about(f, "old0"));
}

static void what_a_pod_claims_that_an_open_watch_does_not_show_is_free_soon(void **state)
{
	struct fixture *f = *state;
	uint64_t freed;

	policy_book_set_policy(&f->book, policy_new("p", NULL, 1, 0));
	assert_int_equal(ask(f, asked_about(f, "1"), 7), 0);
	policy_book_pod(&f->book, "1")->forget_ns = NOW + 60 * NS_PER_S;
	freed = f->book.freed;
	policy_book_expire(&f->book, NOW + 30 * NS_PER_S, NOW - 1);
	policy_book_expire(&f->book, NOW + 30 * NS_PER_S, 0);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
	assert_int_equal(f->book.freed, freed);
	policy_book_expire(&f->book, NOW + 31 * NS_PER_S, NOW);
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
	assert_true(f->book.freed > freed);
	/* One that is shown may wait for its volumes. */
	assert_int_equal(ask(f, pod(f, "2", "app=web\n", ""), 7), 0);
	policy_book_expire(&f->book, NOW + 31 * NS_PER_S, NOW + 31 * NS_PER_S);
	assert_string_equal(sums(f, "p"), "1/0 0/0 0/0");
}

static void a_finished_pod_is_nowhere(void **state)
{
	struct fixture *f = *state;
	struct policy_pod_facts done = facts("1", "app=web\n", "a");

	policy_book_set_policy(&f->book, policy_new("p", NULL, 2, 0));
	pod(f, "1", "app=web\n", "a");
	done.finished = true;
	assert_null(policy_book_set_pod(&f->book, &done, true));
	assert_string_equal(sums(f, "p"), "0/0 0/0 0/0");
	assert_null(policy_book_pod(&f->book, "1"));
}

/* Whatever happens in whatever order: the sums are what a fresh count of the same pods gives. */
static void sums_equal_a_fresh_count_after_any_history(void **state)
{
	struct fixture *f = *state;
	static const char *const nodes[] = {"", "a", "b", "v", "none"};
	static const char *const labels[] = {"app=web\nhash=1\n", "app=web\nhash=2\n", "app=db\n", "x=y\n"};

	srand(7);
	policy_book_set_policy(&f->book, policy_new("p", "web", 3, 0));
	for (int step = 0; step < 20000; step++) {
		char uid[8], before[128];
		struct policy_pod *known;

		snprintf(uid, sizeof(uid), "%d", rand() % 20);
		known = policy_book_pod(&f->book, uid);
		switch (rand() % 8) {
		case 0:
			policy_book_delete_pod(&f->book, uid);
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
				policy_book_drop_claim(&f->book, known);
			break;
		case 5: {
			struct resource_policy *policy = policy_new("p", rand() % 2 ? "web" : NULL, 3, 0);

			if (rand() % 2)
				policy->keys[policy->n_keys++] = strdup("hash");
			if (rand() % 50 == 0)
				policy_book_set_policy(&f->book, policy);
			else
				resource_policy_free(policy);
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
static void a_unit_never_has_more_than_its_maximum_while_only_answers_are_followed(void **state)
{
	struct fixture *f = *state;
	static const char *const nodes[] = {"a", "b", "v"};

	srand(11);
	policy_book_set_policy(&f->book, policy_new("p", "web", 3, 0));
	for (int step = 0; step < 20000; step++) {
		struct policy_unit_usage use[POLICY_UNITS_MAX];
		struct policy_pod *known;
		char uid[8];

		snprintf(uid, sizeof(uid), "%d", rand() % 12);
		known = policy_book_pod(&f->book, uid);
		if (!known)
			pod(f, uid, "app=web\n", "");
		else if (rand() % 12 == 0)
			policy_book_delete_pod(&f->book, uid);
		else if (known->claim.unit >= 0 && rand() % 2)
			pod(f, uid, "app=web\n", nodes[known->claim.unit]);
		else if (known->claim.unit >= 0 && rand() % 8 == 0)
			policy_book_drop_claim(&f->book, known);
		else if (!*known->facts.node)
			ask(f, known, (uint64_t)rand() % 8);
		f->book.stale = rand() % 20 == 0;
		policy_book_sum(&f->book, "p", use);
		assert_true(use[0].pods <= 3);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Who waits for its time is not put back by whoever changes policies beside it. */
static void a_policy_that_comes_or_goes_leaves_what_pods_of_others_have_waited(void **state)
{
	struct fixture *f = *state;
	struct policy_answer answer;
	struct policy_pod *waiting;

	policy_book_set_policy(&f->book, policy_new("p", "web", 5, 0));
	waiting = pod(f, "u", "app=web\n", "");
	policy_book_ask(&f->book, waiting, 1, 0, NOW, &answer);
	assert_true(waiting->wait.since_ns[0] == NOW);
	policy_book_set_policy(&f->book, policy_new("q", "db", 5, 0));
	policy_book_remove_policy(&f->book, "q");
	policy_book_ask(&f->book, waiting, 1, 0, NOW + NS_PER_S, &answer);
	assert_true(waiting->wait.since_ns[0] == NOW);
	/* A change of its own does. */
	policy_book_set_policy(&f->book, policy_new("p", "web", 6, 0));
	policy_book_ask(&f->book, waiting, 1, 0, NOW + 2 * NS_PER_S, &answer);
	assert_true(waiting->wait.since_ns[0] == NOW + 2 * NS_PER_S);
}

/* Nodes remember what a policy said about them. */
static void books_that_share_nodes_keep_their_policies_apart(void **state)
{
	struct fixture *f = *state;
	struct resource_policy *swapped = policy_new("p", NULL, 5, 0);
	struct policy_book other;
	struct policy_unit first;

	policy_book_init(&other, &f->nodes, &f->requeues);
	first = swapped->units[0];
	swapped->units[0] = swapped->units[1];
	swapped->units[1] = first;
	policy_book_set_policy(&f->book, policy_new("p", NULL, 5, 0));
	policy_book_set_policy(&other, swapped);
	for (int twice = 0; twice < 2; twice++) {
		assert_int_equal(policy_book_units_of(&f->book, policy_book_policy(&f->book, "p"), "a"), 1);
		assert_int_equal(policy_book_units_of(&other, policy_book_policy(&other, "p"), "a"), 2);
	}
	policy_nodes_set(&f->nodes, "a", "pool=b\n");
	assert_int_equal(policy_book_units_of(&f->book, policy_book_policy(&f->book, "p"), "a"), 2);
	for (int i = 0; i < 100; i++) {
		policy_book_set_policy(&other, policy_new("p", NULL, 5, 0));
		assert_int_equal(policy_book_units_of(&other, policy_book_policy(&other, "p"), "a"), 2);
		assert_int_equal(policy_book_units_of(&f->book, policy_book_policy(&f->book, "p"), "v"), 4);
	}
	policy_book_release(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bound_pods_are_in_the_unit_of_their_node),
		TEST(claims_count_until_the_pod_is_bound_wherever_it_is),
		TEST(a_claim_ends_by_time_and_when_it_is_dropped),
		TEST(a_bound_claim_frees_nothing),
		TEST(a_policy_that_comes_or_goes_leaves_what_pods_of_others_have_waited),
		TEST(books_that_share_nodes_keep_their_policies_apart),
		TEST(terminating_pods_count_only_if_the_policy_says_so),
		TEST(pods_scheduled_before_the_policy_are_ignored_if_it_says_so),
		TEST(only_pods_with_the_labels_and_annotations_of_a_unit_count_there),
		TEST(each_group_has_the_whole_maximum_and_a_pod_without_the_label_has_no_group),
		TEST(the_oldest_policy_that_selects_a_pod_has_it),
		TEST(a_changed_policy_counts_the_pods_that_run_anew),
		TEST(relabelled_and_removed_nodes_move_their_pods),
		TEST(a_list_forgets_what_neither_it_nor_the_watch_has_shown_but_nobody_who_may_be_newer),
		TEST(a_pod_waits_for_no_unit_once_it_is_bound_or_gone),
		TEST(an_event_that_is_older_than_the_list_unbinds_nobody),
		TEST(on_a_node_of_two_units_a_pod_is_in_the_one_that_it_was_given),
		TEST(a_pod_that_no_watch_shows_is_forgotten),
		TEST(a_question_about_a_pod_whose_end_was_told_brings_it_not_back),
		TEST(what_a_pod_claims_that_an_open_watch_does_not_show_is_free_soon),
		TEST(a_finished_pod_is_nowhere),
		TEST(sums_equal_a_fresh_count_after_any_history),
		TEST(a_unit_never_has_more_than_its_maximum_while_only_answers_are_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
