#include "cli/doctor/machine.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "cli/doctor/report.h"

#define FILE_MAX ((size_t)4 << 20)
#define CONTAINERD_FILE "/etc/containerd/config.toml"
/* k3s and RKE2 have a containerd of their own, with its configuration there. */
#define CONTAINERD_FILE_K3S "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
#define CONTAINERD_FILE_RKE2 "/var/lib/rancher/rke2/agent/etc/containerd/config.toml"

const char *machine_path(const struct machine *machine, const char *path, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s", machine->root, path);
	return buf;
}

char *machine_read(const struct machine *machine, const char *path)
{
	char where[PATH_MAX], *text = NULL;
	size_t len;

	fs_read(machine_path(machine, path, where, sizeof(where)), FILE_MAX, &text, &len);
	return text;
}

bool machine_has(const struct machine *machine, const char *path)
{
	char where[PATH_MAX];

	return access(machine_path(machine, path, where, sizeof(where)), F_OK) == 0;
}

bool machine_each(
	struct machine *machine, const char *path, void (*take)(struct machine *machine, const char *name))
{
	char where[PATH_MAX];
	DIR *dir = opendir(machine_path(machine, path, where, sizeof(where)));

	if (!dir)
		return false;
	for (struct dirent *entry; (entry = readdir(dir));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			take(machine, entry->d_name);
	closedir(dir);
	return true;
}

/* A root with a quote in it is not handed to a shell. */
char *machine_ask(const struct machine *machine, const char *command)
{
	_cleanup_free_ char *text = malloc(FILE_MAX + 1);
	char line[PATH_MAX + 200];
	size_t len;
	FILE *out;

	if (!text || strchr(machine->root, '\''))
		return NULL;
	if (*machine->root)
		snprintf(line, sizeof(line), "chroot '%s' %s 2>/dev/null", machine->root, command);
	else
		snprintf(line, sizeof(line), "%s 2>/dev/null", command);
	out = popen(line, "re");
	if (!out)
		return NULL;
	len = fread(text, 1, FILE_MAX, out);
	text[len] = '\0';
	return pclose(out) == 0 && len ? TAKE_PTR(text) : NULL;
}

static void read_version(struct machine *machine)
{
	_cleanup_free_ char *said = machine_ask(machine, "containerd --version");
	const char *number = said ? strpbrk(said, "0123456789") : NULL;

	/* "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b71..." */
	for (; number; number = strpbrk(number + 1, "0123456789"))
		if ((number == said || number[-1] != '/') &&
			sscanf(number, "%u.%u.", &machine->major, &machine->minor) == 2)
			break;
	if (!number)
		return;
	snprintf(machine->version, sizeof(machine->version), "%.*s", (int)strcspn(number, " \n"), number);
}

static bool has_containerd(const struct machine *machine)
{
	return machine_has(machine, "/run/containerd/containerd.sock") ||
	       machine_has(machine, "/run/k3s/containerd/containerd.sock");
}

/* What the kubelet was told: by its configuration, since Kubernetes 1.27, or by kubeadm's flags. */
static void read_endpoint(const struct machine *machine, const char *path, char *ret_socket, size_t size)
{
	static const char *const keys[] = {"containerRuntimeEndpoint:", "--container-runtime-endpoint="};
	_cleanup_free_ char *text = machine_read(machine, path);

	for (size_t i = 0; text && i < ARRAY_SIZE(keys); i++) {
		const char *at = strstr(text, keys[i]);

		if (!at)
			continue;
		at += strlen(keys[i]);
		at += strspn(at, " \"'");
		at += strncmp(at, "unix://", 7) == 0 ? 7 : 0;
		snprintf(ret_socket, size, "%.*s", (int)strcspn(at, " \"'\r\n"), at);
	}
}

static void find_other_runtime(struct machine *machine)
{
	static const char *const files[] = {"/var/lib/kubelet/config.yaml",
		"/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env"};
	char *socket = machine->other_runtime;
	size_t size = sizeof(machine->other_runtime);

	/* The later ones count more. */
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		read_endpoint(machine, files[i], socket, size);
	if (!*socket && !has_containerd(machine) && machine_has(machine, "/run/crio/crio.sock"))
		snprintf(socket, size, "/run/crio/crio.sock");
	if (strstr(socket, "containerd"))
		*socket = '\0';
}

bool machine_has_crio(const struct machine *machine)
{
	return strstr(machine->other_runtime, "crio");
}

const char *machine_runtime_name(const struct machine *machine)
{
	return machine_has_crio(machine)		   ? "CRI-O"
	       : strstr(machine->other_runtime, "dockerd") ? "Docker"
							   : "none that is known here";
}

static void read_containerd(struct machine *machine)
{
	static const char *const files[] = {CONTAINERD_FILE_K3S, CONTAINERD_FILE_RKE2, CONTAINERD_FILE};

	if (*machine->other_runtime) {
		snprintf(machine->problem, sizeof(machine->problem),
			"the kubelet's container runtime is %s, not containerd",
			machine_runtime_name(machine));
		return;
	}
	if (!has_containerd(machine)) {
		snprintf(machine->problem, sizeof(machine->problem),
			"there is no socket of containerd (/run/containerd/containerd.sock); no other container runtime is known here");
		return;
	}
	read_version(machine);
	for (size_t i = 0; i < 2 && !machine->containerd; i++)
		machine->containerd = machine_read(machine, files[i]);
	/* With its defaults, and the files that it includes. */
	if (!machine->containerd)
		machine->containerd = machine_ask(machine, "containerd config dump");
	if (!machine->containerd)
		machine->containerd = machine_read(machine, CONTAINERD_FILE);
	if (!machine->containerd)
		snprintf(machine->problem, sizeof(machine->problem),
			"`containerd config dump` says nothing, and " CONTAINERD_FILE
			" cannot be read (are you root?)");
}

char *machine_cri(const struct machine *machine, const char *suffix, const char *key)
{
	static const char *const plugins[] = {
		"plugins.io.containerd.cri.v1.runtime", "plugins.io.containerd.grpc.v1.cri"};
	char *value = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(plugins) && !value; i++) {
		char section[200];

		snprintf(section, sizeof(section), "%s%s", plugins[i], suffix);
		value = toml_value(machine->containerd, section, key);
	}
	return value;
}

bool machine_does_cdi(const struct machine *machine)
{
	_cleanup_free_ char *enabled = machine_cri(machine, "", "enable_cdi");
	_cleanup_free_ char *dirs = machine_cri(machine, "", "cdi_spec_dirs");

	/* Off unless said otherwise in 1.7, always on since 2.0 (containerd docs/cri/config.md). */
	if (!(enabled ? strcmp(enabled, "true") == 0 : machine->major >= 2))
		return false;
	return !dirs || strstr(dirs, "/run/cdi");
}

const struct machine_check machine_checks[] = {
	{"runtime", check_containerd},
	{"cdi", check_cdi},
	{"cgroups", check_cgroups},
	{"runc", check_runc},
	{"nvidia-runtime", check_nvidia_runtime},
	{"driver", check_driver},
	{"cpu-manager", check_cpu_manager},
	{"device-plugins", check_device_plugins},
	{"shim", check_shim},
	{"leftovers", check_leftovers},
};
const size_t n_machine_checks = ARRAY_SIZE(machine_checks);

void machine_examine(const char *root, const char *driver_root, struct report *report)
{
	struct machine machine = {
		.root = strcmp(root, "/") == 0 ? "" : root, .driver_root = driver_root, .report = report};

	find_other_runtime(&machine);
	read_containerd(&machine);
	for (size_t i = 0; i < n_machine_checks; i++) {
		report_check(report, machine_checks[i].name);
		machine_checks[i].run(&machine);
	}
	free(machine.containerd);
}
