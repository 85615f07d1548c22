/* The container runtime of a node, containerd or CRI-O: which one it is, and what its configuration says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/doctor/machine.h"

#define CONTAINERD_FILE "/etc/containerd/config.toml"
/* k3s and RKE2 have a containerd of their own, with its configuration there. */
#define CONTAINERD_FILE_K3S "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
#define CONTAINERD_FILE_RKE2 "/var/lib/rancher/rke2/agent/etc/containerd/config.toml"
#define CRIO_SOCKET "/run/crio/crio.sock"
#define CRIO_CONFIG "crio status config"

/* ---- which one ---- */

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

static void find_runtime(struct machine *machine)
{
	static const char *const files[] = {"/var/lib/kubelet/config.yaml",
		"/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env"};
	char *socket = machine->socket;

	/* The later ones count more. */
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		read_endpoint(machine, files[i], socket, sizeof(machine->socket));
	if (!*socket && !has_containerd(machine) && machine_has(machine, CRIO_SOCKET))
		snprintf(socket, sizeof(machine->socket), CRIO_SOCKET);
	machine->runtime = !*socket || strstr(socket, "containerd") ? RUNTIME_CONTAINERD
			   : strstr(socket, "crio")		    ? RUNTIME_CRIO
								    : RUNTIME_OTHER;
}

const char *machine_runtime_name(const struct machine *machine)
{
	return machine->runtime == RUNTIME_CONTAINERD ? "containerd"
	       : machine->runtime == RUNTIME_CRIO     ? "CRI-O"
	       : strstr(machine->socket, "dockerd")   ? "Docker"
						      : "unknown";
}

const char *machine_config_file(const struct machine *machine)
{
	return machine->runtime == RUNTIME_CRIO ? "/etc/crio/crio.conf.d" : CONTAINERD_FILE;
}

/* ---- its version and configuration ---- */

static void read_version(struct machine *machine)
{
	_cleanup_free_ char *said = machine_ask(
		machine, machine->runtime == RUNTIME_CRIO ? "crio --version" : "containerd --version");
	const char *number = said ? strpbrk(said, "0123456789") : NULL;

	/* "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b71...", "crio version 1.34.0" */
	for (; number; number = strpbrk(number + 1, "0123456789"))
		if ((number == said || number[-1] != '/') &&
			sscanf(number, "%u.%u.", &machine->major, &machine->minor) == 2)
			break;
	if (!number)
		return;
	snprintf(machine->version, sizeof(machine->version), "%.*s", (int)strcspn(number, " \n"), number);
}

static void read_containerd(struct machine *machine)
{
	static const char *const files[] = {CONTAINERD_FILE_K3S, CONTAINERD_FILE_RKE2, CONTAINERD_FILE};

	if (!has_containerd(machine)) {
		snprintf(machine->problem, sizeof(machine->problem),
			"there is no socket of containerd (/run/containerd/containerd.sock), and the kubelet's configuration names no other container runtime");
		return;
	}
	read_version(machine);
	for (size_t i = 0; i < 2 && !machine->config; i++)
		machine->config = machine_read(machine, files[i]);
	/* With its defaults, and the files that it includes. */
	if (!machine->config)
		machine->config = machine_ask(machine, "containerd config dump");
	if (!machine->config)
		machine->config = machine_read(machine, CONTAINERD_FILE);
	if (!machine->config)
		snprintf(machine->problem, sizeof(machine->problem),
			"`containerd config dump` prints nothing, and " CONTAINERD_FILE
			" cannot be read (are you root?)");
}

/* The path goes to a shell. */
static bool is_plain_path(const char *path)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";

	return path[0] == '/' && path[strspn(path, letters)] == '\0';
}

/* CRI-O itself tells the configuration with which it runs, defaults and included files among it (since 1.28;
 * before, a program of its own did). Its client waits for an answer for ever (1.34.0,
 * internal/client/client.go). */
static void read_crio(struct machine *machine)
{
	char command[sizeof(machine->socket) + 40] = CRIO_CONFIG, limited[sizeof(command) + 20];

	read_version(machine);
	if (is_plain_path(machine->socket))
		snprintf(command, sizeof(command), "crio status --socket %s config", machine->socket);
	snprintf(limited, sizeof(limited), "timeout 5 %s", command);
	machine->config = machine_ask(machine, limited);
	if (!machine->config)
		snprintf(machine->problem, sizeof(machine->problem),
			"`%s` prints nothing (does CRI-O run, and are you root?)", command);
}

void machine_read_runtime(struct machine *machine)
{
	find_runtime(machine);
	switch (machine->runtime) {
	case RUNTIME_CONTAINERD:
		read_containerd(machine);
		break;
	case RUNTIME_CRIO:
		read_crio(machine);
		break;
	case RUNTIME_OTHER:
		snprintf(machine->problem, sizeof(machine->problem),
			"the kubelet's container runtime is %s, neither containerd nor CRI-O",
			machine_runtime_name(machine));
	}
}

/* ---- what it says ---- */

/* toml_value() without its quotes. The caller frees. */
static char *text_value(const char *config, const char *section, const char *key)
{
	char *value = toml_value(config, section, key);
	size_t len = value ? strlen(value) : 0;

	if (len >= 2 && strchr("\"'", value[0]) && value[len - 1] == value[0]) {
		memmove(value, value + 1, len - 2);
		value[len - 2] = '\0';
	}
	return value;
}

/* A value of containerd's CRI plugin, whose section has another name since containerd 2.0; suffix is appended
 * to it. */
static char *containerd_value(const struct machine *machine, const char *suffix, const char *key)
{
	static const char *const plugins[] = {
		"plugins.io.containerd.cri.v1.runtime", "plugins.io.containerd.grpc.v1.cri"};
	char *value = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(plugins) && !value; i++) {
		char section[300];

		snprintf(section, sizeof(section), "%s%s", plugins[i], suffix);
		value = text_value(machine->config, section, key);
	}
	return value;
}

static char *crio_value(const struct machine *machine, const char *suffix, const char *key)
{
	char section[300];

	snprintf(section, sizeof(section), "crio.runtime%s", suffix);
	return text_value(machine->config, section, key);
}

bool machine_switches_cdi_off(const struct machine *machine)
{
	_cleanup_free_ char *enabled = NULL;

	if (machine->runtime == RUNTIME_CRIO)
		return false;
	enabled = containerd_value(machine, "", "enable_cdi");
	/* Off unless said otherwise in 1.7, always on since 2.0 (containerd docs/cri/config.md). */
	return !(enabled ? strcmp(enabled, "true") == 0 : machine->major >= 2);
}

bool machine_does_cdi(const struct machine *machine)
{
	_cleanup_free_ char *dirs = machine->runtime == RUNTIME_CRIO
					    ? crio_value(machine, "", "cdi_spec_dirs")
					    : containerd_value(machine, "", "cdi_spec_dirs");

	return !machine_switches_cdi_off(machine) && (!dirs || strstr(dirs, "/run/cdi"));
}

char *machine_default_runtime(const struct machine *machine)
{
	return machine->runtime == RUNTIME_CRIO
		       ? crio_value(machine, "", "default_runtime")
		       : containerd_value(machine, ".containerd", "default_runtime_name");
}

/* What containerd's configuration says of the default runtime. The caller frees. */
static char *containerd_option(const struct machine *machine, const char *key)
{
	_cleanup_free_ char *name = machine_default_runtime(machine);
	char section[200];
	char *value;

	snprintf(section, sizeof(section), ".containerd.runtimes.%.100s.options",
		name && *name ? name : "runc");
	value = containerd_value(machine, section, key);
	return value ? value : containerd_value(machine, ".containerd.runtimes.runc.options", key);
}

const char *machine_cgroup_driver(const struct machine *machine)
{
	_cleanup_free_ char *value = machine->runtime == RUNTIME_CRIO
					     ? crio_value(machine, "", "cgroup_manager")
					     : containerd_option(machine, "SystemdCgroup");

	if (!value)
		return NULL;
	return strcmp(value, machine->runtime == RUNTIME_CRIO ? "systemd" : "true") == 0 ? "systemd"
											 : "cgroupfs";
}

char *machine_runtime_binary(const struct machine *machine)
{
	_cleanup_free_ char *name = NULL;
	char section[200];

	if (machine->runtime != RUNTIME_CRIO)
		return containerd_option(machine, "BinaryName");
	/* Without a path CRI-O takes the program that is called as the runtime is. */
	name = machine_default_runtime(machine);
	snprintf(section, sizeof(section), ".runtimes.%.100s", name ? name : "");
	char *path = crio_value(machine, section, "runtime_path");

	if (path && *path)
		return path;
	free(path);
	return TAKE_PTR(name);
}
