#include "base/device-links.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Devices of one machine; links of further devices are not checked. */
#define DEVICES_MAX 64
#define NAME_SIZE 32

struct names {
	char names[DEVICES_MAX][NAME_SIZE];
	size_t n;
};

bool runc_drops_devices(const char *version)
{
	unsigned int major, minor, patch;

	return sscanf(version, "%u.%u.%u", &major, &minor, &patch) == 3 && major == 1 && minor == 1 &&
	       patch >= 3 && patch <= 6;
}

static bool names_have(const struct names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->names[i], name) == 0)
			return true;
	return false;
}

static void names_add(struct names *names, const char *name)
{
	if (names->n < DEVICES_MAX && strlen(name) < NAME_SIZE)
		snprintf(names->names[names->n++], NAME_SIZE, "%s", name);
}

/* The driver's devices that containers get: nvidiactl, nvidia-uvm, nvidia-uvm-tools, nvidia0 and so on.
 * nvidia-caps is a directory, and nvidia-modeset is for displays. */
static bool is_device(const char *name)
{
	return strcmp(name, "nvidiactl") == 0 || strncmp(name, "nvidia-uvm", 10) == 0 ||
	       (strncmp(name, "nvidia", 6) == 0 && name[6] && !name[6 + strspn(name + 6, "0123456789")]);
}

static void read_links(const char *path, struct names *names)
{
	DIR *dir = opendir(path);

	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));) {
		char target[PATH_MAX];
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		const char *slash;

		if (len < 0)
			continue;
		target[len] = '\0';
		slash = strrchr(target, '/');
		if (is_device(slash ? slash + 1 : target))
			names_add(names, slash ? slash + 1 : target);
	}
	closedir(dir);
}

enum device_links device_links_look(const char *dev)
{
	enum device_links result;
	struct names linked = {0};
	char path[PATH_MAX];
	DIR *dir = opendir(dev);

	if (!dir)
		return DEVICE_LINKS_UNKNOWN;
	snprintf(path, sizeof(path), "%s/char", dev);
	read_links(path, &linked);
	result = linked.n ? DEVICE_LINKS_THERE : DEVICE_LINKS_MISSING;
	for (struct dirent *entry; (entry = readdir(dir));)
		if (is_device(entry->d_name) && !names_have(&linked, entry->d_name))
			result = DEVICE_LINKS_MISSING;
	closedir(dir);
	return result;
}
