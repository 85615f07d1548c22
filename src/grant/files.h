/* files.h - the two files on disk: written whole, mapped for good. Inside src/grant only. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* files_write() - len bytes of data, the file made `size` bytes long (sparse beyond len), complete under
 * another name and then renamed to path. The mode is exactly that, whatever the umask. */
int files_write(const char *path, mode_t mode, const void *data, size_t len, size_t size);

/* files_map() - the first `size` bytes of the file, shared. -EBADMSG if it is shorter. No descriptor stays.
 */
int files_map(const char *path, size_t size, int writable, void **ret_map);
