/* driver.h - the files of the NVIDIA driver that a container needs: libraries, nvidia-smi, device nodes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct error;

#define DRIVER_MOUNTS_MAX 512
#define DRIVER_DEVICES_MAX 16

/* What the shim takes the place of, and all else. */
enum driver_part { DRIVER_OTHER, DRIVER_CUDA, DRIVER_NVML, DRIVER_PART_MAX };

struct driver_mount {
	enum driver_part part;
	int needs;	 /* a container needs one of these capabilities (driver-files.h) to get it; 0: every
			    container gets it */
	char *host;	 /* as the container runtime sees it */
	char *container; /* absolute */
	bool writable;
	bool directory;
};

struct driver {
	const char *root; /* as we see it; borrowed */
	const char *host_root;
	char *library_dir; /* relative to root: where libnvidia-ml.so.1 lies */
	struct timespec library_time;
	bool settled; /* library_time was long past when we looked: nothing can have changed since at that
			 time */
	struct driver_mount mounts[DRIVER_MOUNTS_MAX];
	size_t n_mounts;
	const char *devices[DRIVER_DEVICES_MAX]; /* control devices that exist: "nvidiactl" ... */
	size_t n_devices;
	/* Of libcuda.so.1 and libnvidia-ml.so.1: what stands behind "libcuda.so." in the name of the file.
	 * Empty with a sentence in version_problem where it cannot be told. */
	char version[64];
	char version_problem[512];
	uint64_t signature;	 /* of all that was found */
	unsigned int generation; /* one more with each scan that found something else */
};

void driver_init(struct driver *driver, const char *root, const char *host_root);
void driver_release(struct driver *driver);

/* driver_scan() - look for the files again if the library directory has changed since the last time. -ENOENT
 * with a sentence if there is no driver below root. */
int driver_scan(struct driver *driver, struct error *err);

/* driver_library() - what the library is called: "libcuda.so". NULL for DRIVER_OTHER. */
const char *driver_library(enum driver_part part);

/* driver_library_host() - the library's file with its full name, as the container runtime sees it. */
int driver_library_host(const struct driver *driver, enum driver_part part, char *buf, size_t size);

/* driver_library_path() - the same as we see it. */
int driver_library_path(const struct driver *driver, enum driver_part part, char *buf, size_t size);

/* driver_device() - where dev/<name> lies for the container runtime, and whether it is a device node (a
 * simulated tree may have plain files instead, where nodes cannot be made). -ENOENT. */
int driver_device(
	const struct driver *driver, const char *name, char *ret_host, size_t size, bool *ret_is_node);
