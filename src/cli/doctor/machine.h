/* machine.h - this machine, which is a node, or a node that is mounted below a directory, by its files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct report;

#define DRIVER_VERSION_SIZE 40

/* The container runtime that the kubelet calls. */
enum machine_runtime { RUNTIME_CONTAINERD, RUNTIME_CRIO, RUNTIME_OTHER };

struct machine {
	const char *root;	 /* "" or an absolute path: where the node's / is */
	const char *driver_root; /* the directory of the NVIDIA driver on the node */
	struct report *report;
	enum machine_runtime runtime;
	char socket[200];  /* the container runtime's, if the kubelet's configuration or CRI-O's socket tells
			      it */
	char *config;	   /* the container runtime's configuration (TOML); NULL if it could not be read */
	char problem[300]; /* why not */
	unsigned int major, minor; /* of the container runtime; 0.0 if it is not known */
	char version[100];
	char cuda[DRIVER_VERSION_SIZE],
		nvml[DRIVER_VERSION_SIZE]; /* of the driver's libraries; "" if missing */
	char library_dir[300];		   /* their directory on the node */
};

/* machine_examine() - makes all checks. root: "/", or where the node's is mounted. */
void machine_examine(const char *root, const char *driver_root, struct report *report);

/* machine_read() - a file of the node, at most 4 MiB. NULL if it cannot be read (errno says why). The caller
 * frees. */
char *machine_read(const struct machine *machine, const char *path);
bool machine_has(const struct machine *machine, const char *path);

/* machine_ask() - the output of a shell command, run on the node, at most 4 MiB; NULL if it fails or prints
 * nothing. The caller frees it. */
char *machine_ask(const struct machine *machine, const char *command);

/* machine_path() - the path by which this process finds a path of the node. Returns buf. */
const char *machine_path(const struct machine *machine, const char *path, char *buf, size_t size);

/* machine_each() - calls take() for each name in a directory of the node except "." and ".."; false if the
 * directory cannot be read. */
bool machine_each(
	struct machine *machine, const char *path, void (*take)(struct machine *machine, const char *name));

/* toml_value() - the value of a key in a section ("": the top level) of a configuration file, as it is
 * written: true, "text", ['a', 'b']. NULL if the section does not set the key. Quotes in the section's name
 * are ignored. The caller frees it. Reads what programs write: one pair on each line, lists on one or several
 * lines. */
char *toml_value(const char *text, const char *section, const char *key);

/* machine_read_runtime() - fills in which container runtime it is, its version and its configuration. */
void machine_read_runtime(struct machine *machine);

/* machine_runtime_name() - of the container runtime, for people. */
const char *machine_runtime_name(const struct machine *machine);

/* machine_does_cdi() - the container runtime applies the CDI files of the agent's directory. */
bool machine_does_cdi(const struct machine *machine);

/* machine_switches_cdi_off() - the container runtime applies no CDI files at all. */
bool machine_switches_cdi_off(const struct machine *machine);

/* machine_config_file() - where a person changes the container runtime's configuration. */
const char *machine_config_file(const struct machine *machine);

/* machine_cgroup_driver() - the container runtime's: "systemd" or "cgroupfs"; NULL if its configuration does
 * not say. */
const char *machine_cgroup_driver(const struct machine *machine);

/* machine_default_runtime() - the name of the OCI runtime that containers get unless they name another one;
 * machine_runtime_binary() - its program, a name or a path, "" for the one on the PATH of the container
 * runtime. The caller frees both; NULL: not configured. */
char *machine_default_runtime(const struct machine *machine);
char *machine_runtime_binary(const struct machine *machine);

/* The checks. */
void check_container_runtime(struct machine *machine);
void check_cdi(struct machine *machine);
void check_cgroups(struct machine *machine);
void check_runc(struct machine *machine);
void check_nvidia_runtime(struct machine *machine);
void check_driver(struct machine *machine);
void check_cpu_manager(struct machine *machine);
void check_device_plugins(struct machine *machine);
void check_shim(struct machine *machine);
void check_leftovers(struct machine *machine);
