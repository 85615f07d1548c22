/* layer-mount.h - the layer of mounts. */
#pragma once

#include "run/layer.h"

/* layer_mount_try() - enter it for no run, in a process that ends then: 0 or a negative errno. */
int layer_mount_try(enum layer layer, const struct driver *driver, const char *shim);

/* layer_mount_enter() - the calling process gets the shim over each of driver->files, the driver under the
 * run's folder, and the grant at its fixed path where there is one. */
int layer_mount_enter(enum layer layer, const char *folder, const struct driver *driver,
	const struct shim *shim, struct error *err);
