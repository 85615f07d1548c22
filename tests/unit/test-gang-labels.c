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
#include "base/clock.h"
#include "base/error.h"
#include "core/gang/gang.h"
#include "kube/gang.h"
#include "kube/json.h"
#include "kube/pod.h"

static int read_pod(const char *labels, const char *annotations, const char *node,
	struct pod_facts *ret_facts, struct error *err)
{
	_cleanup_json_ struct json_object *pod = NULL;
	char text[1024];

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"default\",\"labels\":%s,"
		"\"annotations\":%s,\"creationTimestamp\":\"2026-01-31T12:00:00Z\"},\"spec\":{\"nodeName\":"
		"\"%s\",\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{\"aliyun.com/"
		"gpu-mem\":3}}}]}}",
		labels, annotations, node);
	assert_int_equal(json_parse(text, strlen(text), &pod, err), 0);
	return pod_facts_from_json(pod, ret_facts, err);
}

static void both_labels_name_a_gang_and_its_size(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod("{\"pod-group.scheduling.sigs.k8s.io/name\":\"job\","
				  "\"pod-group.scheduling.sigs.k8s.io/min-available\":\"4\"}",
				 "{}", "", &facts, &err),
		0);
	assert_string_equal(facts.gang, "job");
	assert_int_equal(facts.gang_min, 4);
	assert_false(facts.gang_forming);
	/* date -u -d 2026-01-31T12:00:00Z +%s */
	assert_int_equal(facts.created, 1769860800);
}

static void scheduler_plugins_label_names_a_pod_group(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod("{\"scheduling.x-k8s.io/pod-group\":\"job\"}", "{}", "", &facts, &err), 0);
	assert_string_equal(facts.gang, "job");
	assert_int_equal(facts.gang_min, 0);
}

static void most_pods_are_of_no_gang(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod("{\"app\":\"x\",\"pod-group.scheduling.sigs.k8s.io/name\":\"\"}", "{}", "",
				 &facts, &err),
		0);
	assert_null(facts.gang);
}

static void a_size_that_is_none_is_refused_by_name(void **state)
{
	static const char *const values[] = {"\"x\"", "\"0\"", "\"-1\"", "\"1001\"", "\"\"", "\"4.0\"", "4"};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err;
		char labels[256];

		snprintf(labels, sizeof(labels),
			"{\"pod-group.scheduling.sigs.k8s.io/name\":\"job\","
			"\"pod-group.scheduling.sigs.k8s.io/min-available\":%s}",
			values[i]);
		assert_int_equal(read_pod(labels, "{}", "", &facts, &err), -EINVAL);
		assert_non_null(strstr(err.text,
			"pod default/a: label pod-group.scheduling.sigs.k8s.io/min-available is \""));
		assert_non_null(strstr(err.text, "must be a number from 1 to 1000"));
		assert_null(facts.gang);
	}
}

static void a_bound_pod_counts_whatever_its_label_says_now(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod("{\"pod-group.scheduling.sigs.k8s.io/name\":\"job\","
				  "\"pod-group.scheduling.sigs.k8s.io/min-available\":\"x\"}",
				 "{}", "n1", &facts, &err),
		0);
	assert_int_equal(facts.request.units, 3);
	assert_string_equal(facts.gang, "job");
	assert_int_equal(facts.gang_min, 0);
}

static void the_mark_of_a_gang_that_has_not_come_about_is_read(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod("{\"pod-group.scheduling.sigs.k8s.io/name\":\"job\","
				  "\"pod-group.scheduling.sigs.k8s.io/min-available\":\"2\"}",
				 "{\"ration.dev/gang\":\"forming\"}", "n1", &facts, &err),
		0);
	assert_true(facts.gang_forming);
}

#define GANG_LABELS                                                                                          \
	"{\"pod-group.scheduling.sigs.k8s.io/name\":\"later\","                                              \
	"\"pod-group.scheduling.sigs.k8s.io/min-available\":\"2\"}"

static void a_bound_pod_is_of_the_gang_that_its_binding_recorded(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod(GANG_LABELS,
				 "{\"ration.dev/bound-gang\":\"{\\\"name\\\":\\\"job\\\",\\\"min\\\":4}\"}",
				 "n1", &facts, &err),
		0);
	assert_string_equal(facts.gang, "job");
	assert_int_equal(facts.gang_min, 4);
	assert_true(facts.gang_bound);
}

static void a_pod_that_was_bound_without_a_gang_gets_none_by_its_labels(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod(GANG_LABELS, "{\"ration.dev/bound-gang\":\"{}\"}", "n1", &facts, &err), 0);
	assert_null(facts.gang);
	assert_true(facts.gang_bound);
}

static void labels_count_before_the_binding_and_without_a_record_that_can_be_read(void **state)
{
	static const struct {
		const char *record, *node;
	} cases[] = {{"{}", ""}, {"", "n1"}, {"{", "n1"}, {"[]", "n1"}, {"x", "n1"}, {"null", "n1"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err;
		char annotations[100];

		snprintf(annotations, sizeof(annotations), "{\"ration.dev/bound-gang\":\"%s\"}",
			cases[i].record);
		assert_int_equal(read_pod(GANG_LABELS, annotations, cases[i].node, &facts, &err), 0);
		assert_string_equal(facts.gang, "later");
		assert_int_equal(facts.gang_min, 2);
		assert_false(facts.gang_bound);
	}
}

static void what_a_binding_records_is_read_back(void **state)
{
	static const struct pod_facts pods[] = {{.gang = (char *)"job", .gang_min = 4},
		{.gang = (char *)"job"}, {.gang_min = 4}, {.request = {.group = (char *)"default/mpi"}}};
	static const char *const records[] = {
		"{\"name\":\"job\",\"min\":4}", "{\"name\":\"job\"}", "{}", "{\"job\":\"mpi\"}"};

	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		_cleanup_json_ struct json_object *annotations = json_object_new_object();

		assert_int_equal(gang_record(annotations, &pods[i]), 0);
		assert_string_equal(json_member_string(annotations, "ration.dev/bound-gang"), records[i]);
	}
}

static int read_group(const char *spec, char **ret_key, struct gang_group *ret_group, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	char text[256];

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"name\":\"job\",\"namespace\":\"default\"},\"spec\":%s}", spec);
	assert_int_equal(json_parse(text, strlen(text), &object, err), 0);
	return pod_group_from_json(object, ret_key, ret_group, err);
}

static void a_pod_group_says_how_many_and_how_long(void **state)
{
	_cleanup_free_ char *key = NULL;
	struct gang_group group;
	struct error err;

	assert_int_equal(
		read_group("{\"minMember\":3,\"scheduleTimeoutSeconds\":20}", &key, &group, &err), 0);
	assert_string_equal(key, "default/job");
	assert_int_equal(group.min, 3);
	assert_int_equal(group.timeout_ns, 20 * NS_PER_S);
}

static void a_pod_group_without_a_number_is_refused_by_name(void **state)
{
	_cleanup_free_ char *key = NULL;
	struct gang_group group;
	struct error err;

	assert_int_equal(read_group("{\"minMember\":0}", &key, &group, &err), -EINVAL);
	assert_string_equal(key, "default/job");
	assert_int_equal(group.min, 0);
	assert_string_equal(err.text, "PodGroup default/job: minMember must be a number from 1 to 1000");
}

static void assert_finished_path(const char *labels, const char *selector)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;
	char path[1024], expected[1024];

	assert_int_equal(read_pod(labels, "{}", "", &facts, &err), 0);
	assert_int_equal(gang_finished_path(&facts, path, sizeof(path)), 0);
	snprintf(expected, sizeof(expected),
		"/api/v1/namespaces/default/pods?labelSelector=%s&fieldSelector=status.phase%%21%%3DPending%%2Cstatus.phase%%21%%3DRunning&limit=100",
		selector);
	assert_string_equal(path, expected);
	assert_int_equal(gang_finished_path(&facts, path, 100), -ENOBUFS);
}

static void who_has_finished_is_asked_for_by_the_label_that_names_the_gang(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;
	char path[1024];

	assert_finished_path("{\"pod-group.scheduling.sigs.k8s.io/name\":\"job\"}",
		"pod-group.scheduling.sigs.k8s.io/name%3Djob");
	assert_finished_path(
		"{\"scheduling.x-k8s.io/pod-group\":\"a.b_c-1\"}", "scheduling.x-k8s.io/pod-group%3Da.b_c-1");
	/* Not what the API server would have let pass. */
	assert_int_equal(read_pod("{\"scheduling.x-k8s.io/pod-group\":\"a&b\"}", "{}", "", &facts, &err), 0);
	assert_int_equal(gang_finished_path(&facts, path, sizeof(path)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_finished_is_asked_for_by_the_label_that_names_the_gang),
		cmocka_unit_test(both_labels_name_a_gang_and_its_size),
		cmocka_unit_test(scheduler_plugins_label_names_a_pod_group),
		cmocka_unit_test(most_pods_are_of_no_gang),
		cmocka_unit_test(a_size_that_is_none_is_refused_by_name),
		cmocka_unit_test(a_bound_pod_counts_whatever_its_label_says_now),
		cmocka_unit_test(a_bound_pod_is_of_the_gang_that_its_binding_recorded),
		cmocka_unit_test(a_pod_that_was_bound_without_a_gang_gets_none_by_its_labels),
		cmocka_unit_test(labels_count_before_the_binding_and_without_a_record_that_can_be_read),
		cmocka_unit_test(what_a_binding_records_is_read_back),
		cmocka_unit_test(the_mark_of_a_gang_that_has_not_come_about_is_read),
		cmocka_unit_test(a_pod_group_says_how_many_and_how_long),
		cmocka_unit_test(a_pod_group_without_a_number_is_refused_by_name),
	};

	return cmocka_run_group_tests_name("gang-labels", tests, NULL, NULL);
}
