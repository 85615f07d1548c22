/* What a ResourceClaim asks for. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/claim-request.h"
#include "kube/json.h"

#define GIB (UINT64_C(1) << 30)

static int parse(const char *requests, struct claim_requests *ret_requests, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "{\"devices\":{\"requests\":%s}}", requests) > 0);
	assert_int_equal(json_parse(text, strlen(text), &object, err), 0);
	return claim_requests_from_json(object, ret_requests, err);
}

static void a_request_is_read_whole(void **state)
{
	_cleanup_claim_requests_ struct claim_requests requests;
	const struct claim_request *request;
	struct error err = {""};

	assert_int_equal(
		parse("[{\"name\":\"gpu\",\"exactly\":{\"deviceClassName\":\"gpu.ration.dev\",\"count\":2,"
		      "\"adminAccess\":true,\"capacity\":{\"requests\":{\"memory\":\"3Gi\",\"cores\":\"30\"}},"
		      "\"selectors\":[{\"cel\":{\"expression\":\"true\"}}],\"tolerations\":[{\"key\":\"k\",\"value\":"
		      "\"v\",\"effect\":\"NoSchedule\"},{\"operator\":\"Exists\"}]}}]",
			&requests, &err),
		0);
	assert_int_equal(requests.n, 1);
	request = &requests.list[0];
	assert_string_equal(request->name, "gpu");
	assert_string_equal(request->class_, "gpu.ration.dev");
	assert_true(request->count == 2 && request->admin_access && !request->all);
	assert_true(request->has_memory && request->memory == 3 * GIB);
	assert_true(request->has_cores && request->cores == 30);
	assert_string_equal(request->other, "");
	assert_string_equal(request->selectors[0], "true");
	assert_int_equal(request->n_tolerations, 2);
	assert_true(request->tolerations[1].any_value && !*request->tolerations[1].key);
}

static void alternatives_have_the_name_of_their_request(void **state)
{
	_cleanup_claim_requests_ struct claim_requests requests;
	struct error err = {""};

	assert_int_equal(
		parse("[{\"name\":\"gpu\",\"firstAvailable\":[{\"name\":\"large\",\"deviceClassName\":\"a\","
		      "\"allocationMode\":\"All\"},{\"name\":\"small\",\"deviceClassName\":\"b\",\"capacity\":"
		      "{\"requests\":{\"memory\":\"1Gi\",\"gpu.ration.dev/memory\":\"2Gi\"}}}]},{\"name\":\"x\","
		      "\"exactly\":{\"deviceClassName\":\"c\"}}]",
			&requests, &err),
		0);
	assert_int_equal(requests.n, 3);
	assert_string_equal(requests.list[0].name, "gpu/large");
	assert_true(requests.list[0].all && requests.list[0].count == 1 && !requests.list[0].has_memory);
	assert_string_equal(requests.list[1].name, "gpu/small");
	/* kube-scheduler compares the names as they are written. */
	assert_true(requests.list[1].memory == GIB);
	assert_string_equal(requests.list[1].other, "gpu.ration.dev/memory");
	assert_string_equal(requests.list[2].name, "x");
}

static void requests_that_cannot_be_understood_are_refused(void **state)
{
	static const struct {
		const char *requests, *why;
	} cases[] = {
		{"{}", "requests is not a list"},
		{"[{}]", "requests[0]: name is missing"},
		{"[{\"name\":\"a\"}]", "requests[0]: neither exactly nor firstAvailable"},
		{"[{\"name\":\"a\",\"exactly\":{}}]", "deviceClassName is missing"},
		{"[{\"name\":\"a\",\"exactly\":{\"deviceClassName\":\"c\",\"count\":0}}]",
			"count is not a number"},
		{"[{\"name\":\"a\",\"exactly\":{\"deviceClassName\":\"c\",\"capacity\":{\"requests\":[]}}}]",
			"capacity.requests is not an object"},
		{"[{\"name\":\"a\",\"exactly\":{\"deviceClassName\":\"c\",\"capacity\":{\"requests\":{\"memory\":"
		 "\"-1\"}}}}]",
			"memory is -1: must not be negative"},
		{"[{\"name\":\"a\",\"exactly\":{\"deviceClassName\":\"c\",\"selectors\":[{}]}}]",
			"selectors[0] is not a CEL expression"},
		{"[{\"name\":\"a\",\"firstAvailable\":[{\"deviceClassName\":\"c\"}]}]", "name is missing"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_claim_requests_ struct claim_requests requests;
		struct error err = {""};

		assert_int_equal(parse(cases[i].requests, &requests, &err), -EINVAL);
		if (!strstr(err.text, cases[i].why))
			fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].why);
	}
}

/* The rules of ToleratesTaint() in k8s.io/dynamic-resource-allocation/resourceclaim. */
static void a_taint_is_tolerated_by_key_value_and_effect(void **state)
{
	struct device_toleration toleration = {.key = "k", .value = "v", .effect = TAINT_NO_SCHEDULE};
	struct claim_request request = {.tolerations = &toleration, .n_tolerations = 1};
	struct device_taint taint = {.key = "k", .value = "v", .effect = TAINT_NO_SCHEDULE};

	assert_true(claim_request_tolerates(&request, &taint));
	taint.effect = TAINT_NO_EXECUTE;
	assert_false(claim_request_tolerates(&request, &taint));
	toleration.effect = TAINT_NONE;
	assert_true(claim_request_tolerates(&request, &taint));
	strcpy(taint.value, "w");
	assert_false(claim_request_tolerates(&request, &taint));
	toleration.any_value = true;
	assert_true(claim_request_tolerates(&request, &taint));
	strcpy(taint.key, "l");
	assert_false(claim_request_tolerates(&request, &taint));
	toleration.key[0] = '\0';
	assert_true(claim_request_tolerates(&request, &taint));
	request.n_tolerations = 0;
	assert_false(claim_request_tolerates(&request, &taint));
	taint.effect = TAINT_NONE;
	assert_true(claim_request_tolerates(&request, &taint));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_read_whole),
		cmocka_unit_test(alternatives_have_the_name_of_their_request),
		cmocka_unit_test(requests_that_cannot_be_understood_are_refused),
		cmocka_unit_test(a_taint_is_tolerated_by_key_value_and_effect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
