/* Checks of a node: which cgroup driver it has, and whether its runc loses devices by it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/device-links.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"

#define CONFIG "/etc/containerd/config.toml"
#define RUNC_K3S "/var/lib/rancher/k3s/data/current/bin/runc"

/* The value of a key at the top of kubelet's configuration: block YAML, as kubeadm writes it. */
static char *kubelet_value(const struct machine *machine, const char *key)
{
	_cleanup_free_ char *text = machine_read(machine, "/var/lib/kubelet/config.yaml");
	size_t len = strlen(key);

	for (const char *line = text; line && *line;) {
		if (strncmp(line, key, len) == 0 && line[len] == ':') {
			line += len + 1 + strspn(line + len + 1, " \"'");
			return strndup(line, strcspn(line, " \"'#\r\n"));
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return NULL;
}

/* What containerd's configuration says of the runtime that containers get unless they name another one. The
 * caller frees. */
static char *runtime_option(const struct machine *machine, const char *key)
{
	_cleanup_free_ char *by_default = machine_cri(machine, ".containerd", "default_runtime_name");
	char section[120];
	char *value;

	snprintf(section, sizeof(section), ".containerd.runtimes.%.*s.options",
		by_default && strlen(by_default) > 2 ? (int)strlen(by_default) - 2 : 4,
		by_default && strlen(by_default) > 2 ? by_default + 1 : "runc");
	value = machine_cri(machine, section, key);
	return value ? value : machine_cri(machine, ".containerd.runtimes.runc.options", key);
}

enum kubelet_driver { DRIVER_BY_KUBELET, DRIVER_BY_RUNTIME, DRIVER_IN_DOUBT };

/* Since 1.31 the kubelet takes the driver from a runtime that tells it, and reads its own configuration only
 * where the runtime does not (KubeletCgroupDriverFromCRI). containerd tells it since 2.0. */
static enum kubelet_driver whose_driver(const struct machine *machine)
{
	_cleanup_free_ char *said = NULL;
	unsigned int major = 0, minor = 0;

	if (machine->major == 1)
		return DRIVER_BY_KUBELET;
	said = machine_ask(machine, "kubelet --version");
	if (!said || sscanf(said, "Kubernetes v%u.%u", &major, &minor) != 2)
		return DRIVER_IN_DOUBT;
	if (major == 1 && minor < 31)
		return DRIVER_BY_KUBELET;
	return machine->major >= 2 ? DRIVER_BY_RUNTIME : DRIVER_IN_DOUBT;
}

static void compare_drivers(struct machine *machine)
{
	_cleanup_free_ char *kubelet = kubelet_value(machine, "cgroupDriver");
	_cleanup_free_ char *systemd = runtime_option(machine, "SystemdCgroup");

	if (!kubelet || !systemd || (strcmp(kubelet, "systemd") == 0) == (strcmp(systemd, "true") == 0))
		return;
	switch (whose_driver(machine)) {
	case DRIVER_BY_RUNTIME:
		return;
	case DRIVER_IN_DOUBT:
		report_unknown(machine->report,
			"the cgroup drivers of kubelet and containerd differ in their configurations, which is a fault only where the kubelet is older than 1.31 or containerd older than 2.0, and `kubelet --version` or `containerd --version` says nothing");
		return;
	case DRIVER_BY_KUBELET:
		report_find(machine->report, SEVERITY_WARNING, CONFIG,
			"set SystemdCgroup = true for runc there, and cgroupDriver: systemd in /var/lib/kubelet/config.yaml; then restart containerd and kubelet",
			"the kubelet's cgroup driver is %.30s and containerd's is %s", kubelet,
			strcmp(systemd, "true") == 0 ? "systemd" : "cgroupfs");
	}
}

void check_cgroups(struct machine *machine)
{
	bool v2 = machine_has(machine, "/sys/fs/cgroup/cgroup.controllers");

	if (!v2 && !machine_has(machine, "/sys/fs/cgroup/memory")) {
		report_unknown(machine->report, "neither cgroup v1 nor v2 is mounted at /sys/fs/cgroup");
		return;
	}
	if (!v2)
		report_find(machine->report, SEVERITY_NOTE, "/sys/fs/cgroup", "",
			"this node has cgroup v1, on which a kubelet of Kubernetes 1.36 starts only with failCgroupV1: false");
	compare_drivers(machine);
}

/* ---- runc ---- */

/* The path goes to a shell. NVIDIA's runtime calls the runc of the PATH. */
static bool is_path_of_runc(const char *path)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
	const char *slash = strrchr(path, '/');

	return path[0] == '/' && path[strspn(path, letters)] == '\0' && strcmp(slash + 1, "runc") == 0;
}

/* What runc says of itself; NULL if nothing. The caller frees. */
static char *runc_version(const struct machine *machine)
{
	_cleanup_free_ char *binary = runtime_option(machine, "BinaryName");
	char command[400] = "runc --version";
	size_t len = binary ? strlen(binary) : 0;

	if (len > 2) {
		binary[len - 1] = '\0';
		if (len < 300 && is_path_of_runc(binary + 1))
			snprintf(command, sizeof(command), "%s --version", binary + 1);
	} else if (machine_has(machine, RUNC_K3S)) {
		snprintf(command, sizeof(command), RUNC_K3S " --version");
	}
	return machine_ask(machine, command);
}

void check_runc(struct machine *machine)
{
	_cleanup_free_ char *systemd = NULL, *said = NULL;
	char dev[400], version[60] = "";

	if (!machine->containerd) {
		report_unknown(machine->report, machine->problem);
		return;
	}
	systemd = runtime_option(machine, "SystemdCgroup");
	if (!systemd || strcmp(systemd, "true") != 0)
		return;
	machine_path(machine, "/dev", dev, sizeof(dev));
	if (device_links_look(dev) == DEVICE_LINKS_THERE)
		return;
	said = runc_version(machine);
	if (!said) {
		report_unknown(machine->report, "`runc --version` says nothing (are you root?)");
		return;
	}
	/* crun has another word before its number, and does not lose devices so. */
	if (sscanf(said, "runc version %59s", version) != 1 || !runc_drops_devices(version))
		return;
	report_find(machine->report, SEVERITY_ERROR, "runc",
		DEVICE_LINKS_COMMAND
		"  # at each boot, before GPU pods start; or install runc 1.1.7 or later",
		"runc %s with the systemd cgroup driver, and /dev/char has no links to NVIDIA's devices: running containers lose their GPUs at the next `systemctl daemon-reload` (opencontainers/runc#3846)",
		version);
}
