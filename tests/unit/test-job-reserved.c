/* A pod belongs to the job that it was reserved for, whatever its label says afterwards. */
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
#include "model-fixture.h"

static struct ledger ledger;

static int set_up(void **state)
{
	_cleanup_node_facts_ struct node_facts node;

	ledger_init(&ledger);
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){8});
	return ledger_set_node(&ledger, &node);
}

static int tear_down(void **state)
{
	size_t wrong = ledger_check(&ledger, NULL);

	ledger_release(&ledger);
	return wrong ? -1 : 0;
}

static void pod_of(struct pod_facts *ret_pod, const char *job)
{
	fixture_pod(ret_pod, "p", 3, "");
	ret_pod->request.group = strdup(job);
	ret_pod->request.group_pods = 2;
}

static void show(const char *job)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	pod_of(&pod, job);
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
}

static const char *job(void)
{
	return ledger_pod(&ledger, "p")->facts.request.group;
}

static void reserve(const char *of)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	_cleanup_placement_ struct placement placement;

	pod_of(&pod, of);
	fixture_place(&placement, &pod.request, "GPU-n-0");
	assert_int_equal(ledger_reserve(&ledger, &pod, "n", &placement), 0);
}

static void a_waiting_pod_may_change_its_job(void **state)
{
	show("one");
	assert_string_equal(job(), "one");
	show("two");
	assert_string_equal(job(), "two");
}

static void a_pod_whose_binding_is_on_its_way_keeps_its_job(void **state)
{
	show("one");
	reserve("one");
	show("two");
	assert_string_equal(job(), "one");
	/* The Binding was refused: the pod waits again. */
	ledger_release_reservation(&ledger, "p");
	show("two");
	assert_string_equal(job(), "two");
}

static void a_bound_pod_keeps_its_job(void **state)
{
	show("one");
	reserve("one");
	ledger_confirm(&ledger, "p");
	show("two");
	assert_string_equal(job(), "one");
}

#define JOB(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOB(a_waiting_pod_may_change_its_job),
		JOB(a_pod_whose_binding_is_on_its_way_keeps_its_job),
		JOB(a_bound_pod_keeps_its_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
