/* A pod on a GPU that is not healthy gets no more of it, and may give some back. */
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
#include "base/error.h"
#include "core/registry/resize.h"
#include "model-fixture.h"

static struct ledger ledger;

/* Pod "p" has 4 of the 15 units of the only GPU, which is not healthy. */
static int set_up(void **state)
{
	_cleanup_node_facts_ struct node_facts node;
	_cleanup_pod_facts_ struct pod_facts pod;

	ledger_init(&ledger);
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	node.mode = GPU_MODE_CGPU;
	node.gpus[0].healthy = false;
	snprintf(node.details[0].reason, sizeof(node.details[0].reason), "XID 79");
	fixture_pod(&pod, "p", 4, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	return ledger_set_node(&ledger, &node) < 0 || ledger_set_pod(&ledger, &pod) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	size_t wrong = ledger_check(&ledger, NULL);

	ledger_release(&ledger);
	return wrong ? -1 : 0;
}

static int resize(uint32_t units, struct error *err)
{
	const struct ledger_pod *pod = ledger_pod(&ledger, "p");
	_cleanup_placement_ struct placement target = {0};

	assert_int_equal(placement_copy(&pod->placement, &target), 0);
	assert_int_equal(placement_resize(&target, &pod->facts.request, "main", units, NULL), 0);
	target.resizes++;
	return ledger_resize(&ledger, "p", &target, err);
}

static uint32_t used(void)
{
	return ledger_node(&ledger, "n")->gpus[0].units_used;
}

static void more_of_it_is_refused_with_the_reason(void **state)
{
	struct error err = {""};

	assert_int_equal(resize(5, &err), -ENOSPC);
	assert_string_equal(err.text, "GPU 0 is unhealthy: XID 79");
	assert_int_equal(used(), 4);
}

static void less_of_it_is_taken(void **state)
{
	struct error err = {""};

	assert_int_equal(resize(3, &err), 0);
	ledger_resize_confirm(&ledger, "p");
	assert_int_equal(used(), 3);
}

#define HEALTH(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		HEALTH(more_of_it_is_refused_with_the_reason),
		HEALTH(less_of_it_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
