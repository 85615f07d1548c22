#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <json-c/json.h>

#include "agent/node/pod-read.h"
#include "base/clock.h"
#include "node/pods.h"

static struct node_pod *set(
	struct node_pods *pods, const char *uid, const char *name, const char *generate_name)
{
	struct json_object *object;
	struct node_pod *pod;
	char text[400];

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"uid\":\"%s\",\"namespace\":\"default\",\"name\":\"%s\"%s%s%s},"
		"\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\"}]}}",
		uid, name, generate_name ? ",\"generateName\":\"" : "", generate_name ? generate_name : "",
		generate_name ? "\"" : "");
	object = json_tokener_parse(text);
	pod = pod_read(pods, object);
	json_object_put(object);
	assert_non_null(pod);
	return pod;
}

static void a_name_that_the_api_server_drew_does_not_return(void **state)
{
	struct node_pods pods;

	node_pods_init(&pods);
	assert_false(set(&pods, "1", "web-6d5f8b7c9-x2k4z", "web-6d5f8b7c9-")->shown.may_return);
	assert_true(set(&pods, "2", "bare", NULL)->shown.may_return);
	assert_true(set(&pods, "3", "db-0", "db-")->shown.may_return);	       /* a StatefulSet's */
	assert_true(set(&pods, "4", "db-24579", "db-")->shown.may_return);     /* of many */
	assert_true(set(&pods, "5", "db-aeiou", "db-")->shown.may_return);     /* not of the alphabet */
	assert_true(set(&pods, "6", "other-x2k4z", "web-")->shown.may_return); /* not of that start */
	node_pods_release(&pods);
}

static void the_pod_that_a_get_has_shown_has_the_name(void **state)
{
	struct node_pods pods;
	struct node_pod *new;

	node_pods_init(&pods);
	new = set(&pods, "new", "x-0", NULL);
	set(&pods, "old", "x-0", NULL); /* an older LIST arrives */
	node_pods_asked(&pods, new, 1);
	assert_ptr_equal(node_pods_by_name(&pods, "default", "x-0"), new);
	node_pods_remove(&pods, "old");
	assert_ptr_equal(node_pods_by_name(&pods, "default", "x-0"), new);
	node_pods_release(&pods);
}

static void a_pod_that_the_watch_never_shows_is_a_stray_after_ten_seconds(void **state)
{
	struct node_pods pods;
	struct node_pod *watched, *asked;

	node_pods_init(&pods);
	watched = set(&pods, "watched", "a", NULL);
	watched->watched = true;
	asked = set(&pods, "asked", "b", NULL);
	node_pods_asked(&pods, asked, NS_PER_S);
	assert_null(node_pods_stray(&pods, 11 * NS_PER_S));
	assert_ptr_equal(node_pods_stray(&pods, 11 * NS_PER_S + 1), asked);
	asked->watched = true;
	assert_null(node_pods_stray(&pods, 100 * NS_PER_S));
	node_pods_release(&pods);
}

/* How many of the pod's containers ask to be without a limit. */
static size_t asking(const char *containers, const char *init)
{
	struct json_object *object;
	struct node_pods pods;
	struct node_pod *pod;
	char text[2000];
	size_t n = 0;

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"uid\":\"u\",\"namespace\":\"default\",\"name\":\"p\"},"
		"\"spec\":{\"containers\":%s,\"initContainers\":%s}}",
		containers, init);
	object = json_tokener_parse(text);
	assert_non_null(object);
	node_pods_init(&pods);
	/* Twice: what it said before is forgotten. */
	pod_read(&pods, object);
	pod = pod_read(&pods, object);
	json_object_put(object);
	for (size_t i = 0; pod && i < pod->shown.n_containers; i++)
		n += pod->shown.containers[i].asks_for_no_limit;
	node_pods_release(&pods);
	return n;
}

#define DISABLE(value) "{\"name\":\"CGPU_DISABLE\"" value "}"
#define ONE(env) "[{\"name\":\"c\",\"env\":" env "}]"

static void no_limit_is_asked_for_by_value_only(void **state)
{
	static const struct {
		const char *containers, *init;
		size_t n;
	} cases[] = {
		{ONE("[" DISABLE(",\"value\":\"true\"") "]"), "[]", 1},
		{ONE("[" DISABLE(",\"value\":\"1\"") "]"), "[]", 1},
		{ONE("[" DISABLE(",\"value\":\"True\"") "]"), "[]", 0},
		{ONE("[" DISABLE(",\"value\":\"0\"") "]"), "[]", 0},
		{ONE("[" DISABLE("") "]"), "[]", 0},
		{ONE("[" DISABLE(",\"value\":1") "]"), "[]", 0},
		{ONE("[" DISABLE(",\"value\":true") "]"), "[]", 0},
		{ONE("[" DISABLE(",\"valueFrom\":{\"fieldRef\":{}}") "]"), "[]", 0},
		/* the last of a name is what the container gets */
		{ONE("[" DISABLE(",\"value\":\"1\"") "," DISABLE(",\"value\":\"0\"") "]"), "[]", 0},
		{ONE("[" DISABLE(",\"value\":\"0\"") "," DISABLE(",\"value\":\"1\"") "]"), "[]", 1},
		{ONE("[{\"name\":\"CGPU_DISABLED\",\"value\":\"true\"}]"), "[]", 0},
		{ONE("[{\"name\":7,\"value\":\"true\"},null,[],\"CGPU_DISABLE\"]"), "[]", 0},
		{ONE("{\"CGPU_DISABLE\":\"true\"}"), "[]", 0},
		{ONE("null"), "null", 0},
		{ONE("[" DISABLE(",\"value\":\"1\"") "]"),
			"[{\"name\":\"i\",\"env\":[" DISABLE(",\"value\":\"true\"") "]},{\"name\":\"j\"}]",
			2},
		{"[{\"env\":[" DISABLE(",\"value\":\"1\"") "]}]", "{}", 0}, /* no name */
		{"7", "\"x\"", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(asking(cases[i].containers, cases[i].init), cases[i].n);
}

/* As the pod looks after that many resizes: one container, which asks for 3. */
static struct node_pod *put(struct node_pods *pods, uint32_t units, uint32_t resizes)
{
	struct pod_facts facts;
	struct node_pod *pod;

	pod_facts_init(&facts);
	facts.uid = strdup("u");
	facts.namespace_ = strdup("default");
	facts.name = strdup("p");
	assert_int_equal(request_add(&facts.request, "c", CONTAINER_MAIN, 0, "3", NULL, NULL), 0);
	assert_int_equal(placement_add(&facts.placement, "c", "GPU-0", units, 0), 0);
	facts.has_placement = true;
	facts.placement.resizes = resizes;
	facts.request.containers[0].units = facts.request.units = units;
	pod = node_pods_put(pods, &facts);
	assert_non_null(pod);
	return pod;
}

static void an_older_answer_does_not_bring_an_older_size_back(void **state)
{
	struct node_pods pods;

	node_pods_init(&pods);
	put(&pods, 3, 0);
	assert_int_equal(put(&pods, 5, 2)->facts.request.units, 5);
	assert_int_equal(put(&pods, 3, 0)->facts.request.units, 5);
	assert_int_equal(put(&pods, 4, 1)->facts.placement.containers[0].gpus[0].units, 5);
	assert_int_equal(put(&pods, 1, 3)->facts.request.units, 1);
	node_pods_release(&pods);
}

static struct node_pod *read_text(struct node_pods *pods, const char *text)
{
	struct json_object *object = json_tokener_parse(text);
	struct node_pod *pod;

	assert_non_null(object);
	pod = pod_read(pods, object);
	assert_non_null(pod);
	json_object_put(object);
	return pod;
}

#define META "\"metadata\":{\"uid\":\"u\",\"namespace\":\"default\",\"name\":\"p\"%s}"
#define GPU "{\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}}"

static void what_an_earlier_object_showed_does_not_stay(void **state)
{
	struct node_pods pods;
	struct node_pod *pod;
	char text[3000];

	node_pods_init(&pods);
	snprintf(text, sizeof(text),
		"{" META
		",\"spec\":{\"hostPID\":true,\"resourceClaims\":[{\"name\":\"g\",\"resourceClaimName\":\"slice\"}],"
		"\"containers\":[{\"name\":\"c\",\"env\":[{\"name\":\"ALIYUN_COM_GPU_SCHD_WEIGHT\",\"value\":\"x\"}],"
		"\"resources\":{\"claims\":[{\"name\":\"g\"}],\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}}}]},"
		"\"status\":{\"containerStatuses\":[{\"name\":\"c\",\"state\":{\"running\":{}}}]}}",
		",\"annotations\":{\"kubernetes.io/config.source\":\"file\"},"
		"\"ownerReferences\":[{\"kind\":\"Job\",\"name\":\"j\",\"uid\":\"j\",\"controller\":true}]");
	pod = read_text(&pods, text);
	assert_true(pod->shown.is_static && pod->shown.owner && pod->shown.rights.text[0]);
	assert_true(pod->shown.runs == 1 && pod->shown.idle == 0);
	assert_true(pod->shown.n_power == 1 && pod->shown.power[0].weight_refused);
	assert_int_equal(pod->shown.n_claims, 1);
	pod->reported.rights = true;
	snprintf(text, sizeof(text),
		"{" META ",\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":" GPU "}]},"
		"\"status\":{\"containerStatuses\":[{\"name\":\"c\",\"state\":{\"waiting\":{}}}]}}",
		"");
	assert_ptr_equal(read_text(&pods, text), pod);
	assert_false(pod->shown.is_static || pod->shown.owner || pod->shown.rights.text[0]);
	assert_true(pod->shown.runs == 0 && pod->shown.idle == 1);
	assert_int_equal(pod->shown.n_power + pod->shown.n_claims, 0);
	assert_true(pod->reported.rights); /* what the agent did stays */
	node_pods_release(&pods);
}

/* The claim of an extended resource is in the status only. */
static void the_rights_of_a_pod_with_an_extended_resource_are_read(void **state)
{
	struct node_pods pods;
	char text[2000];

	node_pods_init(&pods);
	snprintf(text, sizeof(text),
		"{" META ",\"spec\":{\"hostPID\":true,\"containers\":[{\"name\":\"c\"}]},\"status\":{"
		"\"extendedResourceClaimStatus\":{\"resourceClaimName\":\"x\",\"requestMappings\":[{\"containerName\":\"c\"}]}}}",
		"");
	assert_true(read_text(&pods, text)->shown.rights.text[0]);
	snprintf(text, sizeof(text),
		"{" META ",\"spec\":{\"hostPID\":true,\"containers\":[{\"name\":\"c\"}]}}", "");
	assert_false(read_text(&pods, text)->shown.rights.text[0]);
	node_pods_release(&pods);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_that_the_api_server_drew_does_not_return),
		cmocka_unit_test(the_pod_that_a_get_has_shown_has_the_name),
		cmocka_unit_test(a_pod_that_the_watch_never_shows_is_a_stray_after_ten_seconds),
		cmocka_unit_test(no_limit_is_asked_for_by_value_only),
		cmocka_unit_test(an_older_answer_does_not_bring_an_older_size_back),
		cmocka_unit_test(what_an_earlier_object_showed_does_not_stay),
		cmocka_unit_test(the_rights_of_a_pod_with_an_extended_resource_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
