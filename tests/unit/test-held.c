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
#include "kube/held.h"
#include "kube/json.h"
#include "kube/node.h"
#include "kube/pod.h"

#define POD(uid, gpus) "{\"uid\":\"" uid "\",\"namespace\":\"default\",\"name\":\"a\",\"cards\":{" gpus "}}"
#define HELD(pods, rest) "{\"at\":\"2026-05-04T03:02:01.000000Z\",\"pods\":[" pods "]" rest "}"

static void held_is_read_with_its_gpus(void **state)
{
	_cleanup_held_ struct held held = {0};
	struct error err;

	assert_int_equal(
		held_from_json(HELD(POD("u1", "\"GPU-0\":{\"units\":3,\"core\":20},\"GPU-1\":{\"units\":4}"),
				       ",\"ended\":[\"u2\"]"),
			&held, &err),
		0);
	assert_string_equal(held.at, "2026-05-04T03:02:01.000000Z");
	assert_int_equal(held.n_pods, 1);
	assert_string_equal(held.pods[0].uid, "u1");
	assert_string_equal(held.pods[0].namespace_, "default");
	assert_int_equal(held.pods[0].n_gpus, 2);
	assert_string_equal(held.pods[0].gpus[0].uuid, "GPU-0");
	assert_int_equal(held.pods[0].gpus[0].units, 3);
	assert_int_equal(held.pods[0].gpus[0].core, 20);
	assert_int_equal(held.pods[0].gpus[1].units, 4);
	assert_int_equal(held.pods[0].instances, 1);
	assert_true(held.names_ended);
	assert_int_equal(held_says(&held, "u1"), HELD_LIVES);
	assert_int_equal(held_says(&held, "u2"), HELD_ENDED);
	assert_int_equal(held_says(&held, "u3"), HELD_UNKNOWN);
}

static void held_copies_are_equal_until_something_differs(void **state)
{
	_cleanup_held_ struct held held = {0}, copy = {0};

	assert_int_equal(
		held_from_json(HELD(POD("u1", "\"GPU-0\":{\"units\":3}"), ",\"ended\":[]"), &held, NULL), 0);
	assert_int_equal(held_copy(&held, &copy), 0);
	assert_true(held_equal(&held, &copy));
	copy.pods[0].gpus[0].units = 4;
	assert_false(held_equal(&held, &copy));
	copy.pods[0].gpus[0].units = 3;
	copy.pods[0].instances = 2;
	assert_false(held_equal(&held, &copy));
	copy.pods[0].instances = 1;
	copy.at[0] = '3';
	assert_false(held_equal(&held, &copy));
}

static void a_pod_of_several_containers_says_how_many_and_one_of_one_does_not(void **state)
{
	_cleanup_held_ struct held held = {.at = "1"}, read = {0}, copy = {0};
	_cleanup_free_ char *one = NULL, *three = NULL;
	struct held_pod *pod;
	size_t cut;

	assert_int_equal(held_add_pod(&held, "u1", "d", "a", &pod), 0);
	assert_int_equal(held_pod_add_gpu(pod, "GPU-0", 6, 0), 0);
	one = held_to_json(&held, 4096, &cut);
	assert_null(strstr(one, "containers"));
	pod->instances = 3;
	three = held_to_json(&held, 4096, &cut);
	assert_int_equal(held_from_json(three, &read, NULL), 0);
	assert_int_equal(read.pods[0].instances, 3);
	assert_int_equal(held_copy(&read, &copy), 0);
	assert_int_equal(copy.pods[0].instances, 3);
}

static void what_is_no_held_is_refused_with_a_sentence(void **state)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"at\":\"x\"}",
		"{\"at\":\"\",\"pods\":[]}",
		"{\"at\":\"x\",\"pods\":{}}",
		HELD("1", ""),
		HELD(POD("", "\"GPU-0\":{\"units\":3}"), ""),
		HELD(POD("u1", ""), ""),
		HELD(POD("u1", "\"GPU/0\":{\"units\":3}"), ""),
		HELD(POD("u1", "\"GPU-0\":3"), ""),
		HELD(POD("u1", "\"GPU-0\":{\"units\":-1}"), ""),
		HELD(POD("u1", "\"GPU-0\":{\"units\":99999999999}"), ""),
		HELD("{\"uid\":\"u1\",\"namespace\":\"d\",\"name\":\"a\",\"containers\":0,\"cards\":{"
		     "\"GPU-0\":{\"units\":3}}}",
			""),
		HELD("", ",\"ended\":{}"),
		HELD("", ",\"ended\":[1]"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_held_ struct held held = {0};
		struct error err = {0};

		assert_int_equal(held_from_json(texts[i], &held, &err), -EINVAL);
		assert_int_equal(held.n_pods, 0);
		assert_true(err.text[0]);
	}
}

static void a_node_says_whether_it_serves_and_what_it_holds(void **state)
{
	static const struct {
		const char *annotations;
		bool serving;
		size_t n_held;
	} nodes[] = {
		{"", true, 0},
		{"\"ration.dev/serving\":\"true\"", true, 0},
		{"\"ration.dev/serving\":\"false\"", false, 0},
		{"\"ration.dev/held\":\"{\\\"at\\\":\\\"1\\\",\\\"pods\\\":[{\\\"uid\\\":\\\"u\\\","
		 "\\\"namespace\\\":\\\"d\\\",\\\"name\\\":\\\"a\\\",\\\"cards\\\":{\\\"G\\\":{}}}]}\"",
			true, 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		_cleanup_node_facts_ struct node_facts facts = {0};
		_cleanup_json_ struct json_object *node = NULL;
		struct error err;
		char text[512];

		snprintf(text, sizeof(text),
			"{\"metadata\":{\"name\":\"n1\",\"uid\":\"u1\",\"annotations\":{%s}}}",
			nodes[i].annotations);
		assert_int_equal(json_parse(text, strlen(text), &node, &err), 0);
		assert_int_equal(node_facts_from_json(node, &facts, &err), 0);
		assert_string_equal(err.text, "");
		assert_int_equal(facts.serving, nodes[i].serving);
		assert_int_equal(facts.held.n_pods, nodes[i].n_held);
	}
}

static void a_pod_runs_while_a_container_is_not_terminated(void **state)
{
	static const struct {
		const char *status;
		bool running;
	} pods[] = {
		{"", false},
		{"\"containerStatuses\":[]", false},
		{"\"containerStatuses\":[{\"state\":{\"waiting\":{\"reason\":\"ContainerCreating\"}}}]",
			true},
		{"\"containerStatuses\":[{\"state\":{\"running\":{}}}]", true},
		{"\"containerStatuses\":[{\"state\":{\"terminated\":{\"exitCode\":0}}}]", false},
		{"\"containerStatuses\":[{\"state\":{\"terminated\":{}}},{\"state\":{\"running\":{}}}]",
			true},
		{"\"initContainerStatuses\":[{\"state\":{\"running\":{}}}]", true},
		{"\"containerStatuses\":[{}]", true},
		{"\"containerStatuses\":7", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		_cleanup_pod_facts_ struct pod_facts facts = {0};
		_cleanup_json_ struct json_object *pod = NULL;
		struct error err;
		char text[512];

		snprintf(text, sizeof(text),
			"{\"metadata\":{\"name\":\"a\",\"namespace\":\"d\",\"uid\":\"u\"},\"status\":{%s}}",
			pods[i].status);
		assert_int_equal(json_parse(text, strlen(text), &pod, &err), 0);
		assert_int_equal(pod_facts_from_json(pod, &facts, &err), 0);
		assert_int_equal(facts.running, pods[i].running);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(held_is_read_with_its_gpus),
		cmocka_unit_test(held_copies_are_equal_until_something_differs),
		cmocka_unit_test(a_pod_of_several_containers_says_how_many_and_one_of_one_does_not),
		cmocka_unit_test(what_is_no_held_is_refused_with_a_sentence),
		cmocka_unit_test(a_node_says_whether_it_serves_and_what_it_holds),
		cmocka_unit_test(a_pod_runs_while_a_container_is_not_terminated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
