/* Which victims matter least, by the criteria that come after budgets and the highest priority. */
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
#include "core/preemption/budget.h"
#include "core/preemption/preemption.h"
#include "model-fixture.h"

static struct ledger ledger;
static struct budgets budgets;
static struct table given;
static struct preemption_plan plan;

/* Node "n" with two GPUs of 12 units. */
static int set_up(void **state)
{
	_cleanup_node_facts_ struct node_facts node;

	ledger_init(&ledger);
	budgets_init(&budgets);
	table_init(&given);
	plan = (struct preemption_plan){0};
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){12, 12});
	return ledger_set_node(&ledger, &node);
}

static int tear_down(void **state)
{
	size_t wrong = ledger_check(&ledger, NULL);

	preemption_plan_release(&plan);
	ledger_release(&ledger);
	budgets_release(&budgets);
	table_release(&given);
	return wrong ? -1 : 0;
}

static void pod_on(const char *uid, uint32_t units, int32_t priority, const char *gpu)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	fixture_pod(&pod, uid, units, "");
	fixture_bind(&pod, "n", gpu);
	pod.priority = priority;
	pod.started = 1000;
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
}

/* The GPU from which others go for a pod of 12 units. */
static const char *cleared_gpu(void)
{
	_cleanup_pod_facts_ struct pod_facts asker;
	struct preemption_question question = {.pod = &asker, .budgets = &budgets, .given = &given};

	fixture_pod(&asker, "asker", 12, "");
	asker.priority = 1000;
	assert_int_equal(preemption_plan_node(&ledger, "n", &question, &plan), 0);
	return plan.placement.containers[0].gpus[0].uuid;
}

/* kube-scheduler adds up priorities counted from the lowest possible one, -2^31: 0 is as much as twice -2^30.
 */
static void of_equal_sums_the_fewer_victims_go(void **state)
{
	pod_on("a", 4, 100, "GPU-n-0");
	pod_on("b", 4, -(1 << 30), "GPU-n-0");
	pod_on("c", 4, -(1 << 30), "GPU-n-0");
	pod_on("d", 6, 100, "GPU-n-1");
	pod_on("e", 6, 0, "GPU-n-1");
	assert_string_equal(cleared_gpu(), "GPU-n-1");
	assert_int_equal(plan.n_victims, 2);
}

static void of_equal_highest_priorities_the_smaller_sum_goes(void **state)
{
	pod_on("a", 6, 100, "GPU-n-0");
	pod_on("b", 6, 1, "GPU-n-0");
	pod_on("c", 6, 100, "GPU-n-1");
	pod_on("d", 6, 0, "GPU-n-1");
	assert_string_equal(cleared_gpu(), "GPU-n-1");
}

#define ORDER(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ORDER(of_equal_sums_the_fewer_victims_go),
		ORDER(of_equal_highest_priorities_the_smaller_sum_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
