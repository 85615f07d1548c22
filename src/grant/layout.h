/* layout.h - which versions of the two files go together: docs/internals/grant.md, "Versions". Inside
 * src/grant only. */
#pragma once

#include <stdint.h>

enum layout_fit {
	LAYOUT_FITS,
	LAYOUT_TOO_NEW, /* its writer says that older readers would go wrong with it */
	LAYOUT_TOO_OLD,
};

/* layout_fit() - of a file's own version and readable_from, for a reader that is of version `own` and knows
 * the files from `oldest` on. A file that is newer is read as if it were of the reader's version. */
static inline enum layout_fit layout_fit(
	uint32_t version, uint32_t readable_from, uint32_t own, uint32_t oldest)
{
	/* A version that its own readers cannot read is none. */
	if (version < oldest || readable_from == 0 || readable_from > version)
		return LAYOUT_TOO_OLD;
	return readable_from > own ? LAYOUT_TOO_NEW : LAYOUT_FITS;
}
