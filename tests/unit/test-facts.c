/* What is copied of a pod's facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "core/registry/ledger.h"
#include "model-fixture.h"

/* Members that own memory. They differ between a pod's facts and a copy of them. */
static void clear_owned(struct pod_facts *facts)
{
	facts->uid = facts->namespace_ = facts->name = facts->owner = facts->node = NULL;
	facts->nominated_node = facts->labels = facts->models = facts->gang = facts->resize = NULL;
	facts->request = (struct request){0};
	facts->placement = (struct placement){0};
}

static void a_copy_has_every_member_of_the_original(void **state)
{
	struct pod_facts from, copy, plain;

	(void)state;
	/* Every byte is set: what the copy lacks is 0 there, also of members that this test does not know. */
	memset(&from, 1, sizeof(from));
	clear_owned(&from);
	from.has_placement = false;
	assert_int_equal(pod_facts_copy(&from, &copy), 0);
	plain = copy;
	clear_owned(&plain);
	assert_memory_equal(&plain, &from, sizeof(from));
	pod_facts_release(&copy);
}

static void a_copy_owns_its_strings_request_and_placement(void **state)
{
	char nominated[] = "n2", labels[] = "a=b\n", models[] = "T4", gang[] = "g", resize[] = "{\"main\":3}";
	_cleanup_pod_facts_ struct pod_facts copy = {0};
	struct pod_facts from;

	(void)state;
	fixture_pod(&from, "u1", 3, "job");
	fixture_bind(&from, "n", "GPU-n-0");
	from.nominated_node = nominated;
	from.labels = labels;
	from.models = models;
	from.gang = gang;
	from.resize = resize;
	assert_int_equal(pod_facts_copy(&from, &copy), 0);
	assert_string_equal(copy.uid, "u1");
	assert_string_equal(copy.owner, "job");
	assert_string_equal(copy.node, "n");
	assert_string_equal(copy.nominated_node, "n2");
	assert_string_equal(copy.labels, "a=b\n");
	assert_string_equal(copy.models, "T4");
	assert_string_equal(copy.gang, "g");
	assert_string_equal(copy.resize, "{\"main\":3}");
	assert_ptr_not_equal(copy.uid, from.uid);
	assert_ptr_not_equal(copy.resize, from.resize);
	assert_true(copy.has_placement);
	from.nominated_node = from.labels = from.models = from.gang = from.resize = NULL;
	pod_facts_release(&from);
	assert_int_equal(copy.request.units, 3);
	assert_string_equal(copy.placement.containers[0].gpus[0].uuid, "GPU-n-0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_has_every_member_of_the_original),
		cmocka_unit_test(a_copy_owns_its_strings_request_and_placement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
