/* machine.h - the node that we run on, or that is mounted below a directory, as its files tell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct report;

#define DRIVER_VERSION_SIZE 40

struct machine {
	const char *root;	 /* "" or an absolute path: where the node's / is */
	const char *driver_root; /* of the NVIDIA driver's files, on the node */
	struct report *report;
	char other_runtime[200];   /* the socket of the kubelet's runtime if that is not containerd */
	char *containerd;	   /* its configuration; NULL if it could not be read */
	char problem[300];	   /* why not */
	unsigned int major, minor; /* of containerd; 0.0 if it is not known */
	char version[100];
	char cuda[DRIVER_VERSION_SIZE],
		nvml[DRIVER_VERSION_SIZE]; /* of the driver's libraries; "" if missing */
	char library_dir[300];		   /* where they lie on the node */
};

/* One row of the table of checks. */
struct machine_check {
	const char *name;
	void (*run)(struct machine *machine);
};
extern const struct machine_check machine_checks[];
extern const size_t n_machine_checks;

/* machine_examine() - all checks into the report. root: "/" or where the node's is mounted. */
void machine_examine(const char *root, const char *driver_root, struct report *report);

/* machine_read() - a file of the node, at most 4 MiB. NULL if it cannot be read (errno says why). The caller
 * frees. */
char *machine_read(const struct machine *machine, const char *path);
bool machine_has(const struct machine *machine, const char *path);

/* machine_ask() - what a program of the node prints, at most 4 MiB; NULL if it fails or prints nothing. The
 * command goes to a shell. The caller frees. */
char *machine_ask(const struct machine *machine, const char *command);

/* machine_path() - where a path of the node is for us. Returns buf. */
const char *machine_path(const struct machine *machine, const char *path, char *buf, size_t size);

/* machine_each() - each name in a directory of the node but "." and ".."; false if it cannot be read. */
bool machine_each(
	struct machine *machine, const char *path, void (*take)(struct machine *machine, const char *name));

/* toml_value() - what a configuration file has for a key of a section ("" for the top), as it is written:
 * true, "text", ['a', 'b']. NULL if it has none. Sections are compared without quotes. The caller frees.
 * Reads what programs write: one pair a line, lists on one or several. */
char *toml_value(const char *text, const char *section, const char *key);

/* machine_cri() - toml_value() of containerd's CRI plugin, whose section has another name since
 * containerd 2.0; suffix is appended to it. */
char *machine_cri(const struct machine *machine, const char *suffix, const char *key);

/* machine_has_crio() - the other runtime is CRI-O. */
bool machine_has_crio(const struct machine *machine);

/* machine_runtime_name() - of the other runtime, for people. */
const char *machine_runtime_name(const struct machine *machine);

/* machine_does_cdi() - containerd applies the CDI files of the agent's directory. */
bool machine_does_cdi(const struct machine *machine);

/* The checks. */
void check_containerd(struct machine *machine);
void check_cdi(struct machine *machine);
void check_cgroups(struct machine *machine);
void check_runc(struct machine *machine);
void check_nvidia_runtime(struct machine *machine);
void check_driver(struct machine *machine);
void check_cpu_manager(struct machine *machine);
void check_device_plugins(struct machine *machine);
void check_shim(struct machine *machine);
void check_leftovers(struct machine *machine);
