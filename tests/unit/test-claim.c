/* ResourceClaims as the API server shows them. */
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
#include "base/strbuf.h"
#include "kube/claim.h"
#include "kube/json.h"

#define GIB (UINT64_C(1) << 30)

#define METADATA "\"metadata\":{\"uid\":\"11-aa\",\"name\":\"slice\",\"namespace\":\"team\"}"
#define RESULT(rest)                                                                                         \
	"{\"request\":\"gpu\",\"driver\":\"gpu.ration.dev\",\"pool\":\"node-1\",\"device\":\"gpu-0\"," rest  \
	"}"
#define CONSUMED(capacity) "\"consumedCapacity\":{" capacity "}"
#define OURS(parameters)                                                                                     \
	"\"opaque\":{\"driver\":\"gpu.ration.dev\",\"parameters\":{\"apiVersion\":\"ration.dev/v1\","        \
	"\"kind\":\"GpuConfig\"" parameters "}}"

static int parse(const char *text, struct claim *ret_claim, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;

	assert_int_equal(json_parse(text, strlen(text), &object, err), 0);
	return claim_from_json(object, ret_claim, err);
}

static int parse_status(const char *status, struct claim *ret_claim, struct error *err)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "{" METADATA ",\"status\":%s}", status) > 0);
	return parse(text, ret_claim, err);
}

static int parse_devices(const char *results, const char *configs, struct claim *ret_claim, struct error *err)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "{\"allocation\":{\"devices\":{\"results\":[%s],\"config\":[%s]}}}",
			    results, configs) > 0);
	return parse_status(text, ret_claim, err);
}

static void assert_refused(int r, const struct claim *claim, const struct error *err, const char *why)
{
	assert_int_equal(r, -EINVAL);
	if (!strstr(err->text, why))
		fail_msg("\"%s\" does not say \"%s\"", err->text, why);
	assert_string_equal(claim->uid, "11-aa");
	assert_string_equal(claim->name, "slice");
	assert_false(claim->allocated);
	assert_int_equal(claim->n_results + claim->n_pods + claim->n_configs, 0);
	assert_null(claim->results);
}

static void assert_result_refused(const char *results, const char *why)
{
	_cleanup_claim_ struct claim claim;
	struct error err = {""};
	int r = parse_devices(results, "", &claim, &err);

	assert_refused(r, &claim, &err, why);
}

static void assert_config_refused(const char *config, const char *why)
{
	_cleanup_claim_ struct claim claim;
	struct error err = {""};
	int r = parse_devices("", config, &claim, &err);

	assert_refused(r, &claim, &err, why);
}

static void assert_consumed_refused(const char *capacity, const char *why)
{
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, RESULT("\"consumedCapacity\":%s"), capacity) > 0);
	assert_result_refused(text, why);
}

/* ---- claims that are read ---- */

static void a_full_claim_is_read_whole(void **state)
{
	_cleanup_claim_ struct claim claim;
	struct error err = {""};

	assert_int_equal(
		parse("{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\","
		      "\"metadata\":{\"name\":\"c\",\"namespace\":\"n\",\"uid\":\"5f0c\",\"deletionTimestamp\":"
		      "\"2026-11-28T00:00:00Z\"},\"spec\":{\"devices\":{\"requests\":[]}},"
		      "\"status\":{\"allocation\":{\"devices\":{\"results\":["
		      "{\"request\":\"gpu/small\",\"driver\":\"gpu.ration.dev\",\"pool\":\"node-1\",\"device\":"
		      "\"gpu-0\",\"shareID\":\"aa-1\",\"consumedCapacity\":{\"memory\":\"3Gi\",\"cores\":\"30\"}},"
		      "{\"request\":\"nic\",\"driver\":\"nic.example.com\",\"pool\":\"a/b\",\"device\":\"eth1\"}]},"
		      "\"nodeSelector\":{}},\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"web-0\",\"uid\":"
		      "\"p1\"},{\"apiGroup\":\"batch\",\"resource\":\"jobs\",\"name\":\"j\",\"uid\":\"j1\"},"
		      "{\"resource\":\"pods\",\"name\":\"web-1\",\"uid\":\"p2\"}]}}",
			&claim, &err),
		0);
	assert_string_equal(claim.uid, "5f0c");
	assert_string_equal(claim.namespace_, "n");
	assert_string_equal(claim.name, "c");
	assert_true(claim.deleting && claim.allocated);
	assert_int_equal(claim.n_results, 2);
	assert_string_equal(claim.results[0].request, "gpu/small");
	assert_string_equal(claim.results[0].pool, "node-1");
	assert_string_equal(claim.results[0].device, "gpu-0");
	assert_string_equal(claim.results[0].share_id, "aa-1");
	assert_true(claim.results[0].ours && !claim.results[0].admin_access);
	assert_true(claim.results[0].memory == 3 * GIB);
	assert_int_equal(claim.results[0].cores, 30);
	assert_false(claim.results[1].ours);
	assert_string_equal(claim.results[1].driver, "nic.example.com");
	assert_string_equal(claim.results[1].pool, "a/b");
	assert_int_equal(claim.n_pods, 2);
	assert_string_equal(claim.pods[1].name, "web-1");
	assert_true(claim_is_reserved_for(&claim, "p1") && claim_is_reserved_for(&claim, "p2"));
	assert_false(claim_is_reserved_for(&claim, "j1"));
}

static void a_claim_without_an_allocation_is_no_error(void **state)
{
	_cleanup_claim_ struct claim claim, other;
	struct error err = {""};

	assert_int_equal(parse("{" METADATA "}", &claim, &err), 0);
	assert_false(claim.allocated || claim.deleting);
	assert_int_equal(parse("{" METADATA ",\"status\":{\"allocation\":null}}", &other, &err), 0);
	assert_false(other.allocated);
}

static void assert_memory(const char *quantity, uint64_t bytes)
{
	_cleanup_claim_ struct claim claim;
	_cleanup_free_ char *text = NULL;
	struct error err = {""};

	assert_true(asprintf(&text, RESULT(CONSUMED("\"memory\":%s")), quantity) > 0);
	assert_int_equal(parse_devices(text, "", &claim, &err), 0);
	assert_true(claim.results[0].memory == bytes);
	assert_int_equal(claim.results[0].cores, 0);
}

static void memory_is_any_quantity_of_whole_bytes(void **state)
{
	assert_memory("\"1\"", 1);
	assert_memory("1073741824", GIB);
	assert_memory("\"2147483648\"", 2 * GIB);
	assert_memory("\"0.5Gi\"", GIB / 2);
	assert_memory("\"1k\"", 1000);
	assert_memory("\"1Pi\"", UINT64_C(1) << 50);
}

static void capacities_may_have_the_domain_of_the_driver(void **state)
{
	_cleanup_claim_ struct claim claim;
	struct error err = {""};

	assert_int_equal(
		parse_devices(
			RESULT(CONSUMED("\"gpu.ration.dev/memory\":\"1Gi\",\"gpu.ration.dev/cores\":\"100\","
					"\"other.example.com/memory\":\"x\"")),
			"", &claim, &err),
		0);
	assert_true(claim.results[0].memory == GIB);
	assert_int_equal(claim.results[0].cores, 100);
}

static void admin_access_consumes_nothing(void **state)
{
	_cleanup_claim_ struct claim claim, zero;
	struct error err = {""};

	assert_int_equal(parse_devices(RESULT("\"adminAccess\":true"), "", &claim, &err), 0);
	assert_true(claim.results[0].admin_access);
	assert_true(claim.results[0].memory == 0);
	assert_int_equal(
		parse_devices(RESULT("\"adminAccess\":true," CONSUMED("\"memory\":\"0\"")), "", &zero, &err),
		0);
}

static void a_device_may_be_allocated_twice_with_different_share_ids(void **state)
{
	_cleanup_claim_ struct claim claim;
	struct error err = {""};

	assert_int_equal(parse_devices(RESULT("\"shareID\":\"a\"," CONSUMED("\"memory\":\"1\"")) "," RESULT(
					       "\"shareID\":\"b\"," CONSUMED("\"memory\":\"2\"")),
				 "", &claim, &err),
		0);
	assert_int_equal(claim.n_results, 2);
	assert_true(claim.results[1].memory == 2);
}

/* ---- claims that are refused ---- */

static void impossible_capacities_are_refused(void **state)
{
	assert_consumed_refused("{\"memory\":\"0\"}", "allocation result 0: consumedCapacity memory is 0");
	assert_consumed_refused("{\"memory\":\"-1Gi\"}", "memory is -1Gi: must not be negative");
	assert_consumed_refused("{\"memory\":\"1500m\"}", "memory is 1500m: must be a whole number");
	assert_consumed_refused(
		"{\"memory\":\"1125899906842625\"}", "1125899906842625: must be at most 1125899906842624");
	assert_consumed_refused("{\"memory\":\"1e60\"}", "memory is 1e60: must be at most");
	assert_consumed_refused("{\"memory\":\"3GiB\"}", "memory is not a quantity");
	assert_consumed_refused("{\"memory\":\"\"}", "memory is not a quantity");
	assert_consumed_refused("{\"memory\":true}", "memory is not a quantity");
	assert_consumed_refused("{\"memory\":{\"value\":\"1\"}}", "memory is not a quantity");
	assert_consumed_refused("{\"memory\":\"1\",\"cores\":\"101\"}", "cores is 101: must be at most 100");
	assert_consumed_refused("{\"memory\":\"1\",\"cores\":\"-5\"}", "cores is -5: must not be negative");
	assert_consumed_refused("{\"memory\":\"1\",\"cores\":\"0.5\"}", "cores is 0.5: must be a whole");
	assert_consumed_refused("{\"memory\":\"1\",\"gpu.ration.dev/memory\":\"1\"}",
		"both memory and gpu.ration.dev/memory");
	assert_consumed_refused("{\"cores\":\"5\"}", "the feature gate DRAConsumableCapacity");
	assert_consumed_refused("null", "the feature gate DRAConsumableCapacity");
	assert_consumed_refused("[]", "consumedCapacity is not an object");
}

static void incomplete_results_are_refused(void **state)
{
	assert_result_refused("{}", "allocation result 0: request is missing");
	assert_result_refused("7", "request is missing");
	assert_result_refused("{\"request\":\"gpu\"}", "driver is missing");
	assert_result_refused("{\"request\":\"gpu\",\"driver\":\"d\"}", "pool is missing");
	assert_result_refused("{\"request\":\"gpu\",\"driver\":\"d\",\"pool\":\"p\"}", "device is missing");
	assert_result_refused("{\"request\":7}", "request is missing");
	assert_result_refused(RESULT("\"shareID\":7"), "shareID is missing");
	assert_result_refused(RESULT("\"adminAccess\":\"true\""), "adminAccess is neither true nor false");
	assert_result_refused(
		"{\"request\":\"gpu\",\"driver\":\"d\",\"pool\":\"p\",\"device\":\"gpu-0\\u0000\"}",
		"device is missing");
}

/* They become parts of paths. */
static void names_with_other_characters_are_refused(void **state)
{
	assert_result_refused("{\"request\":\"..\"}", "request is \"..\", which is not a name");
	assert_result_refused("{\"request\":\"a//b\"}", "request is \"a//b\", which is not a name");
	assert_result_refused("{\"request\":\"a/\"}", "request is \"a/\", which is not a name");
	assert_result_refused(
		"{\"request\":\"a\",\"driver\":\"a/b\"}", "driver is \"a/b\", which is not a name");
	assert_result_refused(RESULT("\"shareID\":\"../x\""), "shareID is \"../x\", which is not a name");
	assert_result_refused(RESULT("\"shareID\":\"a.b\""), "shareID is \"a.b\", which is not a name");
	assert_result_refused("{\"request\":\"-a\"}", "request is \"-a\", which is not a name");
	assert_result_refused("{\"request\":\"a b\"}", "request is \"a b\", which is not a name");
}

static void the_same_share_twice_is_refused(void **state)
{
	assert_result_refused(RESULT("\"shareID\":\"a\"," CONSUMED("\"memory\":\"1\"")) "," RESULT(
				      "\"shareID\":\"a\"," CONSUMED("\"memory\":\"2\"")),
		"allocation result 1: device gpu-0 of pool node-1 is already in result 0 with shareID a");
	assert_result_refused(RESULT(CONSUMED("\"memory\":\"1\"")) "," RESULT(CONSUMED("\"memory\":\"1\"")),
		"already in result 0");
}

/* n entries of the text, in which '#' is the entry's number. */
static char *many(const char *entry, size_t n)
{
	struct strbuf out;

	strbuf_init(&out, 1 << 20);
	for (size_t i = 0; i < n; i++) {
		strbuf_adds(&out, i ? "," : "");
		for (const char *at = entry; *at; at++)
			if (*at == '#')
				strbuf_addf(&out, "%zu", i);
			else
				strbuf_add(&out, at, 1);
	}
	return strbuf_take(&out);
}

static void every_list_has_its_limit(void **state)
{
	static const char a_result[] = RESULT("\"shareID\":\"s#\"," CONSUMED("\"memory\":\"1\""));
	static const char a_config[] = "{\"source\":\"FromClaim\"," OURS(",\"weight\":1") "}";
	static const char a_pod[] = "{\"resource\":\"pods\",\"name\":\"p\",\"uid\":\"u#\"}";
	_cleanup_free_ char *results = many(a_result, CLAIM_RESULTS_MAX);
	_cleanup_free_ char *more_results = many(a_result, CLAIM_RESULTS_MAX + 1);
	_cleanup_free_ char *configs = many(a_config, CLAIM_CONFIGS_MAX);
	_cleanup_free_ char *more_configs = many(a_config, CLAIM_CONFIGS_MAX + 1);
	_cleanup_free_ char *pods = many(a_pod, CLAIM_PODS_MAX);
	_cleanup_free_ char *more_pods = many(a_pod, CLAIM_PODS_MAX + 1);
	_cleanup_free_ char *names = many("\"r#\"", CLAIM_CONFIG_REQUESTS_MAX + 1);
	_cleanup_free_ char *status = NULL, *more_status = NULL, *config = NULL;
	_cleanup_claim_ struct claim claim, of_pods, refused;
	struct error err = {""};
	int r;

	assert_int_equal(parse_devices(results, configs, &claim, &err), 0);
	assert_int_equal(claim.n_results, CLAIM_RESULTS_MAX);
	assert_int_equal(claim.n_configs, CLAIM_CONFIGS_MAX);
	assert_result_refused(more_results, "results has 33 entries, more than 32");
	assert_config_refused(more_configs, "config has 65 entries, more than 64");
	assert_true(asprintf(&status, "{\"reservedFor\":[%s]}", pods) > 0);
	assert_int_equal(parse_status(status, &of_pods, &err), 0);
	assert_int_equal(of_pods.n_pods, CLAIM_PODS_MAX);
	assert_true(asprintf(&more_status, "{\"reservedFor\":[%s]}", more_pods) > 0);
	r = parse_status(more_status, &refused, &err);
	assert_refused(r, &refused, &err, "reservedFor has 257 entries, more than 256");
	assert_true(
		asprintf(&config, "{\"source\":\"FromClaim\",\"requests\":[%s]," OURS("") "}", names) > 0);
	assert_config_refused(config, "requests has 33 entries, more than 32");
}

static void wrong_types_are_refused(void **state)
{
	static const struct {
		const char *status, *why;
	} cases[] = {
		{"{\"allocation\":[]}", "ResourceClaim team/slice: status.allocation is not an object"},
		{"{\"allocation\":{\"devices\":{\"results\":{}}}}", "results is not a list"},
		{"{\"allocation\":{\"devices\":{\"config\":1}}}", "config is not a list"},
		{"{\"reservedFor\":{}}", "reservedFor is not a list"},
		{"{\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"p\"}]}",
			"reservedFor[0]: uid is missing"},
		{"{\"reservedFor\":[{\"resource\":\"pods\",\"uid\":\"p\"}]}",
			"reservedFor[0]: name is missing"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_claim_ struct claim claim;
		struct error err = {""};
		int r = parse_status(cases[i].status, &claim, &err);

		assert_refused(r, &claim, &err, cases[i].why);
	}
}

static void a_claim_without_an_identity_is_refused(void **state)
{
	_cleanup_claim_ struct claim a, b, c, d;
	struct error err = {""};

	assert_int_equal(parse("{}", &a, &err), -EINVAL);
	assert_string_equal(err.text, "ResourceClaim : name is missing");
	assert_int_equal(parse("{\"metadata\":{\"name\":\"c\",\"uid\":\"u\"}}", &b, &err), -EINVAL);
	assert_string_equal(err.text, "ResourceClaim c: namespace is missing");
	assert_int_equal(parse("{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\"}}", &c, &err), -EINVAL);
	assert_string_equal(err.text, "ResourceClaim n/c: uid is missing");
	assert_int_equal(
		parse("{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\",\"uid\":\"../etc\"}}", &d, &err),
		-EINVAL);
	assert_string_equal(err.text, "ResourceClaim n/c: uid is \"../etc\", which is not a name");
}

/* ---- parameters ---- */

static struct gpu_config config_of(const char *configs, const char *request)
{
	_cleanup_claim_ struct claim claim;
	struct claim_result result = {.ours = true};
	struct error err = {""};

	if (parse_devices("", configs, &claim, &err) < 0)
		fail_msg("%s", err.text);
	snprintf(result.request, sizeof(result.request), "%s", request);
	return claim_config_of(&claim, &result);
}

static void parameters_are_numbers_or_the_same_as_text(void **state)
{
	struct gpu_config config = config_of(
		"{\"source\":\"FromClass\"," OURS(",\"policy\":4,\"weight\":10000,\"allowDisable\":true") "}",
		"gpu");

	assert_true(config.has_policy && config.policy == SHARE_SOFT);
	assert_int_equal(config.weight, SHARE_WEIGHT_MAX);
	assert_true(config.allow_disable);
	config = config_of("{\"source\":\"FromClaim\"," OURS(
				   ",\"policy\":\"0\",\"weight\":\"7\",\"allowDisable\":false") "}",
		"gpu");
	assert_true(config.has_policy && config.policy == SHARE_FAIR);
	assert_int_equal(config.weight, 7);
	assert_false(config.allow_disable);
	config = config_of("", "gpu");
	assert_false(config.has_policy || config.weight || config.allow_disable);
}

/* In whatever order they are listed. */
static void the_claim_counts_over_the_class(void **state)
{
	struct gpu_config config = config_of(
		"{\"source\":\"FromClaim\"," OURS(
			",\"weight\":3,\"allowDisable\":false") "},"
								"{\"source\":\"FromClass\"," OURS(
									",\"weight\":5,\"policy\":2,\"allowDisable\":true") "}",
		"gpu");

	assert_int_equal(config.weight, 3);
	assert_true(config.has_policy && config.policy == SHARE_WEIGHT);
	assert_false(config.allow_disable);
	config = config_of("{\"source\":\"FromClaim\"," OURS(
				   ",\"weight\":3") "},"
						    "{\"source\":\"FromClaim\"," OURS(",\"weight\":4") "}",
		"gpu");
	assert_int_equal(config.weight, 4);
}

static void parameters_are_about_the_requests_they_name(void **state)
{
	static const char configs[] = "{\"source\":\"FromClaim\",\"requests\":[\"a\",\"b/small\"]," OURS(
		",\"weight\":3") "}";

	assert_int_equal(config_of(configs, "a").weight, 3);
	assert_int_equal(config_of(configs, "a/large").weight, 3);
	assert_int_equal(config_of(configs, "ab").weight, 0);
	assert_int_equal(config_of(configs, "b/small").weight, 3);
	assert_int_equal(config_of(configs, "b/smaller").weight, 0);
	assert_int_equal(config_of(configs, "b").weight, 0);
}

static void parameters_of_other_drivers_are_not_read(void **state)
{
	assert_int_equal(
		config_of("{\"source\":\"FromClaim\",\"opaque\":{\"driver\":\"nic.example.com\","
			  "\"parameters\":{\"kind\":\"X\",\"weight\":9}}},{\"source\":\"FromClaim\"},7",
			"gpu")
			.weight,
		0);
}

static void unknown_and_impossible_parameters_are_refused(void **state)
{
	static const struct {
		const char *parameters, *why;
	} cases[] = {
		{",\"wieght\":2", "configuration 0: unknown field wieght; GpuConfig has policy, weight and"},
		{",\"metadata\":{}", "unknown field metadata"},
		{",\"policy\":6", "policy is 6: must be a number from 0 to 5"},
		{",\"policy\":-1", "policy is -1: must be"},
		{",\"policy\":\"fixed\"", "policy is fixed: must be"},
		{",\"policy\":2.5", "policy is not a number: must be"},
		{",\"policy\":null", "policy is not a number: must be"},
		{",\"weight\":0", "weight is 0: must be a whole number from 1 to 10000"},
		{",\"weight\":10001", "weight is 10001: must be"},
		{",\"weight\":[]", "weight is not a number: must be"},
		{",\"allowDisable\":\"true\"", "allowDisable is neither true nor false"},
		{",\"allowDisable\":true", "allowDisable: true counts only in a DeviceClass"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, "{\"source\":\"FromClaim\"," OURS("%s") "}",
				    cases[i].parameters) > 0);
		assert_config_refused(text, cases[i].why);
	}
}

#define PARAMETERS(text)                                                                                     \
	"{\"source\":\"FromClaim\",\"opaque\":{\"driver\":\"gpu.ration.dev\",\"parameters\":" text "}}"

static void parameters_of_another_kind_are_refused(void **state)
{
	_cleanup_free_ char *blanks = calloc(1, CLAIM_PARAMETERS_MAX + 1), *text = NULL;

	assert_config_refused(PARAMETERS("{\"apiVersion\":\"ration.dev/v2\",\"kind\":\"GpuConfig\"}"),
		"of kind GpuConfig in ration.dev/v2: must be GpuConfig in ration.dev/v1");
	assert_config_refused(
		PARAMETERS("{\"apiVersion\":\"ration.dev/v1\",\"kind\":\"Gpu\"}"), "of kind Gpu in");
	assert_config_refused(PARAMETERS("{}"), "of kind (none) in (none)");
	assert_config_refused(PARAMETERS("null"), "parameters are missing, or not an object");
	assert_config_refused(PARAMETERS("[]"), "parameters are missing, or not an object");
	assert_config_refused("{" OURS("") "}", "source is missing: must be FromClass or FromClaim");
	assert_config_refused("{\"source\":\"FromPod\"," OURS("") "}", "source is FromPod: must be");
	assert_config_refused(
		"{\"source\":\"FromClaim\",\"requests\":[7]," OURS("") "}", "requests[0] is not a name");
	memset(blanks, 'x', CLAIM_PARAMETERS_MAX);
	assert_true(asprintf(&text, PARAMETERS("{\"x\":\"%s\"}"), blanks) > 0);
	assert_config_refused(text, "parameters have more than 10240 bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_claim_is_read_whole),
		cmocka_unit_test(a_claim_without_an_allocation_is_no_error),
		cmocka_unit_test(memory_is_any_quantity_of_whole_bytes),
		cmocka_unit_test(capacities_may_have_the_domain_of_the_driver),
		cmocka_unit_test(admin_access_consumes_nothing),
		cmocka_unit_test(a_device_may_be_allocated_twice_with_different_share_ids),
		cmocka_unit_test(impossible_capacities_are_refused),
		cmocka_unit_test(incomplete_results_are_refused),
		cmocka_unit_test(names_with_other_characters_are_refused),
		cmocka_unit_test(the_same_share_twice_is_refused),
		cmocka_unit_test(every_list_has_its_limit),
		cmocka_unit_test(wrong_types_are_refused),
		cmocka_unit_test(a_claim_without_an_identity_is_refused),
		cmocka_unit_test(parameters_are_numbers_or_the_same_as_text),
		cmocka_unit_test(the_claim_counts_over_the_class),
		cmocka_unit_test(parameters_are_about_the_requests_they_name),
		cmocka_unit_test(parameters_of_other_drivers_are_not_read),
		cmocka_unit_test(unknown_and_impossible_parameters_are_refused),
		cmocka_unit_test(parameters_of_another_kind_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
