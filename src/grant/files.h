/* files.h - writes the two files as a whole, and maps them for the life of the process. Inside src/grant
 * only. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* files_write() - writes len bytes of data to a temporary file, extends it to `size` bytes (sparse beyond
 * len) and renames it to path. The file has exactly this mode, whatever the umask. */
int files_write(const char *path, mode_t mode, const void *data, size_t len, size_t size);

/* files_map() - maps the first `size` bytes of the file, shared, and closes its descriptor. -EBADMSG if the
 * file is shorter. */
int files_map(const char *path, size_t size, int writable, void **ret_map);
