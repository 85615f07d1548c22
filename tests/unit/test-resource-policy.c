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
#include "kube/json.h"
#include "kube/names.h"
#include "kube/resource-policy.h"

static int parse(const char *spec, struct resource_policy **ret_policy, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	char text[4096];

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"uid\":\"u\",\"name\":\"n\",\"namespace\":\"team\",\"generation\":3,"
		"\"creationTimestamp\":\"2026-01-31T12:00:00Z\"},\"spec\":%s}",
		spec);
	assert_int_equal(json_parse(text, strlen(text), &object, err), 0);
	return resource_policy_from_json(object, ret_policy, err);
}

static void a_full_policy_is_read_whole(void **state)
{
	struct resource_policy *policy;
	struct error err = {0};

	assert_int_equal(
		parse("{\"selector\":{\"app\":\"web\"},\"matchExpressions\":[{\"key\":\"x\",\"operator\":"
		      "\"Exists\"}],"
		      "\"strategy\":\"prefer\",\"units\":[{\"resource\":\"idc\",\"nodeSelector\":{\"pool\":"
		      "\"a\"},\"max\":10,\"maxResources\":{\"cpu\":\"1500m\",\"memory\":\"1Gi\",\"gpus\":4}},"
		      "{\"resource\":\"eci\",\"podLabels\":{\"u\":\"2\",\"k8s.aliyun.com/"
		      "resource-policy-wait-for-ecs-scaling\":\"true\"},\"podAnnotations\":{\"a\":\"b\"}}],"
		      "\"preemptPolicy\":\"BeforeNextUnit\",\"ignorePreviousPod\":true,"
		      "\"ignoreTerminatingPod\":false,\"matchLabelKeys\":[\"pod-template-hash\"],"
		      "\"whenTryNextUnits\":{\"policy\":\"TimeoutOrExceedMax\",\"timeout\":\"1h0m1.5s\"}}",
			&policy, &err),
		0);
	assert_string_equal(policy->name, "n");
	assert_int_equal(policy->created, 1769860800);
	assert_int_equal(policy->generation, 3);
	assert_true(selector_selects(&policy->selector, "app=web\nx=\n"));
	assert_false(selector_selects(&policy->selector, "app=web\n"));
	assert_int_equal(policy->n_units, 2);
	assert_int_equal(policy->units[0].kind, POLICY_UNIT_IDC);
	assert_true(policy->units[0].has_max && policy->units[0].max == 10);
	assert_int_equal(amounts_get(&policy->units[0].max_resources, "cpu"), 1500);
	assert_int_equal(amounts_get(&policy->units[0].max_resources, "memory"), 1073741824000);
	assert_int_equal(amounts_get(&policy->units[0].max_resources, "gpus"), 4000);
	assert_true(label_pairs_hold(&policy->units[0].node_selector, "pool=a\n"));
	assert_int_equal(policy->units[1].kind, POLICY_UNIT_ECI);
	assert_false(policy->units[1].has_max);
	/* The label that asks to wait is neither written nor counted. */
	assert_true(policy->units[1].awaits_scaling);
	assert_int_equal(policy->units[1].pod_labels.n, 1);
	assert_int_equal(policy->units[1].pod_annotations.n, 1);
	assert_true(policy->preempts_each && policy->ignores_previous && !policy->ignores_terminating);
	assert_string_equal(policy->keys[0], "pod-template-hash");
	assert_int_equal(policy->advance, ADVANCE_TIMEOUT_OR_MAX);
	assert_true(policy->timeout_ns == INT64_C(3601500000000));
	resource_policy_free(policy);
}

static void what_is_left_out_has_the_documented_default(void **state)
{
	struct resource_policy *policy;
	struct error err = {0};

	assert_int_equal(parse("{\"units\":[{\"resource\":\"ecs\"}]}", &policy, &err), 0);
	assert_true(selector_selects(&policy->selector, NULL)); /* all pods of the namespace */
	assert_int_equal(policy->advance, ADVANCE_LACK_OR_MAX);
	assert_true(policy->timeout_ns == 15 * 60 * NS_PER_S);
	assert_true(!policy->preempts_each && !policy->ignores_previous && policy->ignores_terminating);
	assert_false(policy_unit_is_limited(&policy->units[0]));
	resource_policy_free(policy);
}

static void what_cannot_be_understood_is_refused_with_its_field(void **state)
{
	static const char *const rows[][2] = {
		{"{}", "units"},
		{"null", "units"},
		{"{\"units\":[]}", "units"},
		{"{\"units\":{}}", "units"},
		{"{\"units\":[7]}", "units[0].resource"},
		{"{\"units\":[{\"resource\":\"gcp\"}]}", "units[0].resource is gcp"},
		{"{\"units\":[{\"resource\":\"ecs\"},{\"resource\":\"ecs\",\"max\":-1}]}", "units[1].max"},
		{"{\"units\":[{\"resource\":\"ecs\",\"max\":1.5}]}", "units[0].max"},
		{"{\"units\":[{\"resource\":\"ecs\",\"max\":4294967296}]}", "units[0].max"},
		{"{\"units\":[{\"resource\":\"ecs\",\"nodeSelector\":[]}]}", "units[0].nodeSelector"},
		{"{\"units\":[{\"resource\":\"ecs\",\"nodeSelector\":{\"a\":1}}]}", "units[0].nodeSelector"},
		{"{\"units\":[{\"resource\":\"ecs\",\"podAnnotations\":{\"a\":\"x\\ny\"}}]}",
			"units[0].podAnnotations"},
		{"{\"units\":[{\"resource\":\"ecs\",\"maxResources\":{\"cpu\":\"much\"}}]}",
			"units[0].maxResources: cpu"},
		{"{\"units\":[{\"resource\":\"ecs\",\"maxResources\":{\"cpu\":\"-1\"}}]}",
			"units[0].maxResources: cpu"},
		{"{\"selector\":7,\"units\":[{\"resource\":\"ecs\"}]}", "selector"},
		{"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Like\"}],\"units\":[{\"resource\":"
		 "\"ecs\"}]}",
			"matchExpressions"},
		{"{\"matchLabelKeys\":\"a\",\"units\":[{\"resource\":\"ecs\"}]}", "matchLabelKeys"},
		{"{\"matchLabelKeys\":[\"\"],\"units\":[{\"resource\":\"ecs\"}]}", "matchLabelKeys[0]"},
		{"{\"strategy\":\"required\",\"units\":[{\"resource\":\"ecs\"}]}", "strategy"},
		{"{\"preemptPolicy\":\"Never\",\"units\":[{\"resource\":\"ecs\"}]}", "preemptPolicy"},
		{"{\"ignorePreviousPod\":\"yes\",\"units\":[{\"resource\":\"ecs\"}]}", "ignorePreviousPod"},
		{"{\"whenTryNextUnits\":{\"policy\":\"Later\"},\"units\":[{\"resource\":\"ecs\"}]}",
			"whenTryNextUnits.policy is Later"},
		{"{\"whenTryNextUnits\":{\"timeout\":\"5\"},\"units\":[{\"resource\":\"ecs\"}]}",
			"whenTryNextUnits.timeout is 5"},
		{"{\"whenTryNextUnits\":{\"timeout\":\"-5s\"},\"units\":[{\"resource\":\"ecs\"}]}",
			"whenTryNextUnits.timeout"},
		{"{\"whenTryNextUnits\":{\"timeout\":\"99999999h\"},\"units\":[{\"resource\":\"ecs\"}]}",
			"whenTryNextUnits.timeout"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct resource_policy *policy = NULL;
		struct error err = {0};

		if (parse(rows[i][0], &policy, &err) == 0 || !strstr(err.text, rows[i][1]))
			fail_msg("%s: \"%s\"", rows[i][0], err.text);
	}
}

/* The scheduler may write what nobody else may: who can make a policy must not be able to borrow that. */
static void what_only_ration_writes_no_policy_has_written_to_pods(void **state)
{
	static const char *const keys[] = {ANNOTATION_PLACEMENT, ANNOTATION_UNIT, ANNOTATION_ALLOCATION,
		ANNOTATION_CORE_ALLOCATION, ANNOTATION_MEM_IDX, ANNOTATION_MEM_POD, ANNOTATION_MEM_DEV,
		ANNOTATION_MEM_ASSIGNED, ANNOTATION_MEM_ASSUME_TIME, ANNOTATION_GPU_GROUP,
		ANNOTATION_GPU_VISIBLE, ANNOTATION_RESIZE_STATUS, ANNOTATION_RESIZE, ANNOTATION_GANG,
		ANNOTATION_REQUEUE, ANNOTATION_DELETION_COST, ANNOTATION_POLICY_COST, LABEL_GPU_COUNT,
		LABEL_GANG, LABEL_GANG_MIN, LABEL_POD_GROUP, LABEL_GPU_TOPOLOGY, LABEL_GPU_TOPOLOGY_REPLICA};
	static const char *const fields[] = {"podAnnotations", "podLabels"};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(keys); i++) {
		struct resource_policy *policy = NULL;
		struct error err = {0};
		char spec[512];

		snprintf(spec, sizeof(spec), "{\"units\":[{\"resource\":\"ecs\",\"%s\":{\"%s\":\"1\"}}]}",
			fields[i % 2], keys[i / 2]);
		if (parse(spec, &policy, &err) == 0 || !strstr(err.text, keys[i / 2]))
			fail_msg("%s: \"%s\"", spec, err.text);
	}
}

/* As users of ACK have them. */
static void labels_of_others_are_written_as_they_are(void **state)
{
	struct resource_policy *policy = NULL;
	struct error err = {0};

	assert_int_equal(
		parse("{\"units\":[{\"resource\":\"acs\",\"podLabels\":{\"alibabacloud.com/acs\":\"true\","
		      "\"alibabacloud.com/compute-class\":\"gpu\"}}]}",
			&policy, &err),
		0);
	resource_policy_free(policy);
}

static void more_units_than_the_maximum_are_refused(void **state)
{
	char spec[4096] = "{\"units\":[{\"resource\":\"ecs\"}";
	struct resource_policy *policy = NULL;
	struct error err = {0};

	for (int i = 0; i < POLICY_UNITS_MAX; i++)
		strcat(spec, ",{\"resource\":\"ecs\"}");
	strcat(spec, "]}");
	assert_int_not_equal(parse(spec, &policy, &err), 0);
}

static struct policy_pod_facts pod_facts(const char *text)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct policy_pod_facts facts;
	struct table keys;

	table_init(&keys);
	table_set(&keys, "mark", &keys);
	assert_int_equal(json_parse(text, strlen(text), &object, NULL), 0);
	assert_int_equal(policy_pod_facts_from_json(object, &keys, &facts), 0);
	table_release(&keys);
	return facts;
}

#define POD(metadata, rest)                                                                                  \
	"{\"metadata\":{\"uid\":\"u\",\"name\":\"p\",\"namespace\":\"team\"" metadata "}" rest "}"

static void requests_are_the_effective_ones(void **state)
{
	/* sidecar 100m + main 500m + 300m = 900m; init 1 + sidecar 100m = 1100m; overhead 50m */
	_cleanup_policy_pod_facts_ struct policy_pod_facts facts = pod_facts(
		POD("", ",\"spec\":{\"overhead\":{\"cpu\":\"50m\"},\"initContainers\":["
			"{\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"100m\"}}},"
			"{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}],\"containers\":["
			"{\"resources\":{\"requests\":{\"cpu\":\"500m\"},\"limits\":{\"cpu\":\"2\","
			"\"memory\":\"1Mi\"}}},{\"resources\":{\"requests\":{\"cpu\":\"300m\"}}}]}"));

	assert_int_equal(amounts_get(&facts.requests, "cpu"), 1150);
	assert_int_equal(amounts_get(&facts.requests, "memory"), 1048576000);
}

static void only_annotations_that_a_policy_names_are_kept(void **state)
{
	_cleanup_policy_pod_facts_ struct policy_pod_facts facts = pod_facts(
		POD(",\"labels\":{\"app\":\"web\"},\"annotations\":{\"mark\":\"x\",\"other\":\"y\"}", ""));

	assert_string_equal(facts.annotations, "mark=x\n");
	assert_string_equal(facts.labels, "app=web\n");
	assert_string_equal(facts.node, "");
}

static void a_deletion_cost_is_ours_only_with_our_mark_of_the_same_value(void **state)
{
	static const struct {
		const char *annotations;
		enum policy_cost cost;
	} rows[] = {
		{"", POLICY_COST_NONE},
		{",\"annotations\":{\"ration.dev/level-cost\":\"-1\"}", POLICY_COST_NONE},
		{",\"annotations\":{\"controller.kubernetes.io/pod-deletion-cost\":\"-1\"}",
			POLICY_COST_USERS},
		{",\"annotations\":{\"controller.kubernetes.io/pod-deletion-cost\":\"5\",\"ration.dev/"
		 "level-cost\":\"-1\"}",
			POLICY_COST_USERS},
		{",\"annotations\":{\"controller.kubernetes.io/pod-deletion-cost\":\"-1\",\"ration.dev/"
		 "level-cost\":\"-1\"}",
			POLICY_COST_OURS},
		/* Never written by us: one that we would neither correct nor take away. */
		{",\"annotations\":{\"controller.kubernetes.io/pod-deletion-cost\":\"0\",\"ration.dev/"
		 "level-cost\":\"0\"}",
			POLICY_COST_USERS},
		{",\"annotations\":{\"controller.kubernetes.io/pod-deletion-cost\":\"x\",\"ration.dev/"
		 "level-cost\":\"x\"}",
			POLICY_COST_USERS},
		{",\"annotations\":{\"controller.kubernetes.io/"
		 "pod-deletion-cost\":\"-99999999999\",\"ration.dev/level-cost\":\"-99999999999\"}",
			POLICY_COST_USERS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_policy_pod_facts_ struct policy_pod_facts facts;
		char text[1024];

		snprintf(text, sizeof(text), POD("%s", ""), rows[i].annotations);
		facts = pod_facts(text);
		assert_int_equal(facts.cost, rows[i].cost);
		assert_int_equal(facts.cost_value, rows[i].cost == POLICY_COST_OURS ? -1 : 0);
	}
}

static void how_a_pod_stands_is_read(void **state)
{
	_cleanup_policy_pod_facts_ struct policy_pod_facts bound = pod_facts(POD(
		",\"deletionTimestamp\":\"2026-01-31T12:00:00Z\",\"ownerReferences\":[{\"kind\":"
		"\"ReplicaSet\",\"controller\":true}]",
		",\"spec\":{\"nodeName\":\"n1\",\"schedulerName\":\"ack-co-scheduler\",\"tolerations\":[{"
		"\"key\":\"virtual-kubelet.io/provider\",\"operator\":\"Exists\"}]},\"status\":{"
		"\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\",\"lastTransitionTime\":"
		"\"2026-01-31T12:00:00Z\"}]}"));
	_cleanup_policy_pod_facts_ struct policy_pod_facts waiting = pod_facts(
		POD("", ",\"spec\":{},\"status\":{\"nominatedNodeName\":\"n2\",\"conditions\":[{\"type\":"
			"\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\"}]}"));

	assert_true(bound.terminating && bound.of_replica_set && bound.ours && bound.tolerates);
	assert_int_equal(bound.scheduled, 1769860800);
	assert_int_equal(bound.verdict, 0);
	assert_true(waiting.nominated && waiting.verdict != 0 && !waiting.tolerates && !waiting.ours);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_policy_is_read_whole),
		cmocka_unit_test(what_is_left_out_has_the_documented_default),
		cmocka_unit_test(what_cannot_be_understood_is_refused_with_its_field),
		cmocka_unit_test(what_only_ration_writes_no_policy_has_written_to_pods),
		cmocka_unit_test(labels_of_others_are_written_as_they_are),
		cmocka_unit_test(more_units_than_the_maximum_are_refused),
		cmocka_unit_test(requests_are_the_effective_ones),
		cmocka_unit_test(only_annotations_that_a_policy_names_are_kept),
		cmocka_unit_test(a_deletion_cost_is_ours_only_with_our_mark_of_the_same_value),
		cmocka_unit_test(how_a_pod_stands_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
