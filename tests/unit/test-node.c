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
#include "kube/json.h"
#include "kube/node.h"

#define GPU(index, uuid)                                                                                     \
	"{\"index\":" index ",\"uuid\":\"" uuid "\",\"model\":\"Tesla "                                      \
	"V100\",\"mib\":16160,\"healthy\":true}"
/* Quotes within an annotation. */
#define Q "\\\""
#define GPU_QUOTED                                                                                           \
	"{" Q "index" Q ":0," Q "uuid" Q ":" Q "GPU-0" Q "," Q "mib" Q ":16160," Q "healthy" Q ":true}"
#define NODE(annotations) "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u1\",\"annotations\":{" annotations "}}}"

static int read_node(const char *text, struct node_facts *ret_facts, struct error *ret_err)
{
	_cleanup_json_ struct json_object *node = NULL;

	assert_int_equal(json_parse(text, strlen(text), &node, ret_err), 0);
	return node_facts_from_json(node, ret_facts, ret_err);
}

static void a_node_without_our_annotations_has_no_gpus_and_no_mode(void **state)
{
	_cleanup_node_facts_ struct node_facts facts = {0};
	struct error err;

	assert_int_equal(read_node("{\"metadata\":{\"name\":\"n1\",\"uid\":\"u1\",\"labels\":{"
				   "\"ack.node.gpu.schedule\":\"share\",\"gpushare\":\"true\"}}}",
				 &facts, &err),
		0);
	assert_string_equal(err.text, "");
	assert_string_equal(facts.name, "n1");
	assert_string_equal(facts.uid, "u1");
	assert_null(facts.address);
	assert_int_equal(facts.n_gpus, 0);
	assert_int_equal(facts.mode, GPU_MODE_NONE);
	assert_int_equal(facts.unit_mib, 1024);
	assert_int_equal(facts.policy, GPU_POLICY_BINPACK);
}

static void a_nodes_mode_unit_and_gpus_are_read_from_its_annotations(void **state)
{
	_cleanup_node_facts_ struct node_facts facts = {0};
	struct error err;

	assert_int_equal(
		read_node(
			NODE("\"ration.dev/mode\":\"share\",\"ration.dev/unit\":\"128\",\"ration.dev/gpus\":\"[" GPU_QUOTED
			     "]\""),
			&facts, &err),
		0);
	assert_string_equal(err.text, "");
	assert_int_equal(facts.mode, GPU_MODE_SHARE);
	assert_int_equal(facts.unit_mib, 128);
	assert_int_equal(facts.n_gpus, 1);
	assert_string_equal(facts.gpus[0].uuid, "GPU-0");
	assert_int_equal(facts.gpus[0].mib, 16160);
	assert_true(facts.gpus[0].healthy);
	assert_string_equal(facts.details[0].model, "");
}

static void the_address_is_the_first_internal_one(void **state)
{
	_cleanup_node_facts_ struct node_facts facts = {0};
	struct error err;

	assert_int_equal(
		read_node("{\"metadata\":{\"name\":\"n1\",\"uid\":\"u1\"},\"status\":{\"addresses\":["
			  "{\"type\":\"Hostname\",\"address\":\"h\"},{\"type\":\"InternalIP\",\"address\":"
			  "\"192.168.6.104\"},{\"type\":\"InternalIP\",\"address\":\"fd00::1\"}]}}",
			&facts, &err),
		0);
	assert_string_equal(facts.address, "192.168.6.104");
}

static void spread_is_asked_for_by_label_and_anything_else_is_binpack(void **state)
{
	static const struct {
		const char *value;
		enum gpu_policy policy;
	} labels[] = {{"spread", GPU_POLICY_SPREAD}, {"binpack", GPU_POLICY_BINPACK},
		{"Spread", GPU_POLICY_BINPACK}, {"", GPU_POLICY_BINPACK}};

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		_cleanup_node_facts_ struct node_facts facts = {0};
		struct error err;
		char text[256];

		snprintf(text, sizeof(text),
			"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"labels\":{"
			"\"ack.node.gpu.placement\":\"%s\"}}}",
			labels[i].value);
		assert_int_equal(read_node(text, &facts, &err), 0);
		assert_int_equal(facts.policy, labels[i].policy);
	}
}

static void a_node_without_name_or_uid_is_refused(void **state)
{
	static const char *const texts[] = {"{}", "[]", "{\"metadata\":[]}",
		"{\"metadata\":{\"name\":\"n\"}}", "{\"metadata\":{\"uid\":\"u\"}}",
		"{\"metadata\":{\"name\":\"\",\"uid\":\"u\"}}", "{\"metadata\":{\"name\":3,\"uid\":\"u\"}}"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct node_facts facts = {0};
		struct error err;

		assert_int_equal(read_node(texts[i], &facts, &err), -EINVAL);
		assert_true(err.text[0] != '\0');
		assert_null(facts.name);
	}
}

/* Either of the two: mode and unit change in the same way. */
static void a_node_that_waits_to_change_its_mode_or_unit_says_so(void **state)
{
	static const struct {
		const char *text;
		bool changing;
	} nodes[] = {{NODE("\"ration.dev/mode\":\"cgpu\""), false},
		{NODE("\"ration.dev/mode\":\"cgpu\",\"ration.dev/mode-pending\":\"share\""), true},
		{NODE("\"ration.dev/mode\":\"cgpu\",\"ration.dev/unit-pending\":\"128\""), true}};

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		_cleanup_node_facts_ struct node_facts facts = {0};
		struct error err;

		assert_int_equal(read_node(nodes[i].text, &facts, &err), 0);
		assert_int_equal(facts.changing, nodes[i].changing);
		assert_int_equal(facts.mode, GPU_MODE_CGPU);
	}
}

static void malformed_annotations_leave_no_gpus_and_a_sentence_that_names_the_node(void **state)
{
	static const char *const annotations[] = {"\"ration.dev/gpus\":\"\"", "\"ration.dev/gpus\":\"{}\"",
		"\"ration.dev/gpus\":\"[{}]\"", "\"ration.dev/gpus\":[]", "\"ration.dev/gpus\":\"[]\\u0000\"",
		"\"ration.dev/gpus\":\"[" GPU_QUOTED "," GPU_QUOTED "]\"",
		"\"ration.dev/mode\":\"sharing\",\"ration.dev/gpus\":\"[" GPU_QUOTED "]\"",
		"\"ration.dev/mode\":7,\"ration.dev/gpus\":\"[" GPU_QUOTED "]\"",
		"\"ration.dev/unit\":\"0\",\"ration.dev/gpus\":\"[" GPU_QUOTED "]\"",
		"\"ration.dev/unit\":\"1GiB\",\"ration.dev/gpus\":\"[" GPU_QUOTED "]\"",
		"\"ration.dev/unit\":\"99999999\",\"ration.dev/gpus\":\"[" GPU_QUOTED "]\""};

	for (size_t i = 0; i < ARRAY_SIZE(annotations); i++) {
		_cleanup_node_facts_ struct node_facts facts = {0};
		struct error err;
		char text[1024];

		snprintf(text, sizeof(text), NODE("%s"), annotations[i]);
		assert_int_equal(read_node(text, &facts, &err), 0);
		assert_int_equal(facts.n_gpus, 0);
		assert_non_null(strstr(err.text, "node n1: annotation ration.dev/"));
		assert_true(facts.unit_mib > 0);
	}
}

/* The text with the value in place of its "%s". */
static void fill(char *ret_text, size_t size, const char *place, const char *value)
{
	const char *gap = strstr(place, "%s");

	assert_non_null(gap);
	snprintf(ret_text, size, "%.*s%s%s", (int)(gap - place), place, value, gap + 2);
}

static void wrong_types_at_any_level_are_survived(void **state)
{
	static const char *const places[] = {"{\"metadata\":%s}",
		"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"labels\":%s}}",
		"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"annotations\":%s}}",
		"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\"},\"status\":%s}",
		"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\"},\"status\":{\"addresses\":%s}}",
		"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\"},\"status\":{\"addresses\":[%s]}}",
		"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\"},\"status\":{\"addresses\":[{\"type\":"
		"\"InternalIP\",\"address\":%s}]}}"};
	static const char *const values[] = {
		"null", "true", "0", "-1", "1.5", "\"\"", "\"x\"", "[]", "[null]", "{}", "{\"\":null}"};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		for (size_t j = 0; j < ARRAY_SIZE(values); j++) {
			_cleanup_node_facts_ struct node_facts facts = {0};
			struct error err;
			char text[512];
			int r;

			fill(text, sizeof(text), places[i], values[j]);
			r = read_node(text, &facts, &err);
			assert_int_equal(r, i == 0 ? -EINVAL : 0);
		}
}

/* ---- the inventory alone ---- */

static void inventory_text_is_as_documented(void **state)
{
	struct gpu_facts gpus[2] = {{.uuid = "GPU-a", .index = 0, .mib = 16160, .healthy = true},
		{.uuid = "GPU-b", .index = 1, .mib = 81559, .healthy = false}};
	struct gpu_details details[2] = {
		{.model = "Tesla V100-SXM2-16GB"}, {.model = "A \"B\"/C", .reason = "Xid \"79\""}};
	_cleanup_free_ char *text = inventory_to_json(gpus, details, 2);

	assert_string_equal(text,
		"[{\"uuid\":\"GPU-a\",\"index\":0,\"mib\":16160,\"healthy\":true,"
		"\"model\":\"Tesla V100-SXM2-16GB\"},{\"uuid\":\"GPU-b\",\"index\":1,\"mib\":81559,"
		"\"healthy\":false,\"model\":\"A \\\"B\\\"/C\",\"reason\":\"Xid \\\"79\\\"\"}]");
}

static void a_reason_is_kept_of_unhealthy_gpus_only_and_costs_no_gpu(void **state)
{
	struct gpu_facts gpus[NODE_GPUS_MAX];
	struct gpu_details details[NODE_GPUS_MAX];
	char text[1200], longer[600];
	size_t n = 0;

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	snprintf(text, sizeof(text),
		"[{\"index\":0,\"uuid\":\"a\",\"mib\":1,\"healthy\":true,\"reason\":\"no\"},"
		"{\"index\":1,\"uuid\":\"b\",\"mib\":1,\"healthy\":false,\"reason\":7},"
		"{\"index\":2,\"uuid\":\"c\",\"mib\":1,\"healthy\":false,\"reason\":\"a\\u001b[2Jb\"},"
		"{\"index\":3,\"uuid\":\"d\",\"mib\":1,\"healthy\":false,\"reason\":\"%s\"}]",
		longer);
	assert_int_equal(inventory_from_json(text, gpus, details, &n, NULL), 0);
	assert_int_equal(n, 4);
	assert_string_equal(details[0].reason, "");
	assert_string_equal(details[1].reason, "");
	assert_string_equal(details[2].reason, "a [2Jb");
	assert_int_equal(strlen(details[3].reason), GPU_REASON_SIZE - 1);
}

static void inventory_survives_text_and_back_sorted_by_index(void **state)
{
	struct gpu_facts gpus[NODE_GPUS_MAX];
	struct gpu_details details[NODE_GPUS_MAX];
	size_t n = 0;

	assert_int_equal(
		inventory_from_json("[" GPU("7", "GPU-a") "," GPU("2", "GPU-b") "]", gpus, details, &n, NULL),
		0);
	assert_int_equal(n, 2);
	assert_int_equal(gpus[0].index, 2);
	assert_string_equal(gpus[0].uuid, "GPU-b");
	assert_int_equal(gpus[1].index, 7);
	assert_string_equal(details[1].model, "Tesla V100");
}

static void an_empty_inventory_is_one_of_no_gpus(void **state)
{
	struct gpu_facts gpus[NODE_GPUS_MAX] = {0};
	struct gpu_details details[NODE_GPUS_MAX] = {0};
	_cleanup_free_ char *text = inventory_to_json(gpus, details, 0);
	size_t n = 9;

	assert_string_equal(text, "[]");
	assert_int_equal(inventory_from_json("[]", gpus, details, &n, NULL), 0);
	assert_int_equal(n, 0);
}

static void assert_inventory_refused(const char *text, const char *because)
{
	struct gpu_facts gpus[NODE_GPUS_MAX];
	struct gpu_details details[NODE_GPUS_MAX];
	struct error err = {0};
	size_t n = 77;

	assert_int_equal(inventory_from_json(text, gpus, details, &n, &err), -EINVAL);
	if (!strstr(err.text, because))
		fail_msg("\"%s\" does not say \"%s\"", err.text, because);
	assert_int_equal(n, 77);
}

static void impossible_inventories_are_refused_with_a_sentence(void **state)
{
	static const char *const bad_gpus[][2] = {{"index", "-1"}, {"index", "4096"}, {"index", "1.5"},
		{"index", "\"0\""}, {"index", "null"}, {"uuid", "\"\""}, {"uuid", "7"}, {"uuid", "\"a b\""},
		{"uuid", "\"a/../b\""}, {"mib", "0"}, {"mib", "-5"}, {"mib", "4194305"}, {"mib", "\"16160\""},
		{"mib", "1e99"}, {"healthy", "\"true\""}, {"healthy", "1"}, {"healthy", "null"},
		{"model", "3"}, {"model", "\"a\\u0000\""}};
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(bad_gpus); i++) {
		snprintf(text, sizeof(text),
			"[{\"index\":0,\"uuid\":\"G\",\"mib\":16160,\"healthy\":true,\"%s\":%s}]",
			bad_gpus[i][0], bad_gpus[i][1]);
		assert_inventory_refused(text, bad_gpus[i][0]);
	}
	assert_inventory_refused("[" GPU("0", "G") "," GPU("0", "H") "]", "index 0 is there twice");
	assert_inventory_refused("[" GPU("0", "G") "," GPU("1", "G") "]", "uuid G is there twice");
	assert_inventory_refused("{}", "not a list");
	assert_inventory_refused("[", "no valid JSON");
}

static void four_tib_is_the_largest_gpu(void **state)
{
	struct gpu_facts gpus[NODE_GPUS_MAX];
	struct gpu_details details[NODE_GPUS_MAX];
	size_t n;

	assert_int_equal(
		inventory_from_json("[{\"index\":0,\"uuid\":\"G\",\"mib\":4194304,\"healthy\":true}]", gpus,
			details, &n, NULL),
		0);
	assert_int_equal(gpus[0].mib, 4194304);
}

static char *inventory_of(int n)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	fputc('[', f);
	for (int i = 0; i < n; i++)
		fprintf(f, "%s{\"index\":%d,\"uuid\":\"G%d\",\"mib\":1,\"healthy\":true}", i ? "," : "", i,
			i);
	fputc(']', f);
	fclose(f);
	return text;
}

static void sixty_four_gpus_are_the_limit(void **state)
{
	_cleanup_free_ char *fits = inventory_of(64), *over = inventory_of(65), *huge = inventory_of(10000);
	struct gpu_facts gpus[NODE_GPUS_MAX];
	struct gpu_details details[NODE_GPUS_MAX];
	size_t n = 0;

	assert_int_equal(inventory_from_json(fits, gpus, details, &n, NULL), 0);
	assert_int_equal(n, 64);
	assert_inventory_refused(over, "65 GPUs");
	assert_inventory_refused(huge, "bytes are more than any inventory has");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_without_our_annotations_has_no_gpus_and_no_mode),
		cmocka_unit_test(a_nodes_mode_unit_and_gpus_are_read_from_its_annotations),
		cmocka_unit_test(the_address_is_the_first_internal_one),
		cmocka_unit_test(spread_is_asked_for_by_label_and_anything_else_is_binpack),
		cmocka_unit_test(a_node_without_name_or_uid_is_refused),
		cmocka_unit_test(a_node_that_waits_to_change_its_mode_or_unit_says_so),
		cmocka_unit_test(malformed_annotations_leave_no_gpus_and_a_sentence_that_names_the_node),
		cmocka_unit_test(wrong_types_at_any_level_are_survived),
		cmocka_unit_test(inventory_text_is_as_documented),
		cmocka_unit_test(a_reason_is_kept_of_unhealthy_gpus_only_and_costs_no_gpu),
		cmocka_unit_test(inventory_survives_text_and_back_sorted_by_index),
		cmocka_unit_test(an_empty_inventory_is_one_of_no_gpus),
		cmocka_unit_test(impossible_inventories_are_refused_with_a_sentence),
		cmocka_unit_test(four_tib_is_the_largest_gpu),
		cmocka_unit_test(sixty_four_gpus_are_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
