/* driver.h - the driver of this machine: its two libraries, everything that looks like them, and its GPUs.
 *
 * src/run/ is `ration run` and `ration ps`: a grant for one program on this machine, without a cluster and
 * without a daemon. The program replaces `ration run` in the same process, so that signals, terminal and exit
 * status need no handling. A second process, the keeper, maintains the grant until the last process of the
 * run is gone. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "nvml/nvml.h"

#define DRIVER_FILES_MAX 64

/* A file that a program may load as the driver's library, and the name that leads to it. */
struct driver_file {
	char name[NAME_MAX + 1]; /* libcuda.so, libcuda.so.1, libcuda.so.570.86.15 ... */
	char path[PATH_MAX];	 /* without symbolic links */
	bool is_cuda;		 /* else libnvidia-ml */
};

struct driver {
	char cuda[PATH_MAX]; /* the library in use, without symbolic links */
	char nvml[PATH_MAX];
	char named[PATH_MAX]; /* the folder that the user named; "": found by the dynamic linker */
	/* The two libraries and all others on this machine: older links, a second driver library
	 * (cuda-compat). */
	struct driver_file files[DRIVER_FILES_MAX + 1];
	size_t file_count;
	struct nvml_inventory gpus;
};

/* driver_find() - with the libraries of this folder; NULL: those that the dynamic linker finds. -ENOENT: no
 * driver; or an error of nvml_open(). */
int driver_find(const char *folder, struct driver *ret_driver, struct error *err);
