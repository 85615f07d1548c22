/* ResourceSlices as the API server shows them, and what a request consumes of a device. */
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
#include "kube/device-slice.h"
#include "kube/json.h"

#define GIB (UINT64_C(1) << 30)
#define POOL "\"pool\":{\"name\":\"node-1\",\"generation\":3,\"resourceSliceCount\":1}"

static int parse(const char *text, struct device_slice *ret_slice, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;

	assert_int_equal(json_parse(text, strlen(text), &object, err), 0);
	return device_slice_from_json(object, ret_slice, err);
}

static int parse_devices(const char *devices, struct device_slice *ret_slice, struct error *err)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text,
			    "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"driver\":\"gpu.ration.dev\"," POOL
			    ",\"nodeName\":\"node-1\",\"devices\":%s}}",
			    devices) > 0);
	return parse(text, ret_slice, err);
}

static void a_slice_is_read_whole(void **state)
{
	_cleanup_device_slice_ struct device_slice slice;
	const struct slice_device *device;
	struct error err = {""};

	assert_int_equal(
		parse_devices(
			"[{\"name\":\"gpu-0\",\"allowMultipleAllocations\":true,\"attributes\":{\"uuid\":{\"string\":"
			"\"GPU-aa\"},\"gpu.ration.dev/productName\":{\"string\":\"Tesla V100\"},\"index\":{\"int\":4},"
			"\"driverVersion\":{\"version\":\"580.65.6\"},\"other.example.com/uuid\":{\"string\":\"x\"},"
			"\"ecc\":{\"bool\":true},\"list\":{\"ints\":[1]}},\"capacity\":{\"memory\":{\"value\":\"16160Mi\","
			"\"requestPolicy\":{\"default\":\"15Gi\",\"validRange\":{\"min\":\"1Gi\",\"max\":\"15Gi\",\"step\":"
			"\"1Gi\"}}},\"cores\":{\"value\":\"100\"}},\"taints\":[{\"key\":\"gpu.ration.dev/unhealthy\","
			"\"value\":\"xid\",\"effect\":\"NoSchedule\"},{\"key\":\"b\",\"effect\":\"NoExecute\"},{\"key\":"
			"\"c\",\"effect\":\"Other\"}]}]",
			&slice, &err),
		0);
	assert_string_equal(slice.pool, "node-1");
	assert_string_equal(slice.node, "node-1");
	assert_int_equal(slice.generation, 3);
	assert_int_equal(slice.pool_slices, 1);
	assert_int_equal(slice.n_devices, 1);
	device = &slice.devices[0];
	assert_true(device->shared);
	assert_string_equal(device_text(&slice, device, "uuid"), "GPU-aa");
	assert_string_equal(device_text(&slice, device, "productName"), "Tesla V100");
	assert_string_equal(device_text(&slice, device, "driverVersion"), "580.65.6");
	assert_string_equal(device_text(&slice, device, "missing"), "");
	assert_int_equal(device_attribute_find(&slice, device, "gpu.ration.dev", "index")->number, 4);
	assert_int_equal(device_attribute_find(&slice, device, "gpu.ration.dev", "ecc")->number, 1);
	assert_string_equal(device_attribute_find(&slice, device, "other.example.com", "uuid")->text, "x");
	assert_null(device_attribute_find(&slice, device, "other.example.com", "index"));
	assert_null(device_attribute_find(&slice, device, "gpu.ration.dev", "list"));
	assert_true(device->memory.present && device->memory.value == UINT64_C(16160) << 20);
	assert_true(device->memory.has_default && device->memory.by_default == 15 * GIB);
	assert_true(
		device->memory.min == GIB && device->memory.max == 15 * GIB && device->memory.step == GIB);
	assert_true(device->cores.present && device->cores.value == 100 && !device->cores.has_default);
	assert_int_equal(device->n_taints, 3);
	assert_string_equal(device->taints[0].value, "xid");
	assert_int_equal(device->taints[0].effect, TAINT_NO_SCHEDULE);
	assert_int_equal(device->taints[1].effect, TAINT_NO_EXECUTE);
	assert_int_equal(device->taints[2].effect, TAINT_NONE);
}

static void a_slice_that_cannot_be_understood_is_refused(void **state)
{
	static const struct {
		const char *devices, *why;
	} cases[] = {
		{"{}", "ResourceSlice s: devices is not a list"},
		{"[{}]", "devices[0]: name is missing"},
		{"[{\"name\":\"a.b\"}]", "devices[0]: name is \"a.b\", which is not a name"},
		{"[{\"name\":\"a\",\"attributes\":[]}]", "attributes is not an object of at most 32"},
		{"[{\"name\":\"a\",\"attributes\":{\"x\":{\"string\":7}}}]", "attribute x is not a text"},
		{"[{\"name\":\"a\",\"capacity\":{\"memory\":{}}}]",
			"capacity memory: value is not a quantity"},
		{"[{\"name\":\"a\",\"capacity\":{\"memory\":{\"value\":\"-1\"}}}]",
			"value is -1: must not be"},
		{"[{\"name\":\"a\",\"capacity\":{\"cores\":{\"value\":\"1\",\"requestPolicy\":{\"validRange\":"
		 "{\"step\":\"x\"}}}}}]",
			"capacity cores: step is not a quantity"},
		{"[{\"name\":\"a\",\"taints\":[{}]}]", "a taint has no valid key"},
		{"[{\"name\":\"a\",\"allowMultipleAllocations\":1}]", "neither true nor false"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_device_slice_ struct device_slice slice;
		struct error err = {""};

		assert_int_equal(parse_devices(cases[i].devices, &slice, &err), -EINVAL);
		if (!strstr(err.text, cases[i].why))
			fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].why);
	}
}

static void a_slice_without_a_pool_is_refused(void **state)
{
	_cleanup_device_slice_ struct device_slice a, b;
	struct error err = {""};

	assert_int_equal(
		parse("{\"metadata\":{\"name\":\"s\"},\"spec\":{\"driver\":\"d\"}}", &a, &err), -EINVAL);
	assert_int_equal(
		parse("{\"metadata\":{\"name\":\"s\"},\"spec\":{\"driver\":\"d\",\"pool\":{\"name\":\"p\","
		      "\"generation\":1,\"resourceSliceCount\":0}}}",
			&b, &err),
		-EINVAL);
	assert_string_equal(err.text, "ResourceSlice s: generation and resourceSliceCount must be numbers");
}

/* ---- what a request consumes ---- */

static uint64_t consumed(const struct device_capacity *capacity, uint64_t requested)
{
	uint64_t value = 77;

	assert_int_equal(capacity_consumed(capacity, &requested, &value), 0);
	return value;
}

static void a_request_is_rounded_up_to_the_next_step(void **state)
{
	struct device_capacity capacity = {.value = 100, .min = 5, .max = 95, .step = 10};
	uint64_t value = 77;

	assert_int_equal(consumed(&capacity, 0), 5);
	assert_int_equal(consumed(&capacity, 5), 5);
	assert_int_equal(consumed(&capacity, 6), 15);
	assert_int_equal(consumed(&capacity, 95), 95);
	assert_int_equal(capacity_consumed(&capacity, &(uint64_t){96}, &value), -ERANGE);
	assert_int_equal(capacity_consumed(&capacity, &(uint64_t){UINT64_MAX}, &value), -ERANGE);
	capacity.max = 0;
	assert_int_equal(
		consumed(&capacity, 96), 105); /* more than there is; the comparison is the caller's */
	capacity = (struct device_capacity){.value = 100};
	assert_int_equal(consumed(&capacity, 7), 7);
}

static void a_request_that_names_no_amount_consumes_the_default(void **state)
{
	struct device_capacity capacity = {.value = 100, .has_default = true, .by_default = 0};
	uint64_t value = 77;

	assert_int_equal(capacity_consumed(&capacity, NULL, &value), 0);
	assert_int_equal(value, 0);
	capacity.has_default = false;
	assert_int_equal(capacity_consumed(&capacity, NULL, &value), 0);
	assert_int_equal(value, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slice_is_read_whole),
		cmocka_unit_test(a_slice_that_cannot_be_understood_is_refused),
		cmocka_unit_test(a_slice_without_a_pool_is_refused),
		cmocka_unit_test(a_request_is_rounded_up_to_the_next_step),
		cmocka_unit_test(a_request_that_names_no_amount_consumes_the_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
