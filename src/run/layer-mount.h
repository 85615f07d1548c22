/* layer-mount.h - the layer of mounts. */
#pragma once

#include "run/layer.h"

/* layer_mount_try() - enters the layer without a run, in a process that ends afterwards: 0 or a negative
 * errno. */
int layer_mount_try(enum layer layer, const struct driver *driver, const char *shim);

/* layer_mount_enter() - for the calling process, mounts the shim over each of driver->files, the driver under
 * the run's folder, and the grant at its fixed path if that path exists. */
int layer_mount_enter(enum layer layer, const char *folder, const struct driver *driver,
	const struct shim *shim, struct error *err);
