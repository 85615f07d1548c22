/* files.h - writes the two files as a whole, and maps them for the life of the process; which of their
 * versions work together. Inside src/grant only. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* files_write() - writes len bytes of data to a temporary file, extends it to `size` bytes (sparse beyond
 * len) and renames it to path. The file has exactly this mode, whatever the umask. */
int files_write(const char *path, mode_t mode, const void *data, size_t len, size_t size);

/* files_map() - maps the first `size` bytes of the file, shared, and closes its descriptor. -EBADMSG if the
 * file is shorter. */
int files_map(const char *path, size_t size, int writable, void **ret_map);

/* Which versions of the two files work together: docs/internals/grant.md, "Versions". */
enum layout_fit {
	LAYOUT_FITS,
	LAYOUT_TOO_NEW, /* its writer declares that older readers would misread it */
	LAYOUT_TOO_OLD,
};

/* layout_fit() - judges a file by its version and readable_from, for a reader of version `own` that knows
 * files from version `oldest` on. A newer file is read as if it had the reader's version. */
static inline enum layout_fit layout_fit(
	uint32_t version, uint32_t readable_from, uint32_t own, uint32_t oldest)
{
	/* A version that its own readers cannot read is invalid. */
	if (version < oldest || readable_from == 0 || readable_from > version)
		return LAYOUT_TOO_OLD;
	return readable_from > own ? LAYOUT_TOO_NEW : LAYOUT_FITS;
}
