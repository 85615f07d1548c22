/* fs.h - whole files: read with a limit, and written such that neither a reader nor a crash sees a partial
 * file. */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

/* fs_read() - reads the whole file, NUL-terminated. -EFBIG: larger than max bytes. -ENOTSUP (-ENXIO,
 * -EISDIR): not a regular file. Never waits. The caller frees. */
int fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len);

/* fs_read_or_pipe() - the same, but also reads a pipe, whose writer has to end within timeout_ms: -ETIMEDOUT.
 * A pipe can be read once. */
int fs_read_or_pipe(const char *path, size_t max, int timeout_ms, char **ret_data, size_t *ret_len);

/* fs_write_atomic() - writes a temporary file beside path, fsyncs it and renames it to path. */
int fs_write_atomic(const char *path, mode_t mode, const void *data, size_t len);

/* fs_own_folder() - the directory of the running program, as the kernel names it. */
int fs_own_folder(char ret_path[PATH_MAX]);

/* fs_mkdir_parents() - like `mkdir -p`; an existing directory is success. */
int fs_mkdir_parents(const char *path, mode_t mode);
