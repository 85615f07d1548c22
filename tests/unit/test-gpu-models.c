#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "kube/gpu-models.h"
#include "kube/json.h"

#define NAME "\"aliyun.accelerator/nvidia_name\""
#define PRODUCT "\"nvidia.com/gpu.product\""
#define IN(key, values) "{\"key\":" key ",\"operator\":\"In\",\"values\":[" values "]}"
#define AFFINITY(terms)                                                                                      \
	"\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":"                \
	"{\"nodeSelectorTerms\":[" terms "]}}}"
#define TERM(requirements) "{\"matchExpressions\":[" requirements "]}"

static void assert_names(
	int (*names_of)(struct json_object *object, char **ret_names), const char *text, const char *want)
{
	struct json_object *object = NULL;
	char *names;

	assert_int_equal(json_parse(text, strlen(text), &object, NULL), 0);
	assert_int_equal(names_of(object, &names), 0);
	if (want)
		assert_string_equal(names ? names : "(none)", want);
	else
		assert_null(names);
	free(names);
	json_object_put(object);
}

static void assert_pod(const char *spec, const char *want)
{
	char text[9000];

	snprintf(text, sizeof(text), "{\"spec\":{%s}}", spec);
	assert_names(gpu_models_of_pod, text, want);
}

static void assert_node(const char *labels, const char *want)
{
	char text[2048];

	snprintf(text, sizeof(text), "{\"metadata\":{\"labels\":{%s}}}", labels);
	assert_names(gpu_models_of_node, text, want);
}

static void a_node_has_the_values_of_both_labels(void **state)
{
	assert_node("", NULL);
	assert_node(NAME ":\"Tesla-T4\"", "Tesla-T4");
	assert_node(PRODUCT ":\"Tesla-T4\"," NAME ":\"Tesla-T4\"", "Tesla-T4");
	assert_node(NAME ":\"NVIDIA-A10\"," PRODUCT ":\"A10-SHARED\"", "A10-SHARED,NVIDIA-A10");
	assert_node(NAME ":\"with,comma\"," PRODUCT ":7", NULL);
	assert_node(NAME ":\"\"", NULL);
}

static void a_pod_names_models_by_its_node_selector_or_affinity(void **state)
{
	assert_pod("", NULL);
	assert_pod("\"nodeSelector\":{\"disk\":\"ssd\"}", NULL);
	assert_pod("\"nodeSelector\":{" NAME ":\"T4\"}", "T4");
	assert_pod("\"nodeSelector\":{" PRODUCT ":\"T4\"}", "T4");
	assert_pod(AFFINITY(TERM(IN(NAME, "\"V100\",\"T4\",\"A10\",\"T4\""))), "A10,T4,V100");
	assert_pod(AFFINITY(TERM(IN(NAME, "\"V100\"")) "," TERM(IN(NAME, "\"T4\""))), "T4,V100");
	assert_pod(AFFINITY(TERM(IN("\"zone\"", "\"z\"") "," IN(PRODUCT, "\"T4\""))), "T4");
	/* kube-scheduler wants both. */
	assert_pod("\"nodeSelector\":{" NAME ":\"T4\"}," AFFINITY(TERM(IN(NAME, "\"T4\",\"V100\""))), "T4");
}

static void a_pod_that_may_use_any_model_names_none(void **state)
{
	static const char not_in[] = "{\"key\":" NAME ",\"operator\":\"NotIn\",\"values\":[\"T4\"]}";
	char spec[1024];

	/* Each term alone suffices. */
	assert_pod(AFFINITY(TERM(IN(NAME, "\"T4\"")) "," TERM(IN("\"zone\"", "\"z\""))), NULL);
	assert_pod(AFFINITY(""), NULL);
	snprintf(spec, sizeof(spec), AFFINITY(TERM("%s")), not_in);
	assert_pod(spec, NULL);
	assert_pod("\"affinity\":{\"nodeAffinity\":{\"preferredDuringSchedulingIgnoredDuringExecution\":"
		   "[{\"weight\":1,\"preference\":" TERM(IN(NAME, "\"T4\"")) "}]}}",
		NULL);
}

static void what_no_api_server_accepts_names_none(void **state)
{
	char values[4096] = "", spec[8192];

	assert_pod("\"nodeSelector\":[],\"affinity\":7", NULL);
	assert_pod("\"nodeSelector\":{" NAME ":7}", NULL);
	assert_pod("\"nodeSelector\":{" NAME ":\"a\\nb\"}", NULL);
	assert_pod(AFFINITY("7"), NULL);
	assert_pod(AFFINITY(TERM("{\"key\":" NAME ",\"operator\":\"In\",\"values\":7}")), NULL);
	assert_pod(AFFINITY(TERM("{\"key\":" NAME ",\"operator\":\"In\",\"values\":[\"T4\",{}]}")), NULL);
	assert_pod(AFFINITY(TERM("{\"key\":7,\"operator\":\"In\",\"values\":[\"T4\"]}")), NULL);
	for (int i = 0; i < 33; i++)
		snprintf(values + strlen(values), sizeof(values) - strlen(values), "%s\"m%02d\"",
			i ? "," : "", i);
	snprintf(spec, sizeof(spec), AFFINITY(TERM(IN(NAME, "%s"))), values);
	assert_pod(spec, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_has_the_values_of_both_labels),
		cmocka_unit_test(a_pod_names_models_by_its_node_selector_or_affinity),
		cmocka_unit_test(a_pod_that_may_use_any_model_names_none),
		cmocka_unit_test(what_no_api_server_accepts_names_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
