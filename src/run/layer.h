/* layer.h - how a program gets the shim where it looks for the driver.
 *
 * mount: in a mount namespace of its own the shim lies over the driver's files, so that any way of finding
 * them leads to it; the driver's two libraries, and nothing
 * beside them, are seen in <run>/host-*. preload: LD_PRELOAD and LD_LIBRARY_PATH,
 * which programs that are static, set-uid, given an absolute path or an empty environment do not follow.
 */
#pragma once

#include <limits.h>

#include "base/error.h"
#include "run/driver.h"
#include "run/shim.h"

enum layer { LAYER_MOUNT, LAYER_MOUNT_USER, LAYER_PRELOAD, LAYER_MAX, LAYER_INVALID = -1 };

/* layer_choose() - the strongest that works here: as root a mount namespace; for others one inside a user
 * namespace, where those are allowed; else preload. shim: the folder of the two substitutes. reason (of
 * size): why not a stronger one, "" if there is none. */
enum layer layer_choose(const struct driver *driver, const char *shim, char *reason, size_t size);

/* layer_name() - for people. */
const char *layer_name(enum layer layer);

/* layer_library() - where the program is going to find the driver's own library that is now at path
 * (absolute, without links; only LAYER_PRELOAD reads it). folder: the run's. -ENAMETOOLONG. */
int layer_library(
	enum layer layer, const char *folder, const char *path, bool is_cuda, char *ret_path, size_t size);

/* layer_prepare() - what the layer needs in the run's folder. */
int layer_prepare(enum layer layer, const char *folder, const struct driver *driver, const struct shim *shim,
	struct error *err);

/* layer_enter() - put the calling process under it: its mounts, its environment. */
int layer_enter(enum layer layer, const char *folder, const struct driver *driver, const struct shim *shim,
	struct error *err);
