/* Checks of a node: the cgroup drivers of kubelet and containerd, and whether runc takes devices from
 * containers because of its driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/device-links.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"

#define RUNC_K3S "/var/lib/rancher/k3s/data/current/bin/runc"

/* The value of a top-level key of the kubelet's configuration, which is block YAML if kubeadm wrote it. */
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

enum kubelet_driver { DRIVER_BY_KUBELET, DRIVER_BY_RUNTIME, DRIVER_IN_DOUBT };

/* Since 1.31 the kubelet asks the runtime for the cgroup driver, and reads its own configuration only if the
 * runtime does not answer (KubeletCgroupDriverFromCRI). containerd answers since 2.0, and CRI-O since 1.28.
 */
static enum kubelet_driver whose_driver(const struct machine *machine)
{
	bool crio = machine->runtime == RUNTIME_CRIO;
	_cleanup_free_ char *said = NULL;
	unsigned int major = 0, minor = 0;

	if (crio ? machine->major == 1 && machine->minor < 28 : machine->major == 1)
		return DRIVER_BY_KUBELET;
	said = machine_ask(machine, "kubelet --version");
	if (!said || sscanf(said, "Kubernetes v%u.%u", &major, &minor) != 2)
		return DRIVER_IN_DOUBT;
	if (major == 1 && minor < 31)
		return DRIVER_BY_KUBELET;
	return machine->major >= (crio ? 1 : 2) ? DRIVER_BY_RUNTIME : DRIVER_IN_DOUBT;
}

static void compare_drivers(struct machine *machine)
{
	_cleanup_free_ char *kubelet = kubelet_value(machine, "cgroupDriver");
	const char *driver = machine_cgroup_driver(machine);
	bool crio = machine->runtime == RUNTIME_CRIO;
	char text[300];

	if (!kubelet || !driver || (strcmp(kubelet, "systemd") == 0) == (strcmp(driver, "systemd") == 0))
		return;
	switch (whose_driver(machine)) {
	case DRIVER_BY_RUNTIME:
		return;
	case DRIVER_IN_DOUBT:
		snprintf(text, sizeof(text),
			"the cgroup drivers of kubelet and %s differ in their configurations, which is a fault only if the kubelet is older than 1.31 or %s; `kubelet --version` or `%s --version` prints nothing",
			machine_runtime_name(machine),
			crio ? "CRI-O older than 1.28" : "containerd older than 2.0",
			crio ? "crio" : "containerd");
		report_unknown(machine->report, text);
		return;
	case DRIVER_BY_KUBELET:
		report_find(machine->report, SEVERITY_WARNING, machine_config_file(machine),
			crio ? "set cgroup_manager = \"systemd\" under [crio.runtime] of a file there, and cgroupDriver: systemd in /var/lib/kubelet/config.yaml; then restart crio and kubelet"
			     : "set SystemdCgroup = true for runc there, and cgroupDriver: systemd in /var/lib/kubelet/config.yaml; then restart containerd and kubelet",
			"the kubelet's cgroup driver is %.30s and %s's is %s", kubelet,
			machine_runtime_name(machine), driver);
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

/* The path becomes part of a shell command. For NVIDIA's runtime, which calls the runc of PATH, the answer is
 * no. */
static bool is_path_of_runc(const char *path)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
	const char *slash = strrchr(path, '/');

	return path[0] == '/' && path[strspn(path, letters)] == '\0' && strcmp(slash + 1, "runc") == 0;
}

/* The output of `runc --version`; NULL if it prints nothing. The caller frees it. */
static char *runc_version(const struct machine *machine, const char *binary)
{
	char command[400] = "runc --version";

	if (binary && *binary) {
		if (strlen(binary) < 300 && is_path_of_runc(binary))
			snprintf(command, sizeof(command), "%s --version", binary);
	} else if (machine_has(machine, RUNC_K3S)) {
		snprintf(command, sizeof(command), RUNC_K3S " --version");
	}
	return machine_ask(machine, command);
}

/* CRI-O's default runtime; it does not lose devices. */
static bool is_crun(const char *binary)
{
	const char *slash = binary ? strrchr(binary, '/') : NULL;

	return binary && strcmp(slash ? slash + 1 : binary, "crun") == 0;
}

void check_runc(struct machine *machine)
{
	_cleanup_free_ char *binary = NULL, *said = NULL;
	const char *driver;
	char dev[400], version[60] = "";

	if (!machine->config) {
		report_unknown(machine->report, machine->problem);
		return;
	}
	driver = machine_cgroup_driver(machine);
	binary = machine_runtime_binary(machine);
	if (!driver || strcmp(driver, "systemd") != 0 || is_crun(binary))
		return;
	machine_path(machine, "/dev", dev, sizeof(dev));
	if (device_links_look(dev) == DEVICE_LINKS_THERE)
		return;
	said = runc_version(machine, binary);
	if (!said) {
		report_unknown(machine->report, "`runc --version` prints nothing (are you root?)");
		return;
	}
	/* crun prints another word before its version, and does not have this fault. */
	if (sscanf(said, "runc version %59s", version) != 1 || !runc_drops_devices(version))
		return;
	report_find(machine->report, SEVERITY_ERROR, "runc",
		DEVICE_LINKS_COMMAND
		"  # at each boot, before GPU pods start; or install runc 1.1.7 or later",
		"runc %s with the systemd cgroup driver, and /dev/char has no links to NVIDIA's devices: running containers lose their GPUs at the next `systemctl daemon-reload` (opencontainers/runc#3846)",
		version);
}
