/* Groups of a policy come and go with their pods: a Deployment whose template changes leaves none behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "core/policy/policy-book-internal.h"

static struct policy_nodes nodes;
static struct policy_book book;
static struct requeue_list requeues;

/* Policy "p" with a group for each value of the label "hash". */
static int set_up(void **state)
{
	struct resource_policy *policy = resource_policy_new();

	policy_nodes_init(&nodes);
	policy_nodes_set(&nodes, "a", "pool=a\n");
	requeue_list_init(&requeues);
	policy_book_init(&book, &nodes, &requeues);
	policy->uid = strdup("p");
	policy->name = strdup("p");
	policy->namespace_ = strdup("team");
	policy->n_units = 1;
	policy->units[0] = (struct policy_unit){.kind = POLICY_UNIT_ECS};
	policy->keys[0] = strdup("hash");
	policy->n_keys = 1;
	return policy_book_set_policy(&book, policy);
}

static int tear_down(void **state)
{
	policy_book_release(&book);
	policy_nodes_release(&nodes);
	requeue_list_release(&requeues);
	return 0;
}

static void show(const char *uid, const char *labels)
{
	struct policy_pod_facts facts = {.uid = strdup(uid),
		.namespace_ = strdup("team"),
		.name = strdup(uid),
		.labels = strdup(labels),
		.node = strdup("a")};

	assert_non_null(policy_book_set_pod(&book, &facts, true));
}

static size_t count(void)
{
	return policy_entry_find(&book, "p")->groups.count;
}

static void a_group_ends_with_its_last_pod(void **state)
{
	show("1", "hash=x\n");
	show("2", "hash=x\n");
	show("3", "hash=y\n");
	assert_int_equal(count(), 2);
	policy_book_delete_pod(&book, "1");
	assert_int_equal(count(), 2);
	policy_book_delete_pod(&book, "2");
	assert_int_equal(count(), 1);
	policy_book_delete_pod(&book, "3");
	assert_int_equal(count(), 0);
}

static void a_pod_that_changes_its_group_leaves_none_behind(void **state)
{
	show("1", "hash=x\n");
	show("1", "hash=y\n");
	assert_int_equal(count(), 1);
	assert_null(table_get(&policy_entry_find(&book, "p")->groups, "x\n"));
	show("1", "other=z\n");
	assert_int_equal(count(), 0);
}

#define GROUPS(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		GROUPS(a_group_ends_with_its_last_pod),
		GROUPS(a_pod_that_changes_its_group_leaves_none_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
