/* src/plan: what a pod requests, kube-scheduler's filters, and what a manifest makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <errno.h>
#include <stdbool.h>
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
#include "kube/host.h"
#include "kube/json.h"
#include "plan/kube-nodes.h"
#include "plan/manifest.h"

static struct json_object *parse(const char *text)
{
	struct json_object *object = NULL;

	assert_int_equal(json_parse(text, strlen(text), &object, NULL), 0);
	return object;
}

#define CPU(n) "\"resources\":{\"requests\":{\"cpu\":\"" n "\"}}"
#define SIDECAR(n) "{\"restartPolicy\":\"Always\"," CPU(n) "}"
#define INIT(n) "{" CPU(n) "}"

static void assert_cpu(const char *spec, int64_t milli)
{
	_cleanup_quantities_ struct quantities requests = {0};
	_cleanup_json_ struct json_object *pod = NULL;
	char text[2048];

	snprintf(text, sizeof(text), "{\"spec\":%s}", spec);
	pod = parse(text);
	assert_int_equal(quantities_of_pod(pod, &requests), 0);
	assert_int_equal(quantities_get(&requests, "cpu"), milli);
}

static void a_pod_requests_what_its_containers_need_at_the_same_time(void **state)
{
	assert_cpu("{\"containers\":[{" CPU("1") "},{" CPU("500m") "}]}", 1500);
	/* an init container runs before the others: the larger of both */
	assert_cpu(
		"{\"containers\":[{" CPU("1") "}],\"initContainers\":[" INIT("3") "," INIT("2") "]}", 3000);
	assert_cpu("{\"containers\":[{" CPU("4") "}],\"initContainers\":[" INIT("3") "]}", 4000);
	/* a sidecar runs beside all that follow it: 1 + 3 before the containers, 1 + 2 + 4 with them */
	assert_cpu("{\"containers\":[{" CPU("4") "}],\"initContainers\":[" SIDECAR("1") "," INIT(
			   "3") "," SIDECAR("2") "]}",
		7000);
	assert_cpu("{\"containers\":[{" CPU("1") "}],\"initContainers\":[" SIDECAR("1") "," INIT("3") "]}",
		4000);
	/* an init container before the sidecar does not run beside it */
	assert_cpu("{\"containers\":[{" CPU("1") "}],\"initContainers\":[" INIT("3") "," SIDECAR("1") "]}",
		3000);
	/* requests of the pod as a whole replace those of its containers; the overhead comes on top */
	assert_cpu("{\"containers\":[{" CPU("1") "}]," CPU("3") ",\"overhead\":{\"cpu\":\"100m\"}}", 3100);
	/* a limit without a request is the request */
	assert_cpu("{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"2\"}}}]}", 2000);
	assert_cpu(
		"{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"2\"},\"requests\":{\"cpu\":\"1\"}}}]}",
		1000);
}

#define NODE(more)                                                                                           \
	"{\"metadata\":{\"name\":\"n\",\"labels\":{\"zone\":\"a\",\"rank\":\"5\"}},\"spec\":{" more          \
	"},\"status\":{\"allocatable\":{\"cpu\":\"2\",\"pods\":\"3\"}}}"

/* NULL: the node admits the pod. */
static void assert_admits(const char *node_text, const char *spec, const char *expected)
{
	_cleanup_json_ struct json_object *node = parse(node_text), *pod = NULL;
	char text[2048], reason[KUBE_REASON_SIZE] = "";
	struct kube_nodes nodes;

	snprintf(text, sizeof(text), "{\"spec\":{%s}}", spec);
	pod = parse(text);
	kube_nodes_init(&nodes);
	assert_int_equal(kube_nodes_see_node(&nodes, node), 0);
	assert_int_equal(kube_node_admits(kube_nodes_find(&nodes, "n"), pod, reason), expected == NULL);
	assert_string_equal(reason, expected ? expected : "");
	kube_nodes_release(&nodes);
}

#define TAINT(effect) NODE("\"taints\":[{\"key\":\"k\",\"value\":\"v\",\"effect\":\"" effect "\"}]")
#define TOLERATES(toleration) "\"tolerations\":[{" toleration "}]"

static void taints_and_cordons_keep_pods_away_that_do_not_tolerate_them(void **state)
{
	static const char untolerated[] = "untolerated taint k=v:NoSchedule";

	assert_admits(TAINT("NoSchedule"), "", untolerated);
	assert_admits(TAINT("NoExecute"), "", "untolerated taint k=v:NoExecute");
	assert_admits(TAINT("PreferNoSchedule"), "", NULL);
	assert_admits(TAINT("NoSchedule"), TOLERATES("\"operator\":\"Exists\""), NULL);
	assert_admits(TAINT("NoSchedule"), TOLERATES("\"key\":\"k\",\"value\":\"v\""), NULL);
	assert_admits(TAINT("NoSchedule"), TOLERATES("\"key\":\"k\",\"value\":\"w\""), untolerated);
	assert_admits(TAINT("NoSchedule"), TOLERATES("\"key\":\"l\",\"operator\":\"Exists\""), untolerated);
	assert_admits(TAINT("NoSchedule"),
		TOLERATES("\"key\":\"k\",\"operator\":\"Exists\",\"effect\":\"NoExecute\""), untolerated);
	assert_admits(NODE("\"unschedulable\":true"), "", "node is unschedulable");
	assert_admits(NODE("\"unschedulable\":true"),
		TOLERATES("\"key\":\"node.kubernetes.io/unschedulable\",\"operator\":\"Exists\""), NULL);
}

#define TERM(requirement) "{\"matchExpressions\":[" requirement "]}"
#define AFFINITY(terms)                                                                                                     \
	"\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[" terms \
	"]}}}"
#define OF(operator, values) "{\"key\":\"rank\",\"operator\":\"" operator"\",\"values\":[" values "]}"

static void a_node_must_match_the_selector_and_one_term_of_the_affinity(void **state)
{
	static const char no[] = "node does not match the pod's node affinity or nodeSelector";

	assert_admits(NODE(""), "\"nodeSelector\":{\"zone\":\"a\"}", NULL);
	assert_admits(NODE(""), "\"nodeSelector\":{\"zone\":\"b\"}", no);
	assert_admits(NODE(""), "\"nodeSelector\":{\"other\":\"a\"}", no);
	assert_admits(NODE(""), AFFINITY(TERM(OF("Gt", "\"4\""))), NULL);
	assert_admits(NODE(""), AFFINITY(TERM(OF("Gt", "\"5\""))), no);
	assert_admits(NODE(""), AFFINITY(TERM(OF("Lt", "\"5\""))), no);
	assert_admits(NODE(""), AFFINITY(TERM(OF("Lt", "\"x\""))), no);
	assert_admits(NODE(""), AFFINITY(TERM(OF("In", "\"4\",\"5\""))), NULL);
	assert_admits(NODE(""), AFFINITY(TERM(OF("NotIn", "\"4\",\"5\""))), no);
	assert_admits(NODE(""), AFFINITY(TERM(OF("DoesNotExist", ""))), no);
	assert_admits(NODE(""), AFFINITY(TERM(OF("Exists", ""))), NULL);
	/* one of the terms suffices, and all requirements of a term must hold */
	assert_admits(NODE(""), AFFINITY(TERM(OF("Lt", "\"5\"")) "," TERM(OF("Gt", "\"4\""))), NULL);
	assert_admits(NODE(""), AFFINITY(TERM(OF("Gt", "\"4\"") "," OF("Lt", "\"5\""))), no);
	/* a term without requirements, and an affinity without terms, match no node */
	assert_admits(NODE(""), AFFINITY("{}"), no);
	assert_admits(NODE(""), AFFINITY(""), no);
	assert_admits(NODE(""),
		AFFINITY(
			"{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"n\"]}]}"),
		NULL);
	assert_admits(NODE(""),
		AFFINITY(
			"{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"m\"]}]}"),
		no);
}

static int see_pod(struct kube_nodes *nodes, const char *uid, const char *cpu, const char *phase)
{
	_cleanup_json_ struct json_object *pod = NULL;
	char text[512];

	snprintf(text, sizeof(text),
		"{\"metadata\":{\"uid\":\"%s\",\"namespace\":\"d\",\"name\":\"p\"},\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"%s\"}}}]},\"status\":{\"phase\":\"%s\"}}",
		uid, cpu, phase);
	pod = parse(text);
	return kube_nodes_see_pod(nodes, pod);
}

static void a_node_has_room_beside_the_pods_that_have_not_ended(void **state)
{
	_cleanup_json_ struct json_object *node = parse(NODE(""));
	_cleanup_quantities_ struct quantities one = {0}, nothing = {0};
	char reason[KUBE_REASON_SIZE];
	const char *resource;
	struct kube_nodes nodes;
	const struct kube_node *n;

	kube_nodes_init(&nodes);
	assert_int_equal(kube_nodes_see_node(&nodes, node), 0);
	assert_int_equal(quantities_set(&one, "cpu", 1000), 0);
	n = kube_nodes_find(&nodes, "n");
	assert_int_equal(see_pod(&nodes, "a", "1", "Running"), 0);
	assert_int_equal(see_pod(&nodes, "a", "1", "Running"), 0); /* the same again */
	assert_int_equal(see_pod(&nodes, "b", "2", "Succeeded"), 0);
	assert_true(kube_node_has_room(n, &one, reason, &resource));
	assert_int_equal(see_pod(&nodes, "c", "1m", "Pending"), 0);
	assert_false(kube_node_has_room(n, &one, reason, &resource));
	assert_string_equal(reason, "insufficient cpu");
	assert_string_equal(resource, "cpu");
	assert_true(kube_node_has_room(n, &nothing, reason, &resource));
	assert_int_equal(kube_nodes_place(&nodes, "n", &nothing), 0);
	assert_false(kube_node_has_room(n, &nothing, reason, &resource));
	assert_string_equal(reason, "too many pods on the node");
	assert_int_equal(kube_nodes_remove(&nodes, "n", &nothing), 0);
	assert_true(kube_node_has_room(n, &nothing, reason, &resource));
	assert_int_equal(kube_nodes_place(&nodes, "other", &nothing), -ENOENT);
	kube_nodes_release(&nodes);
}

static void the_pod_that_follows_one_has_nothing_that_ration_wrote(void **state)
{
	_cleanup_json_ struct json_object *
		pod = parse(
		       "{\"metadata\":{\"name\":\"p\",\"namespace\":\"d\",\"uid\":\"u\",\"annotations\":{"
		       "\"ration.dev/placement\":\"x\",\"ration.dev/unit\":\"128\",\"mine\":\"1\"}},"
		       "\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\"}]},\"status\":{\"phase\":\"Running\"}}"),
	       *next = plan_replacement(pod);

	assert_string_equal(json_text(next),
		"{\"metadata\":{\"name\":\"p\",\"namespace\":\"d\",\"annotations\":{\"ration.dev/unit\":\"128\",\"mine\":\"1\"}},"
		"\"spec\":{\"containers\":[{\"name\":\"c\"}]},\"status\":{\"phase\":\"Pending\"}}");
	assert_string_equal(json_member_string(json_member(pod, "spec"), "nodeName"), "n");
}

/* A list of up to three containers; of init containers, some are sidecars. Some have no requests. */
static void add_containers(struct strbuf *out, const char *name, bool init, unsigned *seed)
{
	strbuf_addf(out, "\"%s\":[", name);
	for (int i = 0, n = rand_r(seed) % 4; i < n; i++) {
		strbuf_addf(out, "%s{\"restartPolicy\":\"%s\"", i ? "," : "",
			init && rand_r(seed) % 2 ? "Always" : "OnFailure");
		if (rand_r(seed) % 5)
			strbuf_addf(out,
				",\"resources\":{\"requests\":{\"cpu\":\"%dm\",\"memory\":\"%dMi\"}}",
				rand_r(seed) % 9000, rand_r(seed) % 9000);
		strbuf_adds(out, "}");
	}
	strbuf_adds(out, "]");
}

/* The scheduler and the planner must not see two different pods. */
static void the_scheduler_counts_cpu_and_memory_of_a_pod_as_the_planner_does(void **state)
{
	unsigned seed = 7;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		_cleanup_quantities_ struct quantities requests = {0};
		_cleanup_json_ struct json_object *pod = NULL;
		_cleanup_strbuf_ struct strbuf text;
		struct host_amount host;

		strbuf_init(&text, 4096);
		strbuf_adds(&text, "{\"spec\":{");
		add_containers(&text, "containers", false, &seed);
		strbuf_adds(&text, ",");
		add_containers(&text, "initContainers", true, &seed);
		if (rand_r(&seed) % 4 == 0)
			strbuf_addf(&text, ",\"resources\":{\"requests\":{\"%s\":\"%dMi\"}}",
				rand_r(&seed) % 2 ? "memory" : "example.com/x", 1 + rand_r(&seed) % 9000);
		if (rand_r(&seed) % 3 == 0)
			strbuf_addf(&text, ",\"overhead\":{\"cpu\":\"%dm\"}", rand_r(&seed) % 300);
		strbuf_adds(&text, "}}");
		pod = parse(strbuf_cstr(&text));
		host = host_of_pod(pod);
		assert_int_equal(quantities_of_pod(pod, &requests), 0);
		assert_int_equal(quantities_get(&requests, "cpu"), host.cpu_milli);
		assert_int_equal(
			quantities_get(&requests, "memory"), ((int64_t)host.memory_mib << 20) * 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_requests_what_its_containers_need_at_the_same_time),
		cmocka_unit_test(the_scheduler_counts_cpu_and_memory_of_a_pod_as_the_planner_does),
		cmocka_unit_test(taints_and_cordons_keep_pods_away_that_do_not_tolerate_them),
		cmocka_unit_test(a_node_must_match_the_selector_and_one_term_of_the_affinity),
		cmocka_unit_test(a_node_has_room_beside_the_pods_that_have_not_ended),
		cmocka_unit_test(the_pod_that_follows_one_has_nothing_that_ration_wrote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
