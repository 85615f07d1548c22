/* Checks of a node: files of the kubelet and of the agent. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/elf-functions.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "kube/json.h"

#define KUBELET "/var/lib/kubelet"
#define PLUGINS KUBELET "/device-plugins"
#define GRANTS "/run/ration/grants"
#define SHIM "/run/ration/shim"
#define CDI "/var/run/cdi"

static bool is_node(struct machine *machine)
{
	if (machine_has(machine, KUBELET))
		return true;
	report_unknown(machine->report, "there is no " KUBELET ": is this a node, and are you root?");
	return false;
}

void check_cpu_manager(struct machine *machine)
{
	_cleanup_free_ char *text = machine_read(machine, KUBELET "/cpu_manager_state");
	_cleanup_json_ struct json_object *state = NULL;

	if (!is_node(machine) || !text)
		return;
	if (json_parse(text, strlen(text), &state, NULL) < 0) {
		report_unknown(machine->report, KUBELET "/cpu_manager_state is not JSON");
		return;
	}
	if (strcmp(json_text_of(state, "policyName"), "static") != 0)
		return;
	if (!machine->config)
		report_unknown(machine->report, machine->problem);
	else if (machine_does_cdi(machine))
		report_find(machine->report, SEVERITY_NOTE, KUBELET "/cpu_manager_state", "",
			"the CPU manager's policy is static, which ACK's documents forbid; because of CDI, containers keep their GPUs nevertheless");
	else
		report_find(machine->report, SEVERITY_WARNING, KUBELET "/cpu_manager_state",
			"enable CDI in the container runtime, or set cpuManagerPolicy: none, remove this file and restart the kubelet",
			"the CPU manager's policy is static, and without CDI a rewritten cgroup can take the GPUs from a container");
}

/* ---- device plugins ---- */

static void take_socket(struct machine *machine, const char *name)
{
	static const char *const foreign[] = {"nvidia", "gpushare", "hami", "vgpu", "volcano"};

	if (strncmp(name, "ration-", 7) == 0 || !strstr(name, ".sock"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (strcasestr(name, foreign[i])) {
			char where[PATH_MAX];

			snprintf(where, sizeof(where), PLUGINS "/%s", name);
			report_find(machine->report, SEVERITY_ERROR, where,
				"kubectl get pods -A -o wide | grep -i device-plugin  # keep it off this node, then remove the socket",
				"another device plugin offers the same GPUs");
			return;
		}
}

void check_device_plugins(struct machine *machine)
{
	if (!is_node(machine))
		return;
	if (!machine_each(machine, PLUGINS, take_socket))
		report_unknown(machine->report, PLUGINS " cannot be read (are you root?)");
	else if (!machine_has(machine, PLUGINS "/kubelet.sock"))
		report_find(machine->report, SEVERITY_ERROR, PLUGINS "/kubelet.sock",
			"systemctl restart kubelet  # it creates this socket only when it starts",
			"it is missing: a ration-agent that starts now cannot register at the kubelet, and no GPU pods come to this node");
}

/* ---- the shim ---- */

/* Functions of the driver's library that this version of the shim does not know. */
static void compare_functions(struct machine *machine, const char *version, bool cuda)
{
	const char *name = cuda ? "libcuda.so" : "libnvidia-ml.so";
	char driver[PATH_MAX], shim[PATH_MAX], path[PATH_MAX];
	struct elf_difference unknown;

	snprintf(path, sizeof(path), "%s/%s.%s", machine->library_dir, name,
		cuda ? machine->cuda : machine->nvml);
	machine_path(machine, path, driver, sizeof(driver));
	snprintf(path, sizeof(path), SHIM "/%.255s/%s.1", version, name);
	machine_path(machine, path, shim, sizeof(shim));
	if (elf_compare(driver, shim, cuda ? "cu" : "nvml", cuda ? "cudbg" : NULL, &unknown) < 0)
		return;
	if (unknown.count)
		report_find(machine->report, SEVERITY_WARNING, path, "",
			"the driver %s has %zu functions of %s that this version of ration does not know and does not limit: %.400s; upgrade ration",
			machine->cuda, unknown.count, name, unknown.names);
}

static void take_shim(struct machine *machine, const char *version)
{
	static const char *const files[] = {"libcuda.so.1", "libnvidia-ml.so.1", "preload"};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), SHIM "/%s/%s", version, files[i]);
		if (!machine_has(machine, path))
			report_find(machine->report, SEVERITY_ERROR, path,
				"kubectl -n kube-system delete pod -l name=gpushare-device-plugin-ds --field-selector spec.nodeName=$(hostname)",
				"this file is missing: containers of isolated modes do not start");
	}
	if (machine->library_dir[0]) {
		compare_functions(machine, version, true);
		compare_functions(machine, version, false);
	}
}

/* The options of the mount at SHIM, in the text of mountinfo: "36 35 98:0 / /run/ration/shim rw,nosuid -
 * tmpfs". */
static bool is_noexec(const char *mounts)
{
	const char *mount = strstr(mounts, " " SHIM " ");
	const char *options = mount ? mount + strlen(" " SHIM " ") : "";
	size_t len = strcspn(options, " \n");

	return memmem(options, len, "noexec", 6) != NULL;
}

void check_shim(struct machine *machine)
{
	_cleanup_free_ char *mounts = machine_read(machine, "/proc/1/mountinfo");

	if (!machine_has(machine, "/run/ration")) {
		report_find(machine->report, SEVERITY_WARNING, "/run/ration",
			"kubectl -n kube-system get pods -l name=gpushare-device-plugin-ds -o wide",
			"no ration-agent has served on this node since it was started");
		return;
	}
	if (!machine_each(machine, SHIM, take_shim))
		report_find(machine->report, SEVERITY_NOTE, SHIM, "",
			"the folder is empty: no isolated mode was in force since this node was started");
	if (!mounts)
		report_unknown(machine->report, "/proc/1/mountinfo cannot be read (are you root?)");
	else if (is_noexec(mounts))
		report_find(machine->report, SEVERITY_ERROR, SHIM, "mount -o remount,exec " SHIM,
			"it is mounted with noexec: containers of isolated modes do not start");
}

/* ---- what is left of pods that are gone ---- */

static bool has_pod(const struct machine *machine, const char *uid)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), KUBELET "/pods/%s", uid);
	return machine_has(machine, path);
}

/* The text becomes part of a command, so it must contain only the characters of uids. */
static bool is_uid(const char *text)
{
	return *text && strspn(text, "0123456789abcdef-") == strlen(text);
}

static void take_grant(struct machine *machine, const char *uid)
{
	char where[400], mend[900];

	if (!is_uid(uid) || has_pod(machine, uid))
		return;
	snprintf(where, sizeof(where), GRANTS "/%.255s", uid);
	snprintf(mend, sizeof(mend), "umount %s; rm -r %s", where, where);
	report_find(machine->report, SEVERITY_WARNING, where, mend,
		"the grants of a pod that the kubelet does not have");
}

static void take_cdi(struct machine *machine, const char *name)
{
	char where[400], mend[500], uid[64];
	int end = 0;

	if (sscanf(name, "ration-%63[0-9a-f-].json%n", uid, &end) != 1 || !end || name[end] ||
		has_pod(machine, uid))
		return;
	snprintf(where, sizeof(where), CDI "/%.255s", name);
	snprintf(mend, sizeof(mend), "rm %s", where);
	report_find(machine->report, SEVERITY_WARNING, where, mend,
		"the CDI file of a pod that the kubelet does not have");
}

void check_leftovers(struct machine *machine)
{
	if (!is_node(machine))
		return;
	machine_each(machine, GRANTS, take_grant);
	machine_each(machine, CDI, take_cdi);
}
