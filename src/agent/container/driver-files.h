/* driver-files.h - which files of the NVIDIA driver a container gets, by the capabilities of NVIDIA's
 * container toolkit. What compute and utility need every container has. The lists are those of
 * nvidia-container-toolkit 1.18 (internal/discover/graphics.go) and libnvidia-container 1.18
 * (src/nvc_info.c), without what serves an X server, 32-bit programs, or the whole machine: tests/driver
 * compares them with what NVIDIA's own program finds in the same folder.
 *
 * Pure: no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bits. display is graphics. */
enum { DRIVER_VIDEO = 1, DRIVER_GRAPHICS = 2, DRIVER_NGX = 4 };

/* A folder beside the libraries, "" for their own, in which libraries of the driver lie. */
extern const char *const driver_library_folders[];
extern const size_t n_driver_library_folders;

/* driver_library_needs() - of which capabilities a container must have one to get this file of such a folder;
 * 0: each container gets it; negative: it is no file of the driver that a container could need. */
int driver_library_needs(const char *folder, const char *file);

/* A file that programs look for below /etc or /usr/share. */
struct driver_config {
	const char *file; /* below one of these */
	int needs;
	bool in_etc; /* in the container, wherever it lies on the host */
};
extern const struct driver_config driver_configs[];
extern const size_t n_driver_configs;

/* driver_capabilities() - what NVIDIA_DRIVER_CAPABILITIES=text means; NULL as without the variable.
 * ret_unknown: the first name in it that is not a capability, or is one that ration does not give, cut to
 * size; "" if all names are known. */
int driver_capabilities(const char *text, char *ret_unknown, size_t size);
