#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/names.h"
#include "model/request.h"
#include "model/units.h"

static void add(struct request *request, const char *name, enum container_kind kind, const char *gpu_mem)
{
	assert_int_equal(request_add(request, name, kind, 0, gpu_mem, NULL, NULL), 0);
}

static void assert_effective(const struct request *request, uint32_t units, uint32_t instances)
{
	assert_int_equal(request->units, units);
	assert_int_equal(request->instances, instances);
}

static void request_without_gpu_is_empty(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	add(&request, "a", CONTAINER_MAIN, NULL);
	add(&request, "b", CONTAINER_MAIN, "0");
	add(&request, "c", CONTAINER_MAIN, "0Ki");
	assert_int_equal(request_add(&request, "d", CONTAINER_MAIN, 0, "0", "0", NULL), 0);
	assert_true(request_is_empty(&request));
	assert_effective(&request, 0, 0);
}

static void request_of_main_containers_is_their_sum(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	add(&request, "a", CONTAINER_MAIN, "2");
	add(&request, "b", CONTAINER_MAIN, NULL);
	add(&request, "c", CONTAINER_MAIN, "3");
	assert_effective(&request, 5, 2);
	assert_int_equal(request.n_containers, 2);
	assert_int_equal(request_find(&request, "c")->units, 3);
	assert_null(request_find(&request, "b"));
}

static void request_of_init_containers_is_their_largest(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	add(&request, "i1", CONTAINER_INIT, "2");
	add(&request, "i2", CONTAINER_INIT, "7");
	add(&request, "i3", CONTAINER_INIT, "4");
	assert_effective(&request, 7, 1);
	add(&request, "a", CONTAINER_MAIN, "3");
	add(&request, "b", CONTAINER_MAIN, "3");
	assert_effective(&request, 7, 2);
	add(&request, "c", CONTAINER_MAIN, "2");
	assert_effective(&request, 8, 3);
}

static void request_of_sidecars_stays_beside_what_starts_later(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	/* i1 alone 6; side 1; i2 with side 1 + 4 = 5; main with side 1 + 3 = 4. */
	add(&request, "i1", CONTAINER_INIT, "6");
	add(&request, "side", CONTAINER_SIDECAR, "1");
	add(&request, "i2", CONTAINER_INIT, "4");
	add(&request, "a", CONTAINER_MAIN, "3");
	assert_effective(&request, 6, 2);
	/* Now the last step is the largest: 1 + 3 + 5. */
	add(&request, "b", CONTAINER_MAIN, "5");
	assert_effective(&request, 9, 3);
}

static void request_init_step_counts_the_sidecars_started_before_it(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	add(&request, "s1", CONTAINER_SIDECAR, "2");
	add(&request, "s2", CONTAINER_SIDECAR, "3");
	add(&request, "i", CONTAINER_INIT, "4");
	add(&request, "s3", CONTAINER_SIDECAR, "1");
	add(&request, "a", CONTAINER_MAIN, "1");
	/* init step 2 + 3 + 4 = 9; at the end 2 + 3 + 1 + 1 = 7 units in four containers. */
	assert_effective(&request, 9, 4);
}

static void request_core_follows_the_same_rule(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	assert_int_equal(request_add(&request, "i", CONTAINER_INIT, 0, "1", "60", NULL), 0);
	assert_int_equal(request_add(&request, "a", CONTAINER_MAIN, 0, "1", "30", NULL), 0);
	assert_int_equal(request_add(&request, "b", CONTAINER_MAIN, 1, "1", "25", NULL), 0);
	assert_int_equal(request.core, 60);
	assert_int_equal(request_add(&request, "c", CONTAINER_MAIN, 2, "1", "10", NULL), 0);
	assert_int_equal(request.core, 65);
}

static void request_sums_cannot_overflow(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	add(&request, "a", CONTAINER_MAIN, "9223372036854775807");
	assert_effective(&request, UNITS_MAX, 1);
	add(&request, "b", CONTAINER_MAIN, "1e40");
	add(&request, "c", CONTAINER_MAIN, "1073741823");
	assert_effective(&request, UNITS_MAX, 3);
}

static void assert_refused(const char *gpu_mem, const char *gpu_core, const char *text)
{
	_cleanup_(request_release) struct request request = {0};
	struct error err;

	add(&request, "first", CONTAINER_MAIN, "2");
	assert_int_equal(request_add(&request, "a", CONTAINER_MAIN, 1, gpu_mem, gpu_core, &err), -EINVAL);
	assert_string_equal(err.text, text);
	assert_effective(&request, 2, 1);
	assert_int_equal(request.n_containers, 1);
}

static void request_names_container_resource_value_and_rule(void **state)
{
	assert_refused("-1", NULL, "container \"a\": " RESOURCE_GPU_MEM " is -1: must not be negative");
	assert_refused(
		"1500m", NULL, "container \"a\": " RESOURCE_GPU_MEM " is 1500m: must be a whole number");
	assert_refused("three", NULL, "container \"a\": " RESOURCE_GPU_MEM " is three: must be a number");
	assert_refused("3", "33",
		"container \"a\": " RESOURCE_GPU_CORE " is 33: must be a multiple of 5 between 5 and 100");
	assert_refused("3", "105",
		"container \"a\": " RESOURCE_GPU_CORE " is 105: must be a multiple of 5 between 5 and 100");
	assert_refused(NULL, "30",
		"container \"a\": " RESOURCE_GPU_CORE " is 30: needs " RESOURCE_GPU_MEM " beside it");
	assert_refused("0", "30",
		"container \"a\": " RESOURCE_GPU_CORE " is 30: needs " RESOURCE_GPU_MEM " beside it");
}

static void request_rounds_up_the_percentages_of_who_is_bound(void **state)
{
	static const struct {
		const char *mem, *core;
		uint32_t units, percent;
	} cases[] = {{"3", "30", 3, 30}, {"3", "1", 3, 5}, {"3", "96", 3, 100}, {"3", "101", 3, 105},
		{NULL, "7", 0, 10}, {"0", "5", 0, 5}, {"3", "0", 3, 0}, {"1", "1073741823", 1, UNITS_MAX},
		{"1", "1073741816", 1, 1073741820}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(request_release) struct request request = {0};

		assert_int_equal(request_add_bound(
					 &request, "a", CONTAINER_MAIN, 0, cases[i].mem, cases[i].core, NULL),
			0);
		assert_int_equal(request.units, cases[i].units);
		assert_int_equal(request.asked, cases[i].units);
		assert_int_equal(request.core, cases[i].percent);
		assert_int_equal(request.n_containers, 1);
	}
}

static void request_adds_nobody_who_is_bound_and_asks_for_nothing(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	assert_int_equal(request_add_bound(&request, "a", CONTAINER_MAIN, 0, NULL, "0", NULL), 0);
	assert_int_equal(request_add_bound(&request, "b", CONTAINER_MAIN, 1, "0", NULL, NULL), 0);
	assert_int_equal(request_add_bound(&request, "c", CONTAINER_MAIN, 2, "-1", "5", NULL), -EINVAL);
	assert_true(request_is_empty(&request));
}

static void request_cuts_long_values_in_its_message(void **state)
{
	char value[5000], text[200];

	memset(value, '7', sizeof(value) - 1);
	memcpy(value, "-", 1);
	value[sizeof(value) - 1] = '\0';
	snprintf(text, sizeof(text), "container \"a\": %s is %.40s...: must not be negative",
		RESOURCE_GPU_MEM, value);
	assert_refused(value, NULL, text);
}

static void request_refuses_a_container_named_twice(void **state)
{
	_cleanup_(request_release) struct request request = {0};

	add(&request, "a", CONTAINER_MAIN, "2");
	assert_int_equal(request_add(&request, "a", CONTAINER_MAIN, 1, "3", NULL, NULL), -EINVAL);
	assert_effective(&request, 2, 1);
}

static void request_refuses_more_containers_than_its_limit(void **state)
{
	_cleanup_(request_release) struct request request = {0};
	char name[16];

	for (int i = 0; i < REQUEST_CONTAINERS_MAX; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		add(&request, name, CONTAINER_MAIN, "1");
	}
	assert_int_equal(request_add(&request, "last", CONTAINER_MAIN, 256, "1", NULL, NULL), -E2BIG);
	assert_effective(&request, REQUEST_CONTAINERS_MAX, REQUEST_CONTAINERS_MAX);
}

static void request_copy_is_independent(void **state)
{
	_cleanup_(request_release) struct request request = {0}, copy = {0};

	add(&request, "i", CONTAINER_INIT, "4");
	add(&request, "a", CONTAINER_MAIN, "3");
	request.group = strdup("team/job");
	request.group_pods = 3;
	request.gpus = 2;
	request.whole = true;
	request.unit_mib = 256;
	assert_int_equal(request_copy(&request, &copy), 0);
	request_release(&request);
	assert_effective(&copy, 4, 1);
	assert_int_equal(request_find(&copy, "i")->kind, CONTAINER_INIT);
	assert_string_equal(copy.group, "team/job");
	assert_int_equal(copy.group_pods, 3);
	assert_int_equal(copy.gpus, 2);
	assert_int_equal(copy.unit_mib, 256);
	assert_true(copy.whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_without_gpu_is_empty),
		cmocka_unit_test(request_of_main_containers_is_their_sum),
		cmocka_unit_test(request_of_init_containers_is_their_largest),
		cmocka_unit_test(request_of_sidecars_stays_beside_what_starts_later),
		cmocka_unit_test(request_init_step_counts_the_sidecars_started_before_it),
		cmocka_unit_test(request_core_follows_the_same_rule),
		cmocka_unit_test(request_sums_cannot_overflow),
		cmocka_unit_test(request_names_container_resource_value_and_rule),
		cmocka_unit_test(request_rounds_up_the_percentages_of_who_is_bound),
		cmocka_unit_test(request_adds_nobody_who_is_bound_and_asks_for_nothing),
		cmocka_unit_test(request_cuts_long_values_in_its_message),
		cmocka_unit_test(request_refuses_a_container_named_twice),
		cmocka_unit_test(request_refuses_more_containers_than_its_limit),
		cmocka_unit_test(request_copy_is_independent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
