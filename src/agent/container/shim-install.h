/* shim-install.h - the shim, on the host: STATE/shim/<version>/ on a tmpfs that programs can be executed from
 * (Debian mounts /run with noexec), so that containers can map it. A version is a hash of the content: an
 * upgraded agent puts another folder beside the one that running containers have, and so does an agent that
 * finds another driver, if that has functions which the shim does not know: they are named in the shim
 * (base/elf-fit.h).
 */
#pragma once

#include <stddef.h>

struct driver;
struct error;

#define SHIM_VERSION_SIZE 17
#define SHIM_CUDA_FILE "libcuda.so.1"
#define SHIM_NVML_FILE "libnvidia-ml.so.1"
#define SHIM_PRELOAD_FILE "preload"    /* becomes /etc/ld.so.preload of the container */
#define SHIM_INSIDE "/run/ration/shim" /* where a container has the folder */

/* shim_install() - copies the files of the source folder, adapted to the driver, unless the same content is
 * there. Negative errno with a sentence. May be called again at any time: it replaces files that were removed
 * or damaged, each by rename, so a process that has the old file open keeps it. */
int shim_install(const char *source, const struct driver *driver, const char *state_dir,
	char ret_version[SHIM_VERSION_SIZE], struct error *err);

/* shim_path() - of a file of this version; file "": of its folder. */
int shim_path(const char *state_dir, const char *version, const char *file, char *buf, size_t size);

/* shim_remove_old() - all versions but this one that no CDI file in cdi_dir names. */
void shim_remove_old(const char *state_dir, const char *version, const char *cdi_dir);
