#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <stdio.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/registry/ledger.h"
#include "kube/json.h"
#include "kube/pod.h"

#define ONE "{\"unit\":1024,\"containers\":{\"main\":[{\"uuid\":\"GPU-1\",\"units\":3}]}}"

static void placement_text_is_as_documented(void **state)
{
	_cleanup_placement_ struct placement placement;
	_cleanup_free_ char *text = NULL;

	placement_init(&placement);
	placement.unit_mib = 1024;
	assert_int_equal(placement_add(&placement, "main", "GPU-1", 3, 30), 0);
	assert_int_equal(placement_add(&placement, "side", "GPU-1", 1, 0), 0);
	text = placement_to_json(&placement);
	assert_string_equal(text,
		"{\"unit\":1024,\"containers\":{\"main\":[{\"uuid\":\"GPU-1\",\"units\":3,\"core\":30}],"
		"\"side\":[{\"uuid\":\"GPU-1\",\"units\":1}]}}");
}

static void placement_survives_text_and_back(void **state)
{
	_cleanup_placement_ struct placement before, after;
	_cleanup_free_ char *text = NULL;

	placement_init(&before);
	placement_init(&after);
	before.unit_mib = 128;
	assert_int_equal(placement_add(&before, "a", "GPU-1", 7, 5), 0);
	assert_int_equal(placement_add(&before, "a", "GPU-2", 7, 5), 0);
	assert_int_equal(placement_add(&before, "b", "GPU-1", 1, 0), 0);
	text = placement_to_json(&before);
	assert_int_equal(placement_from_json(text, &after, NULL), 0);
	assert_true(placement_equal(&before, &after));
}

/* As the API server shows a pod with one container that asks for 3 units. */
static struct pod_facts shown(const char *node, const char *placement, struct error *err)
{
	struct json_object *pod = json_tokener_parse(
		"{\"metadata\":{\"uid\":\"u\",\"name\":\"p\",\"namespace\":\"d\"},\"spec\":{\"containers\":[{"
		"\"name\":\"main\",\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}}}]}}");
	struct json_object *annotations = json_object_new_object();
	struct pod_facts facts;

	json_object_object_add(annotations, "ration.dev/placement", json_object_new_string(placement));
	json_object_object_add(json_member(pod, "metadata"), "annotations", annotations);
	if (node)
		json_object_object_add(json_member(pod, "spec"), "nodeName", json_object_new_string(node));
	assert_int_equal(pod_facts_from_json(pod, &facts, err), 0);
	json_object_put(pod);
	return facts;
}

#define RESIZED(units)                                                                                       \
	"{\"unit\":1024,\"resizes\":2,\"containers\":{\"main\":[{\"uuid\":\"GPU-1\",\"units\":" units "}]}}"

static void a_resized_pod_has_what_its_placement_says_and_asked_for_what_its_spec_says(void **state)
{
	struct error err = {""};
	_cleanup_pod_facts_ struct pod_facts facts = shown("n", RESIZED("5"), &err);
	_cleanup_free_ char *text = placement_to_json(&facts.placement);

	assert_true(facts.has_placement);
	assert_int_equal(facts.request.units, 5);
	assert_int_equal(facts.request.containers[0].units, 5);
	assert_int_equal(facts.request.containers[0].asked, 3);
	assert_string_equal(text, RESIZED("5"));
}

static void another_size_is_believed_of_a_bound_pod_that_was_resized_only(void **state)
{
	static const char *const forged[] = {
		"{\"unit\":1024,\"containers\":{\"main\":[{\"uuid\":\"GPU-1\",\"units\":5}]}}",
		"{\"unit\":1024,\"resizes\":0,\"containers\":{\"main\":[{\"uuid\":\"GPU-1\",\"units\":5}]}}",
		"{\"unit\":1024,\"resizes\":1,\"containers\":{\"side\":[{\"uuid\":\"GPU-1\",\"units\":5}]}}",
		"{\"unit\":1024,\"resizes\":1,\"containers\":{}}",
		"{\"unit\":1024,\"resizes\":1,\"containers\":{\"main\":[{\"uuid\":\"GPU-1\",\"units\":5,"
		"\"core\":20}]}}",
		RESIZED("1073741823"),
	};
	struct error err = {""};

	for (size_t i = 0; i < ARRAY_SIZE(forged); i++) {
		_cleanup_pod_facts_ struct pod_facts facts = shown("n", forged[i], &err);

		assert_false(facts.has_placement);
		assert_true(err.text[0] != '\0');
		assert_int_equal(facts.request.units, 3);
	}
	_cleanup_pod_facts_ struct pod_facts unbound = shown(NULL, RESIZED("5"), &err);

	assert_false(unbound.has_placement);
	assert_int_equal(unbound.request.units, 3);
}

static void unknown_keys_of_a_placement_are_ignored(void **state)
{
	_cleanup_placement_ struct placement placement;

	placement_init(&placement);
	assert_int_equal(
		placement_from_json("{\"v\":2,\"unit\":1024.0,\"containers\":{\"main\":[{\"uuid\":\"GPU-1\","
				    "\"units\":3,\"x\":[]}]}}",
			&placement, NULL),
		0);
	assert_int_equal(placement.containers[0].gpus[0].units, 3);
}

static void assert_refused(const char *text)
{
	_cleanup_placement_ struct placement placement;
	struct error err = {0};

	placement_init(&placement);
	if (placement_from_json(text, &placement, &err) != -EINVAL)
		fail_msg("accepted: %.200s", text);
	assert_true(err.text[0] != '\0');
	assert_int_equal(placement.n_containers, 0);
}

static void malformed_placements_are_refused_with_a_sentence(void **state)
{
	static const char *const texts[] = {"", " ", "x", "{", "[]", "3", "\"\"", "null", "{}",
		"{\"unit\":1024}", "{\"unit\":0,\"containers\":{}}", "{\"unit\":-1,\"containers\":{}}",
		"{\"unit\":1.5,\"containers\":{}}", "{\"unit\":4294967296,\"containers\":{}}",
		"{\"unit\":\"1024\",\"containers\":{}}", "{\"unit\":1024,\"containers\":[]}", ONE "x",
		ONE ONE};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_refused(texts[i]);
}

static void malformed_shares_are_refused_with_a_sentence(void **state)
{
	static const char *const shares[] = {"null", "{}", "[]", "[null]", "[3]", "[[]]", "[{}]",
		"[{\"uuid\":\"G\"}]", "[{\"units\":3}]", "[{\"uuid\":\"\",\"units\":3}]",
		"[{\"uuid\":\"../../etc\",\"units\":3}]", "[{\"uuid\":\"G\\nX=1\",\"units\":3}]",
		"[{\"uuid\":\"G,H\",\"units\":3}]", "[{\"uuid\":\".\",\"units\":3}]",
		"[{\"uuid\":\"G\\u0000\",\"units\":3}]", "[{\"uuid\":\"G\",\"units\":0}]",
		"[{\"uuid\":\"G\",\"units\":-3}]", "[{\"uuid\":\"G\",\"units\":2.5}]",
		"[{\"uuid\":\"G\",\"units\":\"3\"}]", "[{\"uuid\":\"G\",\"units\":1073741824}]",
		"[{\"uuid\":\"G\",\"units\":99999999999999999999}]",
		"[{\"uuid\":\"G\",\"units\":3,\"core\":101}]", "[{\"uuid\":\"G\",\"units\":3,\"core\":-5}]",
		"[{\"uuid\":\"G\",\"units\":3,\"core\":\"5\"}]",
		"[{\"uuid\":\"G\",\"units\":3},{\"uuid\":\"G\",\"units\":3}]"};
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		snprintf(text, sizeof(text), "{\"unit\":1024,\"containers\":{\"main\":%s}}", shares[i]);
		assert_refused(text);
	}
}

static void a_uuid_of_64_bytes_is_too_long_and_63_are_not(void **state)
{
	_cleanup_placement_ struct placement placement;
	char uuid[65], text[256];

	placement_init(&placement);
	memset(uuid, 'a', 64);
	uuid[64] = '\0';
	snprintf(text, sizeof(text), "{\"unit\":1,\"containers\":{\"m\":[{\"uuid\":\"%s\",\"units\":1}]}}",
		uuid);
	assert_refused(text);
	uuid[63] = '\0';
	snprintf(text, sizeof(text), "{\"unit\":1,\"containers\":{\"m\":[{\"uuid\":\"%s\",\"units\":1}]}}",
		uuid);
	assert_int_equal(placement_from_json(text, &placement, NULL), 0);
}

/* before, then left N right for N = 0 .. n - 1 with commas between, then after */
static char *many(const char *before, const char *left, const char *right, int n, const char *after)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	fputs(before, f);
	for (int i = 0; i < n; i++)
		fprintf(f, "%s%s%d%s", i ? "," : "", left, i, right);
	fputs(after, f);
	fclose(f);
	return text;
}

static void counts_of_a_placement_are_limited(void **state)
{
	_cleanup_free_ char *gpus = many(
		"{\"unit\":1,\"containers\":{\"m\":[", "{\"uuid\":\"G", "\",\"units\":1}", 65, "]}}");
	_cleanup_free_ char *containers = many(
		"{\"unit\":1,\"containers\":{", "\"c", "\":[{\"uuid\":\"G\",\"units\":1}]", 257, "}}");
	_cleanup_free_ char *large = many("{\"unit\":1,\"containers\":{},\"x\":[", "", "", 20000, "]}");

	assert_refused(gpus);
	assert_refused(containers);
	assert_refused(large);
}

/* ---- the annotations of the Binding ---- */

static void two_gpus(struct node_ledger *node)
{
	static struct gpu_ledger gpus[] = {{.facts = {.uuid = "GPU-0", .index = 0}, .units_total = 15},
		{.facts = {.uuid = "GPU-1", .index = 1}, .units_total = 79}};

	*node = (struct node_ledger){.facts.n_gpus = 2, .gpus = gpus};
}

static void place(struct placement *placement, const struct request *request, const char *uuid)
{
	placement_init(placement);
	placement->unit_mib = 1024;
	for (size_t i = 0; i < request->n_containers; i++)
		assert_int_equal(placement_add(placement, request->containers[i].name, uuid,
					 request->containers[i].units, request->containers[i].core),
			0);
}

static const char *value(struct json_object *annotations, const char *key)
{
	return json_member_string(annotations, key);
}

static void a_binding_carries_the_annotations_of_the_contract(void **state)
{
	_cleanup_json_ struct json_object *annotations = NULL;
	_cleanup_placement_ struct placement placement;
	_cleanup_request_ struct request request;
	struct node_ledger node;

	two_gpus(&node);
	request_init(&request);
	assert_int_equal(request_add(&request, "main", CONTAINER_MAIN, 0, "3", NULL, NULL), 0);
	place(&placement, &request, "GPU-1");
	annotations = placement_annotations(&placement, &request, &node, INT64_C(1700000000123456789));
	assert_non_null(annotations);
	assert_string_equal(
		value(annotations, "scheduler.framework.gpushare.allocation"), "{\"0\":{\"1\":3}}");
	assert_null(value(annotations, "gpushare.alibabacloud.com/core-percentage"));
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_IDX"), "1");
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_POD"), "3");
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_DEV"), "79");
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_ASSIGNED"), "false");
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_ASSUME_TIME"), "1700000000123456789");
	assert_string_equal(value(annotations, "ration.dev/unit"), "1024");
	assert_string_equal(value(annotations, "ration.dev/placement"), ONE);
	assert_int_equal(json_object_object_length(annotations), 8);
}

static void older_keys_are_by_the_index_in_spec_containers(void **state)
{
	_cleanup_json_ struct json_object *annotations = NULL;
	_cleanup_placement_ struct placement placement;
	_cleanup_request_ struct request request;
	struct node_ledger node;

	two_gpus(&node);
	request_init(&request);
	assert_int_equal(request_add(&request, "b", CONTAINER_MAIN, 1, "2", "10", NULL), 0);
	assert_int_equal(request_add(&request, "d", CONTAINER_MAIN, 3, "4", NULL, NULL), 0);
	place(&placement, &request, "GPU-0");
	annotations = placement_annotations(&placement, &request, &node, 1);
	assert_string_equal(value(annotations, "scheduler.framework.gpushare.allocation"),
		"{\"1\":{\"0\":2},\"3\":{\"0\":4}}");
	assert_string_equal(
		value(annotations, "gpushare.alibabacloud.com/core-percentage"), "{\"1\":{\"0\":10}}");
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_POD"), "6");
}

static void what_init_containers_need_more_is_added_to_index_0(void **state)
{
	_cleanup_json_ struct json_object *annotations = NULL;
	_cleanup_placement_ struct placement placement;
	_cleanup_request_ struct request request;
	struct node_ledger node;

	two_gpus(&node);
	request_init(&request);
	assert_int_equal(request_add(&request, "warm", CONTAINER_INIT, 0, "7", "50", NULL), 0);
	assert_int_equal(request_add(&request, "main", CONTAINER_MAIN, 0, "3", "20", NULL), 0);
	place(&placement, &request, "GPU-0");
	annotations = placement_annotations(&placement, &request, &node, 1);
	/* The pod occupies max(7, 3) units and max(50, 20) percent. */
	assert_string_equal(
		value(annotations, "scheduler.framework.gpushare.allocation"), "{\"0\":{\"0\":7}}");
	assert_string_equal(
		value(annotations, "gpushare.alibabacloud.com/core-percentage"), "{\"0\":{\"0\":50}}");
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_POD"), "7");
}

static void a_sidecar_is_added_to_index_0_beside_the_others(void **state)
{
	_cleanup_json_ struct json_object *annotations = NULL;
	_cleanup_placement_ struct placement placement;
	_cleanup_request_ struct request request;
	struct node_ledger node;

	two_gpus(&node);
	request_init(&request);
	assert_int_equal(request_add(&request, "side", CONTAINER_SIDECAR, 0, "2", NULL, NULL), 0);
	assert_int_equal(request_add(&request, "main", CONTAINER_MAIN, 1, "3", NULL, NULL), 0);
	place(&placement, &request, "GPU-0");
	annotations = placement_annotations(&placement, &request, &node, 1);
	/* sidecar 2 + main 3 = 5, of which 2 belong to no main container */
	assert_string_equal(value(annotations, "scheduler.framework.gpushare.allocation"),
		"{\"1\":{\"0\":3},\"0\":{\"0\":2}}");
}

static void a_gpu_that_is_not_on_the_node_has_no_annotations(void **state)
{
	_cleanup_placement_ struct placement placement, empty;
	_cleanup_request_ struct request request;
	struct node_ledger node;

	two_gpus(&node);
	request_init(&request);
	placement_init(&empty);
	assert_int_equal(request_add(&request, "main", CONTAINER_MAIN, 0, "3", NULL, NULL), 0);
	place(&placement, &request, "GPU-9");
	assert_null(placement_annotations(&placement, &request, &node, 1));
	assert_null(placement_annotations(&empty, &request, &node, 1));
}

static void several_gpus_are_in_every_annotation(void **state)
{
	_cleanup_json_ struct json_object *annotations = NULL;
	_cleanup_placement_ struct placement placement = {.unit_mib = 1024};
	_cleanup_request_ struct request request;
	struct node_ledger node;

	two_gpus(&node);
	request_init(&request);
	assert_int_equal(request_add(&request, "warm", CONTAINER_INIT, 0, "14", NULL, NULL), 0);
	assert_int_equal(request_add(&request, "a", CONTAINER_MAIN, 0, "2", NULL, NULL), 0);
	assert_int_equal(request_add(&request, "b", CONTAINER_MAIN, 1, "8", NULL, NULL), 0);
	assert_int_equal(request_set_gpus(&request, 2, NULL), 0);
	for (size_t i = 0; i < request.n_containers; i++)
		for (int k = 0; k < 2; k++)
			assert_int_equal(placement_add(&placement, request.containers[i].name,
						 k ? "GPU-1" : "GPU-0", request.containers[i].units / 2, 0),
				0);
	annotations = placement_annotations(&placement, &request, &node, 1);
	assert_non_null(annotations);
	/* The pod holds max(14, 2 + 8) = 14; 4 of them belong to no main container: 2 on each GPU. */
	assert_string_equal(value(annotations, "scheduler.framework.gpushare.allocation"),
		"{\"0\":{\"0\":3,\"1\":3},\"1\":{\"0\":4,\"1\":4}}");
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_IDX"), "0,1");
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_POD"), "14");
	/* 15 and 79 units: 3/79 is within the pod's share of either GPU, 3/15 of the larger one is not. */
	assert_string_equal(value(annotations, "ALIYUN_COM_GPU_MEM_DEV"), "79");
	assert_null(value(annotations, "gpushare.alibabacloud.com/core-percentage"));
}

/* The longest placement that a request may have must be one that we read again. */
static void the_largest_request_has_a_placement_that_can_be_read(void **state)
{
	_cleanup_placement_ struct placement placement = {.unit_mib = 1024}, back = {0};
	_cleanup_request_ struct request request;
	_cleanup_free_ char *text = NULL;
	char name[64], uuid[GPU_UUID_SIZE];

	request_init(&request);
	for (int i = 0; i < REQUEST_SHARES_MAX / 2; i++) {
		snprintf(name, sizeof(name), "%063d", i);
		assert_int_equal(request_add(&request, name, CONTAINER_MAIN, i, "2048", NULL, NULL), 0);
	}
	assert_int_equal(request_set_gpus(&request, 2, NULL), 0);
	for (size_t i = 0; i < request.n_containers; i++)
		for (int k = 0; k < 2; k++) {
			snprintf(uuid, sizeof(uuid), "GPU-%036d", k);
			assert_int_equal(
				placement_add(&placement, request.containers[i].name, uuid, 1024, 0), 0);
		}
	text = placement_to_json(&placement);
	assert_int_equal(placement_from_json(text, &back, NULL), 0);
	assert_true(placement_matches(&back, &request));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(placement_text_is_as_documented),
		cmocka_unit_test(placement_survives_text_and_back),
		cmocka_unit_test(a_resized_pod_has_what_its_placement_says_and_asked_for_what_its_spec_says),
		cmocka_unit_test(another_size_is_believed_of_a_bound_pod_that_was_resized_only),
		cmocka_unit_test(unknown_keys_of_a_placement_are_ignored),
		cmocka_unit_test(malformed_placements_are_refused_with_a_sentence),
		cmocka_unit_test(malformed_shares_are_refused_with_a_sentence),
		cmocka_unit_test(a_uuid_of_64_bytes_is_too_long_and_63_are_not),
		cmocka_unit_test(counts_of_a_placement_are_limited),
		cmocka_unit_test(a_binding_carries_the_annotations_of_the_contract),
		cmocka_unit_test(older_keys_are_by_the_index_in_spec_containers),
		cmocka_unit_test(what_init_containers_need_more_is_added_to_index_0),
		cmocka_unit_test(a_sidecar_is_added_to_index_0_beside_the_others),
		cmocka_unit_test(a_gpu_that_is_not_on_the_node_has_no_annotations),
		cmocka_unit_test(several_gpus_are_in_every_annotation),
		cmocka_unit_test(the_largest_request_has_a_placement_that_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
