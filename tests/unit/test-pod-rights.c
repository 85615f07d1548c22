/* Rights of pods with which the limit of a ResourceClaim would not hold. */
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
#include "kube/json.h"
#include "kube/pod-rights.h"

#define CLAIM "\"resources\":{\"claims\":[{\"name\":\"gpu\"}]}"

static int check(const char *spec, const char *const *own, struct error *err)
{
	_cleanup_json_ struct json_object *pod = NULL;
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "{\"spec\":{%s},\"status\":{}}", spec) > 0);
	assert_int_equal(json_parse(text, strlen(text), &pod, NULL), 0);
	return pod_rights_check(pod, own, err);
}

static void assert_refused(const char *spec, const char *why)
{
	struct error err = {""};

	assert_int_equal(check(spec, NULL, &err), -EPERM);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void assert_allowed(const char *spec)
{
	struct error err = {""};

	if (check(spec, NULL, &err) != 0)
		fail_msg("%s: %s", spec, err.text);
}

static void container_with_rights_of_the_node_is_named(void **state)
{
	static const char *const contexts[][2] = {
		{"\"privileged\":true", "container \"b\": privileged: true"},
		{"\"procMount\":\"Unmasked\"", "container \"b\": procMount: Unmasked"},
		{"\"capabilities\":{\"add\":[\"NET_ADMIN\",\"SYS_ADMIN\"]}",
			"container \"b\": capability SYS_ADMIN"},
		{"\"capabilities\":{\"add\":[\"cap_bpf\"]}", "container \"b\": capability cap_bpf"},
		{"\"capabilities\":{\"add\":[\"ALL\"]}", "container \"b\": capability ALL"},
	};
	static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};
	char spec[400];

	/* Also of a container without the claim, and of a debug container. */
	for (size_t i = 0; i < ARRAY_SIZE(contexts); i++)
		for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
			snprintf(spec, sizeof(spec),
				"\"%s\":[{\"name\":\"a\"," CLAIM
				"},{\"name\":\"b\",\"securityContext\":{%s}}]",
				lists[k], contexts[i][0]);
			assert_refused(spec, contexts[i][1]);
		}
	assert_refused("\"hostPID\":true", "hostPID: true");
	assert_refused(
		"\"containers\":[{\"name\":\"a\",\"env\":[{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"all\"}]}]",
		"container \"a\": variable NVIDIA_VISIBLE_DEVICES");
}

static void ordinary_rights_are_allowed(void **state)
{
	assert_allowed("\"containers\":[{\"name\":\"a\"," CLAIM "}]");
	assert_allowed(
		"\"hostPID\":false,\"hostNetwork\":true,\"shareProcessNamespace\":true,"
		"\"containers\":[{\"name\":\"a\"," CLAIM
		",\"securityContext\":{\"privileged\":false,\"procMount\":\"Default\",\"runAsUser\":0,"
		"\"capabilities\":{\"add\":[\"SYS_PTRACE\",\"NET_ADMIN\",\"SYS_ADMIN_\"],\"drop\":[\"ALL\"]}},"
		"\"env\":[{\"name\":\"NVIDIA_DRIVER_CAPABILITIES\",\"value\":\"all\"}]}]");
	assert_allowed("\"containers\":7,\"volumes\":{}");
}

static void mount_over_the_grant_is_refused_to_containers_that_have_one(void **state)
{
	static const char *const bad[] = {"/run/ration", "/run/ration/grant", "//var//run/./ration/x", "/",
		"/run", "/var/run/", "run", "/data/../run/ration", "/x/.."};
	static const char *const good[] = {
		"/run/rations", "/data", "/run/secrets", "/var/run/secrets/x", "/a..b", "/var/lib/run"};
	static const char *const members[][2] = {
		{"\"volumeMounts\":[{\"mountPath\":\"/data\"},{\"mountPath\":\"", "\"}]"},
		{"\"volumeDevices\":[{\"devicePath\":\"", "\"}]"}, {"\"terminationMessagePath\":\"", "\""}};
	char member[200], spec[400];

	for (size_t k = 0; k < ARRAY_SIZE(members); k++) {
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
			snprintf(member, sizeof(member), "%s%s%s", members[k][0], bad[i], members[k][1]);
			snprintf(
				spec, sizeof(spec), "\"containers\":[{\"name\":\"a\"," CLAIM ",%s}]", member);
			assert_refused(spec, "container \"a\": a mount at ");
			snprintf(spec, sizeof(spec), "\"containers\":[{\"name\":\"a\",%s}]", member);
			assert_allowed(spec);
		}
		for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
			snprintf(member, sizeof(member), "%s%s%s", members[k][0], good[i], members[k][1]);
			snprintf(
				spec, sizeof(spec), "\"containers\":[{\"name\":\"a\"," CLAIM ",%s}]", member);
			assert_allowed(spec);
		}
	}
}

static void volume_of_the_node_is_refused(void **state)
{
	static const char *const bad[] = {"/", "/dev", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-caps/",
		"/run", "//run/./ration", "/proc/1", "/sys", "/usr/lib", "/usr/lib64/x",
		"/var/lib/kubelet/pods", "/run/containerd/containerd.sock", "/var", "/var/run",
		"/var/run/k3s/containerd/containerd.sock", "/var/./run//crio"};
	static const char *const good[] = {
		"/data", "/dev/shm", "/dev/nv", "/runs", "/procs", "/usr/libx", "/dev/fuse", "/var/lib/data"};
	static const char *const own[] = {
		"/", "/opt/nvidia/", "/srv/runtime", "/run/mine", "/var/run/other/", NULL};
	struct error err = {""};
	char spec[200];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(spec, sizeof(spec),
			"\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}},{\"name\":\"w\",\"hostPath\":{\"path\":\"%s\"}}]",
			bad[i]);
		assert_refused(spec, "volume \"w\": hostPath ");
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		snprintf(spec, sizeof(spec), "\"volumes\":[{\"name\":\"w\",\"hostPath\":{\"path\":\"%s\"}}]",
			good[i]);
		if (check(spec, own, &err) != 0)
			fail_msg("%s: %s", good[i], err.text);
	}
	assert_int_equal(check("\"volumes\":[{\"name\":\"w\",\"hostPath\":{\"path\":\"/opt/nvidia/lib\"}}]",
				 own, &err),
		-EPERM);
	assert_int_equal(
		check("\"volumes\":[{\"name\":\"w\",\"hostPath\":{\"path\":\"/srv\"}}]", own, &err), -EPERM);
	assert_int_equal(
		check("\"volumes\":[{\"name\":\"w\",\"hostPath\":{\"path\":\"/srv/other\"}}]", own, &err), 0);
	/* /var/run is a link to /run. */
	assert_int_equal(check("\"volumes\":[{\"name\":\"w\",\"hostPath\":{\"path\":\"/var/run/mine/x\"}}]",
				 own, &err),
		-EPERM);
	assert_int_equal(
		check("\"volumes\":[{\"name\":\"w\",\"hostPath\":{\"path\":\"/run/other\"}}]", own, &err),
		-EPERM);
}

/* Which containers have the claim is in no spec then. */
static void claim_of_an_extended_resource_is_every_containers(void **state)
{
	_cleanup_json_ struct json_object *pod = NULL;
	static const char text[] =
		"{\"spec\":{\"containers\":[{\"name\":\"a\",\"volumeMounts\":[{\"mountPath\":\"/run\"}]}]},"
		"\"status\":{\"extendedResourceClaimStatus\":{\"resourceClaimName\":\"x\"}}}";

	assert_int_equal(json_parse(text, strlen(text), &pod, NULL), 0);
	assert_int_equal(pod_rights_check(pod, NULL, NULL), -EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(container_with_rights_of_the_node_is_named),
		cmocka_unit_test(ordinary_rights_are_allowed),
		cmocka_unit_test(mount_over_the_grant_is_refused_to_containers_that_have_one),
		cmocka_unit_test(volume_of_the_node_is_refused),
		cmocka_unit_test(claim_of_an_extended_resource_is_every_containers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
