#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/preemption/budget.h"

static struct budget *budget_new(const char *uid, const char *namespace_)
{
	struct budget *budget = calloc(1, sizeof(*budget));

	budget->uid = strdup(uid);
	budget->namespace_ = strdup(namespace_);
	budget->name = strdup(uid);
	return budget;
}

#define LABELS "app=web\ntier=\napp.kubernetes.io/name=x\n"

static bool selects(const char *key, enum selector_operator operator, const char * value, const char *labels)
{
	struct budget *budget = budget_new("b", "default");
	bool result;

	assert_int_equal(selector_require(&budget->selector, key, operator, & value, value ? 1 : 0), 0);
	result = selector_selects(&budget->selector, labels);
	budget_free(budget);
	return result;
}

static void the_four_operators_are_those_of_label_selectors(void **state)
{
	assert_true(selects("app", SELECTOR_IN, "web", LABELS));
	assert_false(selects("app", SELECTOR_IN, "we", LABELS));
	assert_false(selects("app", SELECTOR_IN, "webs", LABELS));
	assert_false(selects("ap", SELECTOR_EXISTS, NULL, LABELS));
	assert_true(selects("tier", SELECTOR_IN, "", LABELS));
	assert_true(selects("app", SELECTOR_NOT_IN, "db", LABELS));
	assert_false(selects("app", SELECTOR_NOT_IN, "web", LABELS));
	assert_true(selects("other", SELECTOR_NOT_IN, "web", LABELS));
	assert_true(selects("tier", SELECTOR_EXISTS, NULL, LABELS));
	assert_true(selects("other", SELECTOR_DOES_NOT_EXIST, NULL, LABELS));
	assert_false(selects("tier", SELECTOR_DOES_NOT_EXIST, NULL, LABELS));
	assert_false(selects("app", SELECTOR_IN, "web", NULL));
	assert_true(selects("app", SELECTOR_DOES_NOT_EXIST, NULL, NULL));
}

static void no_requirement_selects_all_and_no_selector_nothing(void **state)
{
	struct budget *budget = budget_new("b", "default");

	assert_true(selector_selects(&budget->selector, LABELS));
	assert_true(selector_selects(&budget->selector, NULL));
	budget->selector.selects_nothing = true;
	assert_false(selector_selects(&budget->selector, LABELS));
	budget_free(budget);
}

static void a_budget_selects_in_its_own_namespace_until_it_is_replaced_or_removed(void **state)
{
	const struct budget *found[4];
	struct budgets budgets;
	struct budget *second;

	budgets_init(&budgets);
	assert_int_equal(budgets_set(&budgets, budget_new("a", "team")), 0);
	assert_int_equal(budgets_set(&budgets, budget_new("b", "team")), 0);
	assert_int_equal(budgets_matching(&budgets, "team", LABELS, found, 4), 2);
	assert_int_equal(budgets_matching(&budgets, "team", LABELS, found, 1), 1);
	assert_int_equal(budgets_matching(&budgets, "other", LABELS, found, 4), 0);
	second = budget_new("a", "other");
	second->allowed = 7;
	assert_int_equal(budgets_set(&budgets, second), 0);
	assert_int_equal(budgets_matching(&budgets, "other", LABELS, found, 4), 1);
	assert_int_equal(found[0]->allowed, 7);
	budgets_remove(&budgets, "b");
	budgets_remove(&budgets, "b");
	assert_int_equal(budgets_matching(&budgets, "team", LABELS, found, 4), 0);
	budgets_release(&budgets);
}

static void a_namespace_whose_budgets_are_gone_is_forgotten(void **state)
{
	struct budgets budgets;

	budgets_init(&budgets);
	assert_int_equal(budgets_set(&budgets, budget_new("a", "run-1")), 0);
	assert_int_equal(budgets_set(&budgets, budget_new("a", "run-1")), 0);
	assert_int_equal(budgets_set(&budgets, budget_new("b", "run-1")), 0);
	budgets_remove(&budgets, "a");
	assert_int_equal(budgets.by_namespace.count, 1);
	budgets_remove(&budgets, "b");
	assert_int_equal(budgets.by_namespace.count, 0);
	budgets_release(&budgets);
}

static void only_the_budgets_that_select_the_pod_match(void **state)
{
	struct budgets budgets;
	const struct budget *found[4];
	struct budget *other = budget_new("db", "team");
	const char *value = "db";

	budgets_init(&budgets);
	assert_int_equal(selector_require(&other->selector, "app", SELECTOR_IN, &value, 1), 0);
	assert_int_equal(budgets_set(&budgets, other), 0);
	assert_int_equal(budgets_set(&budgets, budget_new("all", "team")), 0);
	assert_int_equal(budgets_matching(&budgets, "team", LABELS, found, 4), 1);
	assert_string_equal(found[0]->uid, "all");
	budgets_release(&budgets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_budgets_that_select_the_pod_match),
		cmocka_unit_test(the_four_operators_are_those_of_label_selectors),
		cmocka_unit_test(no_requirement_selects_all_and_no_selector_nothing),
		cmocka_unit_test(a_budget_selects_in_its_own_namespace_until_it_is_replaced_or_removed),
		cmocka_unit_test(a_namespace_whose_budgets_are_gone_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
