/* layout.h - decides which versions of the two files work together: docs/internals/grant.md, "Versions".
 * Inside src/grant only. */
#pragma once

#include <stdint.h>

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
