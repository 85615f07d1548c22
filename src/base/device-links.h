/* device-links.h - whether containers keep their GPUs when systemd reloads its units.
 *
 * runc 1.1.3 to 1.1.6 leaves a device out of a unit's DeviceAllow if /dev/char/MAJOR:MINOR is missing
 * (opencontainers/runc#3846). The container can open the device all the same, because of runc's own device
 * filter. But `systemctl daemon-reload` makes systemd replace that filter by its own. udev creates these
 * links for devices that sysfs knows, which NVIDIA's are not. */
#pragma once

#include <stdbool.h>

/* Creates the links until the next boot. */
#define DEVICE_LINKS_COMMAND "nvidia-ctk system create-dev-char-symlinks --create-all"

/* runc_drops_devices() - takes a version as runc writes it, "1.1.5+ds1". */
bool runc_drops_devices(const char *version);

enum device_links {
	DEVICE_LINKS_UNKNOWN, /* the directory cannot be read */
	DEVICE_LINKS_MISSING, /* one of NVIDIA's devices has no link, or there are neither devices nor links
			       */
	DEVICE_LINKS_THERE,
};

/* device_links_look() - checks the links of NVIDIA's devices in the directory `dev`, which is a /dev. It
 * reads names and links only. */
enum device_links device_links_look(const char *dev);
