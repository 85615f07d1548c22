/* layer.h - how a program gets the shim when it loads the driver.
 *
 * mount: in a mount namespace of the run, the shim is mounted over the driver's files, so that every way of
 * finding them leads to it. The driver's two libraries, and nothing else, are visible in <run>/host-*.
 * preload: LD_PRELOAD and LD_LIBRARY_PATH. Static and set-uid programs, programs that use an absolute path,
 * and programs with an empty environment do not follow these. */
#pragma once

#include <limits.h>

#include "base/error.h"
#include "run/driver.h"
#include "run/shim.h"

enum layer { LAYER_MOUNT, LAYER_MOUNT_USER, LAYER_PRELOAD, LAYER_MAX, LAYER_INVALID = -1 };

/* layer_choose() - the strongest layer that works here. For root it is a mount namespace; for other users one
 * inside a user namespace, if those are allowed; else preload. shim: the folder of the two substitutes.
 * reason (of size): why no stronger layer works, "" if this is the strongest. */
enum layer layer_choose(const struct driver *driver, const char *shim, char *reason, size_t size);

/* layer_name() - the name for users. */
const char *layer_name(enum layer layer);

/* layer_library() - where the program will find the driver's own library that is now at path (absolute,
 * without links; only LAYER_PRELOAD reads it). folder: the run's. -ENAMETOOLONG. */
int layer_library(
	enum layer layer, const char *folder, const char *path, bool is_cuda, char *ret_path, size_t size);

/* layer_prepare() - creates what the layer needs in the run's folder. */
int layer_prepare(enum layer layer, const char *folder, const struct driver *driver, const struct shim *shim,
	struct error *err);

/* layer_enter() - puts the calling process under the layer: its mounts, its environment. */
int layer_enter(enum layer layer, const char *folder, const struct driver *driver, const struct shim *shim,
	struct error *err);
