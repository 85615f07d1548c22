/* Checks of a node's NVIDIA driver: the kernel module, and the libraries that containers would get. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/report.h"

#define KERNEL "/proc/driver/nvidia/version"
#define OLDEST "418.87.01" /* "NVIDIA driver version 418.87.01 or later", the documents */

/* Takes the version from a file name like libcuda.so.535.104.05. A version without a dot is that of a link
 * (libcuda.so.1), and is ignored. */
static void take_version(const char *file, const char *library, char ret_version[DRIVER_VERSION_SIZE])
{
	const char *version = file + strlen(library);

	if (strncmp(file, library, strlen(library)) == 0 && strchr(version, '.') &&
		strspn(version, "0123456789.") == strlen(version))
		snprintf(ret_version, DRIVER_VERSION_SIZE, "%.30s", version);
}

static void take_library(struct machine *machine, const char *file)
{
	take_version(file, "libcuda.so.", machine->cuda);
	take_version(file, "libnvidia-ml.so.", machine->nvml);
}

static void find_libraries(struct machine *machine)
{
	static const char *const dirs[] = {
		"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu", "/lib", "/usr/lib"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && !machine->cuda[0]; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s%s",
			strcmp(machine->driver_root, "/") == 0 ? "" : machine->driver_root, dirs[i]);
		machine_each(machine, path, take_library);
		if (machine->cuda[0])
			snprintf(machine->library_dir, sizeof(machine->library_dir), "%.299s", path);
	}
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ..." */
static void kernel_version(const struct machine *machine, char ret_version[DRIVER_VERSION_SIZE])
{
	_cleanup_free_ char *text = machine_read(machine, KERNEL);

	ret_version[0] = '\0';
	for (char *save, *word = text ? strtok_r(text, " \t\n", &save) : NULL; word;
		word = strtok_r(NULL, " \t\n", &save))
		if (strchr(word, '.') && strspn(word, "0123456789.") == strlen(word)) {
			snprintf(ret_version, DRIVER_VERSION_SIZE, "%.30s", word);
			return;
		}
}

static bool is_older(const char *version, const char *than)
{
	while (*version && *than) {
		char *version_end, *than_end;
		unsigned long a = strtoul(version, &version_end, 10), b = strtoul(than, &than_end, 10);

		if (a != b)
			return a < b;
		version = version_end + (*version_end == '.');
		than = than_end + (*than_end == '.');
	}
	return false;
}

void check_driver(struct machine *machine)
{
	const char *cuda = machine->cuda, *nvml = machine->nvml;
	char kernel[DRIVER_VERSION_SIZE];

	find_libraries(machine);
	kernel_version(machine, kernel);
	if (!*cuda || !*nvml) {
		report_find(machine->report, SEVERITY_ERROR, machine->driver_root,
			"install NVIDIA's driver; if a driver container installs it, use --driver-root and the chart's value driverRoot",
			"%s of the NVIDIA driver is missing", *cuda ? "libnvidia-ml.so" : "libcuda.so");
		return;
	}
	if (!*kernel)
		report_find(machine->report, SEVERITY_ERROR, KERNEL, "modprobe nvidia",
			"the driver's kernel module is not loaded");
	else if (strcmp(kernel, cuda) != 0 || strcmp(kernel, nvml) != 0)
		report_find(machine->report, SEVERITY_ERROR, KERNEL,
			"reboot  # or install the libraries of the running driver",
			"the running driver is %s, but libcuda.so is of %s and libnvidia-ml.so of %s", kernel,
			cuda, nvml);
	if (is_older(cuda, OLDEST))
		report_find(machine->report, SEVERITY_ERROR, machine->driver_root, "",
			"the driver's version %s is lower than " OLDEST, cuda);
}
