#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "kube/host.h"
#include "kube/json.h"

static struct host_amount pod_of(const char *spec)
{
	struct json_object *pod = NULL;
	struct host_amount host;
	char text[2048];

	snprintf(text, sizeof(text), "{\"spec\":%s}", spec);
	assert_int_equal(json_parse(text, strlen(text), &pod, NULL), 0);
	host = host_of_pod(pod);
	json_object_put(pod);
	return host;
}

#define ASKS(cpu, memory) "{\"resources\":{\"requests\":{\"cpu\":\"" cpu "\",\"memory\":\"" memory "\"}}}"
#define SIDECAR(cpu, memory)                                                                                 \
	"{\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"" cpu                          \
	"\",\"memory\":\"" memory "\"}}}"

static void assert_host(const char *spec, uint32_t cpu_milli, uint32_t memory_mib)
{
	struct host_amount host = pod_of(spec);

	assert_int_equal(host.cpu_milli, cpu_milli);
	assert_int_equal(host.memory_mib, memory_mib);
}

static void containers_are_added_and_quantities_read(void **state)
{
	(void)state;
	assert_host("{\"containers\":[" ASKS("250m", "1Gi") "," ASKS("1.5", "512Mi") ",{}]}", 1750, 1536);
	assert_host("{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":2,\"memory\":1}}}]}", 2000, 1);
	assert_host("{\"containers\":[" ASKS("much", "-3") "]}", 0, 0);
	assert_host("{}", 0, 0);
}

/* As Kubernetes counts: an init container of 4 runs beside a sidecar of 1 only, the containers beside both
 * sidecars. */
static void init_containers_count_where_a_step_is_larger(void **state)
{
	(void)state;
	assert_host("{\"initContainers\":[" SIDECAR("1", "1Gi") "," ASKS("4", "1Gi") "," SIDECAR(
			    "1", "1Gi") "],\"containers\":[" ASKS("2", "4Gi") "]}",
		5000, 6144);
	assert_host("{\"initContainers\":[" ASKS("3", "1Gi") "],\"containers\":[" ASKS("2", "4Gi") "]}", 3000,
		4096);
}

static void the_pods_own_requests_and_its_overhead_count(void **state)
{
	(void)state;
	assert_host(
		"{\"resources\":{\"requests\":{\"cpu\":\"3\"}},\"overhead\":{\"cpu\":\"100m\",\"memory\":\"64Mi\"},"
		"\"containers\":[" ASKS("1", "1Gi") "]}",
		3100, 1088);
}

static void numbers_too_large_stay_at_the_top(void **state)
{
	(void)state;
	assert_host("{\"containers\":[" ASKS("1E", "1Ei") "," ASKS("1E", "1Ei") "]}", UINT32_MAX, UINT32_MAX);
}

static void a_node_has_what_it_can_allocate(void **state)
{
	const char *text = "{\"status\":{\"capacity\":{\"cpu\":\"96\",\"memory\":\"384Gi\"},"
			   "\"allocatable\":{\"cpu\":\"95500m\",\"memory\":\"393216000Ki\"}}}";
	struct json_object *node = NULL;
	struct host_amount host;

	(void)state;
	assert_int_equal(json_parse(text, strlen(text), &node, NULL), 0);
	host = host_of_node(node);
	json_object_put(node);
	assert_int_equal(host.cpu_milli, 95500);
	assert_int_equal(host.memory_mib, 384000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers_are_added_and_quantities_read),
		cmocka_unit_test(init_containers_count_where_a_step_is_larger),
		cmocka_unit_test(the_pods_own_requests_and_its_overhead_count),
		cmocka_unit_test(numbers_too_large_stay_at_the_top),
		cmocka_unit_test(a_node_has_what_it_can_allocate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
