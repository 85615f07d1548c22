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

/* A root with a quote in its path is not passed to a shell. */
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

static const struct {
	const char *name;
	void (*run)(struct machine *machine);
} machine_checks[] = {
	{"runtime", check_container_runtime},
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

void machine_examine(const char *root, const char *driver_root, struct report *report)
{
	struct machine machine = {
		.root = strcmp(root, "/") == 0 ? "" : root, .driver_root = driver_root, .report = report};

	machine_read_runtime(&machine);
	for (size_t i = 0; i < ARRAY_SIZE(machine_checks); i++) {
		report_check(report, machine_checks[i].name);
		machine_checks[i].run(&machine);
	}
	free(machine.config);
}
