/* Which ids there are, and which of them pods hold. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent-fixture.h"
#include "node/ids.h"
#include "node/inventory.h"
#include "node/pods.h"

static void an_id_names_a_gpu_that_a_node_may_have(void **state)
{
	assert_int_equal(NODE_GPUS_MAX, 64);
	assert_int_equal(ids_gpu("63-0"), 63);
	assert_int_equal(ids_gpu("64-0"), -EINVAL);
}

static void a_finished_pod_holds_no_ids(void **state)
{
	struct node_pods pods;

	node_pods_init(&pods);
	for (int finished = 0; finished < 2; finished++) {
		struct pod_facts pod;

		fixture_pod(&pod, finished ? "finished" : "runs", "p");
		fixture_add(&pod, "c", CONTAINER_MAIN, finished ? 5 : 3, UUID_0);
		pod.finished = finished;
		assert_non_null(node_pods_put(&pods, &pod));
	}
	assert_int_equal(ids_held(IDS_OF_UNITS, &pods, UUID_0), 3);
	assert_int_equal(ids_held(IDS_OF_UNITS, &pods, UUID_1), 0);
	node_pods_release(&pods);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_names_a_gpu_that_a_node_may_have),
		cmocka_unit_test(a_finished_pod_holds_no_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
