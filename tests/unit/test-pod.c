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
#include "kube/object-name.h"
#include "kube/pod.h"

/* A pod whose spec is given and whose metadata is complete. */
#define META "\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"default\"}"
#define POD(spec) "{" META ",\"spec\":" spec "}"
#define MAIN(limits) "{\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":" limits "}}]}"
#define MEM(value) POD(MAIN("{\"aliyun.com/gpu-mem\":" value "}"))

static int read_pod(const char *text, struct pod_facts *ret_facts, struct error *ret_err)
{
	_cleanup_json_ struct json_object *pod = NULL;

	assert_int_equal(json_parse(text, strlen(text), &pod, ret_err), 0);
	return pod_facts_from_json(pod, ret_facts, ret_err);
}

static void assert_units(const char *text, uint32_t units)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod(text, &facts, &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(facts.request.units, units);
}

static void assert_refused(const char *text, const char *because)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod(text, &facts, &err), -EINVAL);
	if (!strstr(err.text, because))
		fail_msg("\"%s\" does not say \"%s\"", err.text, because);
	assert_true(request_is_empty(&facts.request));
	assert_false(facts.has_placement);
}

static bool reads_as_running(const char *metadata, const char *status)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	_cleanup_free_ char *text = NULL;
	struct error err;

	assert_true(asprintf(&text,
			    "{\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"team\"%s},"
			    "\"spec\":{\"nodeName\":\"n1\"},\"status\":{%s}}",
			    metadata, status) > 0);
	assert_int_equal(read_pod(text, &facts, &err), 0);
	return facts.running;
}

/* The agent gives the devices just before the first container starts; the kubelet tells its status later. */
static void pod_with_devices_may_run_before_its_status_says_so(void **state)
{
	const char *given = ",\"annotations\":{\"ALIYUN_COM_GPU_MEM_ASSIGNED\":\"true\"}";
	const char *asked = ",\"annotations\":{\"ALIYUN_COM_GPU_MEM_ASSIGNED\":\"false\"}";

	assert_true(reads_as_running(given, "\"phase\":\"Pending\""));
	assert_true(reads_as_running(given, ""));
	assert_false(reads_as_running(asked, "\"phase\":\"Pending\""));
	assert_true(reads_as_running(asked, "\"containerStatuses\":[{\"state\":{\"waiting\":{}}}]"));
	assert_false(reads_as_running(given, "\"containerStatuses\":[{\"state\":{\"terminated\":{}}}]"));
}

static void pod_facts_are_read_from_a_running_pod(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(
		read_pod("{\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"team\","
			 "\"ownerReferences\":["
			 "{\"uid\":\"other\",\"controller\":false},{\"uid\":\"rs1\",\"controller\":true}],"
			 "\"annotations\":{\"ALIYUN_COM_GPU_MEM_ASSIGNED\":\"true\"}},"
			 "\"spec\":{\"nodeName\":\"n1\",\"priority\":-7},\"status\":{\"phase\":\"Running\"}}",
			&facts, &err),
		0);
	assert_string_equal(facts.uid, "u1");
	assert_string_equal(facts.name, "a");
	assert_string_equal(facts.namespace_, "team");
	assert_string_equal(facts.owner, "rs1");
	assert_string_equal(facts.node, "n1");
	assert_int_equal(facts.priority, -7);
	assert_true(facts.assigned);
	assert_false(facts.finished);
	assert_false(facts.pending);
	assert_false(facts.deleting);
	assert_true(request_is_empty(&facts.request));
}

static void what_preemption_needs_to_know_is_read(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(
		read_pod("{\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"team\","
			 "\"labels\":{\"app\":\"x\",\"tier\":\"\"},"
			 "\"annotations\":{\"kubernetes.io/config.mirror\":\"hash\"}},"
			 "\"spec\":{\"preemptionPolicy\":\"Never\",\"containers\":[{\"name\":\"main\","
			 "\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}}}]},"
			 "\"status\":{\"nominatedNodeName\":\"n1\",\"startTime\":\"2026-01-31T12:00:01Z\"}}",
			&facts, &err),
		0);
	assert_true(facts.never_preempts);
	assert_true(facts.mirror);
	assert_string_equal(facts.nominated_node, "n1");
	assert_string_equal(facts.labels, "app=x\ntier=\n");
	assert_int_equal(facts.started, 1769860801); /* date -ud 2026-01-31T12:00:01Z +%s */
}

static void what_a_pod_does_not_say_reads_as_empty(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod("{" META "}", &facts, &err), 0);
	assert_string_equal(facts.owner, "");
	assert_string_equal(facts.node, "");
	assert_int_equal(facts.priority, 0);
	assert_false(facts.pending);
	assert_false(facts.never_preempts);
	assert_false(facts.mirror);
	assert_null(facts.nominated_node);
	assert_null(facts.labels);
	assert_int_equal(facts.started, 0);
}

static void phases_succeeded_and_failed_are_the_end_and_unknown_is_not(void **state)
{
	static const struct {
		const char *phase;
		bool finished, pending;
	} phases[] = {{"Pending", false, true}, {"Running", false, false}, {"Succeeded", true, false},
		{"Failed", true, false}, {"Unknown", false, false}, {"succeeded", false, false}};

	for (size_t i = 0; i < ARRAY_SIZE(phases); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err;
		char text[256];

		snprintf(text, sizeof(text), "{" META ",\"status\":{\"phase\":\"%s\"}}", phases[i].phase);
		assert_int_equal(read_pod(text, &facts, &err), 0);
		assert_int_equal(facts.finished, phases[i].finished);
		assert_int_equal(facts.pending, phases[i].pending);
	}
}

static void a_deletion_timestamp_marks_the_pod_and_null_does_not(void **state)
{
	static const char format[] = "{\"metadata\":{\"uid\":\"u\",\"name\":\"a\",\"namespace\":\"d\","
				     "\"deletionTimestamp\":%s}}";
	static const char *const values[] = {"null", "\"2026-01-01T00:00:00Z\""};

	for (int i = 0; i < 2; i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err;
		char text[256];

		snprintf(text, sizeof(text), format, values[i]);
		assert_int_equal(read_pod(text, &facts, &err), 0);
		assert_int_equal(facts.deleting, i);
	}
}

static void gpu_mem_is_read_from_strings_and_from_numbers(void **state)
{
	assert_units(MEM("\"3\""), 3);
	assert_units(MEM("3"), 3);
	assert_units(MEM("\"1k\""), 1000);
	assert_units(MEM("\"2Ki\""), 2048);
}

static void a_float_counts_if_it_is_whole(void **state)
{
	assert_units(MEM("3.0"), 3);
	assert_units(MEM("3e0"), 3);
	assert_refused(MEM("3.5"), "must be a whole number");
	assert_refused(MEM("\"3.5\""), "must be a whole number");
}

static void nothing_and_zero_ask_for_nothing(void **state)
{
	assert_units(MEM("0"), 0);
	assert_units(MEM("null"), 0);
	assert_units(POD(MAIN("{\"cpu\":\"1\"}")), 0);
	assert_units(POD("{\"containers\":[]}"), 0);
}

static void impossible_amounts_are_refused_by_container_and_name(void **state)
{
	assert_refused(MEM("\"-1\""), "pod default/a: container \"main\": aliyun.com/gpu-mem is -1");
	assert_refused(MEM("-1"), "negative");
	assert_refused(MEM("\"three\""), "must be a number");
	assert_refused(MEM("\"\""), "must be a number");
	assert_refused(MEM("\"3 \""), "must be a number");
	assert_refused(MEM("NaN"), "must be a number");
	assert_refused(POD(MAIN("{\"aliyun.com/gpu-mem\":3,\"aliyun.com/gpu-core.percentage\":7}")),
		"multiple of 5");
	assert_refused(POD(MAIN("{\"aliyun.com/gpu-core.percentage\":30}")), "aliyun.com/gpu-mem");
}

/* The kubelet has given what it asks for already, whatever we think of it (as for a wrong label). */
static void a_bound_pod_counts_though_its_percentage_is_none(void **state)
{
	static const struct {
		const char *limits, *because;
		uint32_t units, core, containers;
	} cases[] = {
		{"{\"aliyun.com/gpu-mem\":3,\"aliyun.com/gpu-core.percentage\":7}",
			"is 7: must be a multiple", 3, 10, 1},
		{"{\"aliyun.com/gpu-mem\":\"3\",\"aliyun.com/gpu-core.percentage\":\"150\"}",
			"is 150: must be a multiple", 3, 150, 1},
		{"{\"aliyun.com/gpu-core.percentage\":30}", "is 30: needs aliyun.com/gpu-mem", 0, 30, 1},
		{"{\"aliyun.com/gpu-core.percentage\":\"1E\"}", "is 1E: must be a multiple", 0,
			UINT32_C(0x3fffffff), 1},
		/* No quantity that the API server takes: nobody has given anything. */
		{"{\"aliyun.com/gpu-mem\":3,\"aliyun.com/gpu-core.percentage\":-5}", "negative", 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err;
		char text[1024];

		snprintf(text, sizeof(text),
			POD("{\"nodeName\":\"n\",\"initContainers\":[{\"name\":\"i\",\"resources\":{\"limits\":"
			    "%s}}],\"containers\":[{\"name\":\"m\",\"resources\":{\"limits\":"
			    "{\"aliyun.com/gpu-mem\":2}}}]}"),
			cases[i].limits);
		assert_int_equal(read_pod(text, &facts, &err), -EINVAL);
		assert_non_null(strstr(err.text, "pod default/a: container \"i\": aliyun.com/gpu-core"));
		assert_non_null(strstr(err.text, cases[i].because));
		assert_int_equal(facts.request.n_containers, cases[i].containers ? 2 : 0);
		assert_int_equal(facts.request.core, cases[i].core);
		assert_int_equal(facts.request.units, !cases[i].containers ? 0
						      : cases[i].units > 2 ? cases[i].units
									   : 2);
		assert_false(facts.has_placement);
	}
}

static void gpu_count_is_nothing_that_a_container_can_ask_for(void **state)
{
	assert_refused(POD(MAIN("{\"aliyun.com/gpu-mem\":3,\"aliyun.com/gpu-count\":\"2\"}")),
		"pod default/a: container \"main\": aliyun.com/gpu-count is 2: no container can ask for it: ask for aliyun.com/gpu-mem, and for several GPUs set the label aliyun.com/gpu-count of the pod");
	assert_refused(POD(MAIN("{\"aliyun.com/gpu-count\":1}")), "aliyun.com/gpu-count is 1: no container");
	assert_refused(POD(MAIN("{\"aliyun.com/gpu-count\":0}")), "aliyun.com/gpu-count is 0: no container");
	assert_units(POD("{\"nodeName\":\"n\",\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":"
			 "{\"aliyun.com/gpu-mem\":3,\"aliyun.com/gpu-count\":2}}}]}"),
		3);
}

static void huge_amounts_are_more_than_anybody_has(void **state)
{
	assert_units(MEM("\"99999999999999999999999\""), UINT32_C(0x3fffffff));
	assert_units(MEM("99999999999999999999999"), UINT32_C(0x3fffffff));
	assert_units(MEM("\"9E\""), UINT32_C(0x3fffffff));
}

static void an_amount_of_another_type_is_refused(void **state)
{
	static const char *const values[] = {"true", "[]", "[3]", "{}", "{\"value\":3}", "\"3\\u0000\""};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		char text[512];

		snprintf(text, sizeof(text), MEM("%s"), values[i]);
		assert_refused(text, "neither a number nor a quantity");
	}
}

static void init_containers_and_sidecars_keep_kind_order_and_index(void **state)
{
	static const char *const text = POD(
		"{\"initContainers\":[{\"name\":\"x\"},"
		"{\"name\":\"warm\",\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":\"5\"}}},"
		"{\"name\":\"side\",\"restartPolicy\":\"Always\",\"resources\":{\"limits\":"
		"{\"aliyun.com/gpu-mem\":\"1\"}}}],"
		"\"containers\":[{\"name\":\"y\"},{\"name\":\"one\",\"resources\":{\"limits\":"
		"{\"aliyun.com/gpu-mem\":\"2\"}}}]}");
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod(text, &facts, &err), 0);
	assert_int_equal(facts.request.n_containers, 3);
	assert_string_equal(facts.request.containers[0].name, "warm");
	assert_int_equal(facts.request.containers[0].kind, CONTAINER_INIT);
	assert_int_equal(facts.request.containers[0].index, 1);
	assert_int_equal(facts.request.containers[1].kind, CONTAINER_SIDECAR);
	assert_int_equal(facts.request.containers[1].index, 2);
	assert_int_equal(facts.request.containers[2].kind, CONTAINER_MAIN);
	assert_int_equal(facts.request.containers[2].index, 1);
	/* max(init step 5, sidecar 1 + main 2) */
	assert_int_equal(facts.request.units, 5);
}

static void a_pod_without_uid_name_or_namespace_is_refused(void **state)
{
	assert_refused("{}", "without a uid");
	assert_refused("{\"metadata\":null}", "without a uid");
	assert_refused("{\"metadata\":{\"name\":\"a\",\"namespace\":\"d\"}}", "without a uid");
	assert_refused("{\"metadata\":{\"uid\":\"u\",\"namespace\":\"d\"}}", "without a uid");
	assert_refused("{\"metadata\":{\"uid\":\"u\",\"name\":\"a\"}}", "without a uid");
	assert_refused(
		"{\"metadata\":{\"uid\":\"u\\u0000v\",\"name\":\"a\",\"namespace\":\"d\"}}", "without a uid");
	assert_refused("[]", "without a uid");
}

static void a_refused_pod_still_says_who_and_where_it_is(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod("{" META ",\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":\"m\","
				  "\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":-3}}}]},"
				  "\"status\":{\"phase\":\"Pending\"}}",
				 &facts, &err),
		-EINVAL);
	assert_string_equal(facts.uid, "u1");
	assert_string_equal(facts.node, "n1");
	assert_true(facts.pending);
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
	static const char *const places[] = {"{\"metadata\":%s}", "{" META ",\"spec\":%s}",
		"{" META ",\"status\":%s}", POD("{\"initContainers\":%s}"), POD("{\"containers\":%s}"),
		POD("{\"containers\":[%s]}"), POD("{\"nodeName\":%s}"), POD("{\"priority\":%s}"),
		POD("{\"containers\":[{\"name\":\"m\",\"resources\":%s}]}"),
		POD("{\"containers\":[{\"name\":%s,\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":3}}}]}"),
		POD(MAIN("%s")), MEM("%s"),
		"{\"metadata\":{\"uid\":\"u\",\"name\":\"a\",\"namespace\":\"d\",\"annotations\":%s}}",
		"{\"metadata\":{\"uid\":\"u\",\"name\":\"a\",\"namespace\":\"d\",\"ownerReferences\":%s}}",
		"{\"metadata\":{\"uid\":\"u\",\"name\":\"a\",\"namespace\":\"d\",\"ownerReferences\":[%s]}}"};
	static const char *const values[] = {"null", "true", "0", "-1", "1.5", "1e400", "\"\"", "\"x\"", "[]",
		"[null]", "[[]]", "{}", "{\"\":null}", "{\"a\":[{}]}"};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		for (size_t j = 0; j < ARRAY_SIZE(values); j++) {
			_cleanup_pod_facts_ struct pod_facts facts;
			struct error err;
			char text[1024];
			int r;

			fill(text, sizeof(text), places[i], values[j]);
			r = read_pod(text, &facts, &err);
			assert_true(r == 0 || r == -EINVAL);
			assert_int_equal(r < 0, err.text[0] != '\0');
		}
}

static void a_list_of_containers_that_is_none_is_refused_not_ignored(void **state)
{
	assert_refused(POD("{\"containers\":{\"name\":\"m\"}}"), "spec.containers is not a list");
	assert_refused(POD("{\"initContainers\":\"m\"}"), "spec.initContainers is not a list");
}

static void a_gpu_container_without_a_name_is_refused(void **state)
{
	assert_refused(POD("{\"containers\":[{\"resources\":{\"limits\":{\"aliyun.com/gpu-mem\":3}}}]}"),
		"no usable name");
}

static void names_of_megabytes_read_as_none(void **state)
{
	size_t len = 1024 * 1024;
	_cleanup_free_ char *name = malloc(len + 1), *text = NULL;

	memset(name, 'a', len);
	name[len] = '\0';
	assert_true(asprintf(&text, "{\"metadata\":{\"uid\":\"u\",\"name\":\"%s\",\"namespace\":\"d\"}}",
			    name) > 0);
	assert_refused(text, "without a uid, a name");
}

static void of_keys_that_occur_twice_the_last_counts(void **state)
{
	assert_units(POD(MAIN("{\"aliyun.com/gpu-mem\":3,\"aliyun.com/gpu-mem\":4}")), 4);
}

static void documents_that_are_too_deep_or_no_utf8_are_no_json(void **state)
{
	struct json_object *object = NULL;
	char deep[201];
	struct error err;

	memset(deep, '[', 100);
	memset(deep + 100, ']', 100);
	deep[200] = '\0';
	assert_int_equal(json_parse(deep, 200, &object, &err), -EINVAL);
	assert_int_equal(json_parse("{\"a\":\"\xff\xfe\"}", 10, &object, &err), -EINVAL);
	assert_int_equal(json_parse("{} x", 4, &object, &err), -EINVAL);
	assert_int_equal(json_parse("{", 1, &object, &err), -EINVAL);
	assert_int_equal(json_parse("", 0, &object, &err), -EINVAL);
	assert_int_equal(json_parse("3", 1, &object, &err), -EINVAL);
	assert_null(object);
}

static void json_with_blanks_after_it_is_json(void **state)
{
	_cleanup_json_ struct json_object *object = NULL;

	assert_int_equal(json_parse("{\"a\":1} \r\n", 10, &object, NULL), 0);
}

#define PLACED(annotation)                                                                                   \
	"{\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"default\",\"annotations\":{"           \
	"\"ration.dev/placement\":" annotation "}},\"spec\":" MAIN("{\"aliyun.com/gpu-mem\":3}") "}"

static void a_placement_that_matches_is_believed(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(
		read_pod(PLACED("\"{\\\"unit\\\":1024,\\\"containers\\\":{\\\"main\\\":[{\\\"uuid\\\":"
				"\\\"GPU-1\\\",\\\"units\\\":3}]}}\""),
			&facts, &err),
		0);
	assert_string_equal(err.text, "");
	assert_true(facts.has_placement);
	assert_string_equal(facts.placement.containers[0].gpus[0].uuid, "GPU-1");
	assert_int_equal(facts.placement.unit_mib, 1024);
}

static void a_placement_that_is_torn_or_another_pods_leaves_the_pod_unplaced(void **state)
{
	static const char *const values[] = {"\"\"", "\"{\"", "3", "[]", "{}", "\"[]\"", "\"{}\"",
		"\"{\\\"unit\\\":1024,\\\"containers\\\":{}}\"",
		"\"{\\\"unit\\\":1024,\\\"containers\\\":{\\\"main\\\":[{\\\"uuid\\\":\\\"G\\\","
		"\\\"units\\\":4}]}}\"",
		"\"{\\\"unit\\\":1024,\\\"containers\\\":{\\\"other\\\":[{\\\"uuid\\\":\\\"G\\\","
		"\\\"units\\\":3}]}}\"",
		"\"{\\\"unit\\\":1024,\\\"containers\\\":{\\\"main\\\":[{\\\"uuid\\\":\\\"G\\\","
		"\\\"units\\\":3}]}}\\u0000\""};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err;
		char text[1024];

		snprintf(text, sizeof(text), PLACED("%s"), values[i]);
		assert_int_equal(read_pod(text, &facts, &err), 0);
		assert_false(facts.has_placement);
		assert_non_null(strstr(err.text, "pod default/a: annotation ration.dev/placement: "));
		assert_int_equal(facts.request.units, 3);
	}
}

/* ---- label aliyun.com/gpu-count ---- */

#define LABELLED(label, more)                                                                                \
	"{\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"default\",\"labels\":{"                \
	"\"aliyun.com/gpu-count\":" label "}" more
#define SPEC_OF_8                                                                                            \
	",\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"main\",\"resources\":"                    \
	"{\"limits\":{\"aliyun.com/gpu-mem\":\"8\"}}}]}}"
#define ON_TWO_GPUS                                                                                          \
	",\"annotations\":{\"ration.dev/placement\":\"{\\\"unit\\\":1024,\\\"containers\\\":{\\\"main\\\":[" \
	"{\\\"uuid\\\":\\\"GPU-0\\\",\\\"units\\\":4},{\\\"uuid\\\":\\\"GPU-1\\\",\\\"units\\\":4}]}}\"}"

static void the_label_says_how_many_gpus(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod(LABELLED("\"2\"", "}") SPEC_OF_8, &facts, &err), 0);
	assert_int_equal(request_gpus(&facts.request), 2);
	assert_int_equal(facts.request.units, 8);
}

static void a_label_that_cannot_be_met_is_refused_and_the_units_still_count(void **state)
{
	static const char *const wrong[] = {LABELLED("\"3\"", "}") SPEC_OF_8,
		LABELLED("\"two\"", "}") SPEC_OF_8, LABELLED("2", "}") SPEC_OF_8,
		LABELLED("\"\"", "}") SPEC_OF_8, LABELLED("\"0\"", "}") SPEC_OF_8};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err;

		assert_int_equal(read_pod(wrong[i], &facts, &err), -EINVAL);
		assert_ptr_equal(strstr(err.text, "pod default/a: "), err.text);
		assert_non_null(strstr(err.text, "aliyun.com/gpu-count"));
		assert_int_equal(facts.request.units, 8);
		assert_int_equal(request_gpus(&facts.request), 1);
		assert_false(facts.has_placement);
	}
}

static void a_label_without_gpu_mem_is_nobodys_business(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(read_pod(LABELLED("\"two\"", "},\"spec\":{}}"), &facts, &err), 0);
	assert_string_equal(err.text, "");
	assert_true(request_is_empty(&facts.request));
}

/* Labels of a running pod can be changed by its user; its GPUs cannot. */
static void the_placement_of_a_bound_pod_says_how_many_gpus_whatever_its_label(void **state)
{
	static const char *const texts[] = {LABELLED("\"2\"", ON_TWO_GPUS "}") SPEC_OF_8,
		LABELLED("\"4\"", ON_TWO_GPUS "}") SPEC_OF_8, LABELLED("\"1\"", ON_TWO_GPUS "}") SPEC_OF_8,
		LABELLED("\"3\"", ON_TWO_GPUS "}") SPEC_OF_8, LABELLED("\"two\"", ON_TWO_GPUS "}") SPEC_OF_8};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err;

		assert_int_equal(read_pod(texts[i], &facts, &err), 0);
		assert_string_equal(err.text, "");
		assert_true(facts.has_placement);
		assert_int_equal(request_gpus(&facts.request), 2);
	}
}

static void a_waiting_pod_is_on_as_many_gpus_as_its_label_says(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(
		read_pod(LABELLED("\"4\"", ON_TWO_GPUS
				 "},\"spec\":{\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{"
				 "\"aliyun.com/gpu-mem\":\"8\"}}}]}}"),
			&facts, &err),
		0);
	assert_int_equal(request_gpus(&facts.request), 4);
	assert_false(facts.has_placement);
}

static void parts_that_are_not_equal_are_no_placement(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	struct error err;

	assert_int_equal(
		read_pod(
			LABELLED("\"2\"",
				",\"annotations\":{\"ration.dev/placement\":\"{\\\"unit\\\":1024,\\\"containers\\\":{"
				"\\\"main\\\":[{\\\"uuid\\\":\\\"GPU-0\\\",\\\"units\\\":5},{\\\"uuid\\\":"
				"\\\"GPU-1\\\",\\\"units\\\":3}]}}\"}}") SPEC_OF_8,
			&facts, &err),
		0);
	assert_false(facts.has_placement);
	assert_int_not_equal(err.text[0], '\0');
	assert_int_equal(request_gpus(&facts.request), 2);
}

/* They become parts of paths: ".." would be another path, a line end another header. */
#define STAMPED(stamp)                                                                                       \
	"{\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"default\",\"annotations\":{"           \
	"\"ration.dev/unit\":" stamp "}},\"spec\":" MAIN("{\"aliyun.com/gpu-mem\":3}") "}"

static void the_stamp_says_in_which_unit_a_pod_counts(void **state)
{
	static const struct {
		const char *text;
		uint32_t unit_mib;
		bool understood;
	} pods[] = {{STAMPED("\"128\""), 128, true}, {STAMPED("\"1024\""), 1024, true},
		{STAMPED("\"0\""), UNIT_MIB_NONE, false}, {STAMPED("\"\""), UNIT_MIB_NONE, false},
		{STAMPED("128"), UNIT_MIB_NONE, false}, {STAMPED("\"128MiB\""), UNIT_MIB_NONE, false},
		{STAMPED("\"4294967295\""), UNIT_MIB_NONE, false}};

	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		_cleanup_pod_facts_ struct pod_facts facts = {0};
		struct error err = {""};

		assert_int_equal(read_pod(pods[i].text, &facts, &err), 0);
		assert_int_equal(facts.request.unit_mib, pods[i].unit_mib);
		assert_int_equal(facts.request.units, 3);
		assert_int_equal(*err.text == '\0', pods[i].understood);
	}
}

static void a_pod_without_a_stamp_has_no_unit_of_its_own(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	struct error err;

	assert_int_equal(read_pod(MEM("3"), &facts, &err), 0);
	assert_int_equal(facts.request.unit_mib, 0);
}

static void a_name_that_the_api_server_would_not_allow_is_refused(void **state)
{
	static const char *const names[] = {
		"..", ".", "a/b", "a?b", "a#b", "a b", "a%2fb", "a\\r\\nb", "A", "-a", ".a", "a\xc3\xa4"};
	char text[512], longest[255];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(text, sizeof(text),
			"{\"metadata\":{\"uid\":\"u\",\"name\":\"%s\",\"namespace\":\"d\"}}", names[i]);
		assert_refused(text, "its name or namespace is not valid");
		snprintf(text, sizeof(text),
			"{\"metadata\":{\"uid\":\"u\",\"name\":\"a\",\"namespace\":\"%s\"}}", names[i]);
		assert_refused(text, "its name or namespace is not valid");
	}
	memset(longest, 'x', 254);
	longest[254] = '\0';
	assert_false(object_name_is_valid(longest));
	longest[253] = '\0';
	assert_true(object_name_is_valid(longest));
	assert_true(object_name_is_valid("0.a-b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pod_facts_are_read_from_a_running_pod),
		cmocka_unit_test(pod_with_devices_may_run_before_its_status_says_so),
		cmocka_unit_test(what_preemption_needs_to_know_is_read),
		cmocka_unit_test(what_a_pod_does_not_say_reads_as_empty),
		cmocka_unit_test(phases_succeeded_and_failed_are_the_end_and_unknown_is_not),
		cmocka_unit_test(a_deletion_timestamp_marks_the_pod_and_null_does_not),
		cmocka_unit_test(gpu_mem_is_read_from_strings_and_from_numbers),
		cmocka_unit_test(a_float_counts_if_it_is_whole),
		cmocka_unit_test(nothing_and_zero_ask_for_nothing),
		cmocka_unit_test(impossible_amounts_are_refused_by_container_and_name),
		cmocka_unit_test(a_bound_pod_counts_though_its_percentage_is_none),
		cmocka_unit_test(gpu_count_is_nothing_that_a_container_can_ask_for),
		cmocka_unit_test(huge_amounts_are_more_than_anybody_has),
		cmocka_unit_test(an_amount_of_another_type_is_refused),
		cmocka_unit_test(init_containers_and_sidecars_keep_kind_order_and_index),
		cmocka_unit_test(a_pod_without_uid_name_or_namespace_is_refused),
		cmocka_unit_test(a_refused_pod_still_says_who_and_where_it_is),
		cmocka_unit_test(wrong_types_at_any_level_are_survived),
		cmocka_unit_test(a_list_of_containers_that_is_none_is_refused_not_ignored),
		cmocka_unit_test(a_gpu_container_without_a_name_is_refused),
		cmocka_unit_test(names_of_megabytes_read_as_none),
		cmocka_unit_test(of_keys_that_occur_twice_the_last_counts),
		cmocka_unit_test(documents_that_are_too_deep_or_no_utf8_are_no_json),
		cmocka_unit_test(json_with_blanks_after_it_is_json),
		cmocka_unit_test(the_stamp_says_in_which_unit_a_pod_counts),
		cmocka_unit_test(a_pod_without_a_stamp_has_no_unit_of_its_own),
		cmocka_unit_test(a_name_that_the_api_server_would_not_allow_is_refused),
		cmocka_unit_test(a_placement_that_matches_is_believed),
		cmocka_unit_test(a_placement_that_is_torn_or_another_pods_leaves_the_pod_unplaced),
		cmocka_unit_test(the_label_says_how_many_gpus),
		cmocka_unit_test(a_label_that_cannot_be_met_is_refused_and_the_units_still_count),
		cmocka_unit_test(a_label_without_gpu_mem_is_nobodys_business),
		cmocka_unit_test(the_placement_of_a_bound_pod_says_how_many_gpus_whatever_its_label),
		cmocka_unit_test(a_waiting_pod_is_on_as_many_gpus_as_its_label_says),
		cmocka_unit_test(parts_that_are_not_equal_are_no_placement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
