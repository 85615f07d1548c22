#include "kube/pod-rights.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "kube/json.h"
#include "kube/names.h"

#define PATH_MAX_BYTES ((size_t)1 << 16)
#define RULE ": not in a pod with a claim of " DRA_DRIVER ": "

/* A lint test compares the list with that of the chart's template gpu-volumes.yaml. */
const char *const pod_rights_host_paths[] = {"run/ration/", "run/cdi/", "etc/cdi/", "var/lib/kubelet/",
	"dev/nvidia", "dev/dri/", "dev/char/", "proc/", "sys/", "usr/lib/x86_64-linux-gnu/",
	"usr/lib/aarch64-linux-gnu/", "usr/lib64/", "lib/x86_64-linux-gnu/", "lib/aarch64-linux-gnu/",
	"lib64/", "run/nvidia/", "run/containerd/", "var/lib/containerd/", "run/k3s/", "run/crio/",
	"var/lib/containers/", "run/docker.sock/", "run/cri-dockerd.sock/", NULL};

static const char *const capabilities[] = {
	"ALL", "BPF", "DAC_READ_SEARCH", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", NULL};

static bool is_true(struct json_object *object, const char *key)
{
	return json_object_get_boolean(json_member(object, key));
}

static const char *name_of(struct json_object *object)
{
	const char *name = json_member_string(object, "name");

	return name ? name : "?";
}

/* ---- paths ---- */

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* "/run//./ration" becomes "run/ration/", and "/" "". /var/run is /run: "/var/run/ration" becomes the same.
 */
static int normalize(const char *path, struct strbuf *ret_normal)
{
	strbuf_init(ret_normal, PATH_MAX_BYTES);
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len && !(len == 1 && *path == '.')) {
			strbuf_add(ret_normal, path, len);
			strbuf_adds(ret_normal, "/");
		}
		path += len + (path[len] == '/');
	}
	if (begins(strbuf_cstr(ret_normal), "var/run/"))
		strbuf_drop_front(ret_normal, strlen("var/"));
	return ret_normal->failed;
}

static bool goes_up(const char *path)
{
	for (const char *at = path; (at = strstr(at, "..")); at += 2)
		if ((at == path || at[-1] == '/') && (!at[2] || at[2] == '/'))
			return true;
	return false;
}

/* A path that cannot be read counts as one that reaches everything. */
static bool covers_grant(const char *path)
{
	_cleanup_strbuf_ struct strbuf normal;
	const char *text;

	if (normalize(path, &normal) < 0 || goes_up(path))
		return true;
	text = strbuf_cstr(&normal);
	return !*text || strcmp(text, "run/") == 0 || begins(text, "run/ration/");
}

/* At, above or below one of the list. Paths of the options have a slash at the start; "/" does not count. */
static bool meets(const char *path, const char *const *list)
{
	_cleanup_strbuf_ struct strbuf normal;

	if (normalize(path, &normal) < 0)
		return true;
	for (size_t i = 0; list && list[i]; i++) {
		_cleanup_strbuf_ struct strbuf other;
		bool is_prefix = strcmp(list[i], "dev/nvidia") == 0;
		const char *found;

		if (normalize(list[i], &other) < 0)
			return true;
		found = is_prefix ? list[i] : strbuf_cstr(&other);
		if (*found && (begins(strbuf_cstr(&normal), found) || begins(found, strbuf_cstr(&normal))))
			return true;
	}
	return false;
}

static int check_volumes(struct json_object *spec, const char *const *own, struct error *err)
{
	struct json_object *volumes = json_member(spec, "volumes");

	for (size_t i = 0; i < json_count(volumes); i++) {
		struct json_object *volume = json_item(volumes, i);
		const char *path = json_member_string(json_member(volume, "hostPath"), "path");

		if (path && (meets(path, pod_rights_host_paths) || meets(path, own)))
			return error_set(err, EPERM,
				"volume \"%.63s\": hostPath %.100s" RULE
				"it belongs to the node: devices, driver, container runtime, kubelet, /proc, /sys, /run/ration",
				name_of(volume), path);
	}
	return 0;
}

/* ---- containers ---- */

static int check_mount(struct json_object *container, const char *path, struct error *err)
{
	if (!path || !covers_grant(path))
		return 0;
	return error_set(err, EPERM,
		"container \"%.63s\": a mount at %.100s" RULE
		"its GPU grant is in /run/ration, so nothing may be mounted there, above or below, nor at a path with ..",
		name_of(container), path);
}

static int check_mounts(struct json_object *container, struct error *err)
{
	struct json_object *mounts = json_member(container, "volumeMounts");
	struct json_object *devices = json_member(container, "volumeDevices");
	int r = check_mount(container, json_member_string(container, "terminationMessagePath"), err);

	for (size_t i = 0; r == 0 && i < json_count(mounts); i++)
		r = check_mount(container, json_member_string(json_item(mounts, i), "mountPath"), err);
	for (size_t i = 0; r == 0 && i < json_count(devices); i++)
		r = check_mount(container, json_member_string(json_item(devices, i), "devicePath"), err);
	return r;
}

/* "cap_sys_admin" as SYS_ADMIN, which runtimes accept as well. */
static bool is_taken(const char *capability)
{
	if (strncasecmp(capability, "CAP_", 4) == 0)
		capability += 4;
	for (size_t i = 0; capabilities[i]; i++)
		if (strcasecmp(capability, capabilities[i]) == 0)
			return true;
	return false;
}

static int check_security(struct json_object *container, struct error *err)
{
	struct json_object *context = json_member(container, "securityContext");
	struct json_object *added = json_member(json_member(context, "capabilities"), "add");

	if (is_true(context, "privileged"))
		return error_set(err, EPERM,
			"container \"%.63s\": privileged: true" RULE "it would have all GPUs of the node",
			name_of(container));
	if (json_member_is(context, "procMount", "Unmasked"))
		return error_set(err, EPERM,
			"container \"%.63s\": procMount: Unmasked" RULE "it is a way past its limit",
			name_of(container));
	for (size_t i = 0; i < json_count(added); i++) {
		const char *capability = json_string(json_item(added, i));

		if (capability && is_taken(capability))
			return error_set(err, EPERM,
				"container \"%.63s\": capability %.40s" RULE "it is a way past its limit",
				name_of(container), capability);
	}
	return 0;
}

static int check_variables(struct json_object *container, struct error *err)
{
	struct json_object *env = json_member(container, "env");

	for (size_t i = 0; i < json_count(env); i++)
		if (json_member_is(json_item(env, i), "name", ENV_NVIDIA_VISIBLE))
			return error_set(err, EPERM,
				"container \"%.63s\": variable " ENV_NVIDIA_VISIBLE RULE
				"its GPU is chosen by the scheduler",
				name_of(container));
	return 0;
}

/* A privileged container without the claim beside it sees the GPUs as well. Only those with the claim have a
 * grant that a mount could cover; which these are is not in the spec where the claim stands for an extended
 * resource. */
static int check_containers(struct json_object *pod, const char *list, bool all_have_claim, struct error *err)
{
	struct json_object *containers = json_member(json_member(pod, "spec"), list);
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_count(containers); i++) {
		struct json_object *container = json_item(containers, i);
		bool has_claim = json_count(json_member(json_member(container, "resources"), "claims")) > 0;

		r = check_security(container, err);
		if (r == 0)
			r = check_variables(container, err);
		if (r == 0 && (all_have_claim || has_claim))
			r = check_mounts(container, err);
	}
	return r;
}

int pod_rights_check(struct json_object *pod, const char *const *own, struct error *err)
{
	struct json_object *spec = json_member(pod, "spec");
	bool extended = json_member(json_member(pod, "status"), "extendedResourceClaimStatus") != NULL;
	int r = 0;

	if (is_true(spec, "hostPID"))
		return error_set(
			err, EPERM, "hostPID: true" RULE "it would reach the processes of other pods");
	r = check_containers(pod, "containers", extended, err);
	if (r == 0)
		r = check_containers(pod, "initContainers", extended, err);
	if (r == 0)
		r = check_containers(pod, "ephemeralContainers", true, err);
	return r < 0 ? r : check_volumes(spec, own, err);
}
