/* exports.h - a driver's library has the names of its version, and no later ones. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct export_since {
	const char *name;
	uint32_t cuda_version; /* of the first driver that has it */
};

/* Generated, sorted by name. */
extern const struct export_since exports_since[];
extern const size_t exports_since_count;

/* exports_hide() - take from the dynamic symbols of an ELF library (64 bits, of this machine's byte order)
 * those that are newer than cuda_version. -EBADMSG: it is no such library. */
int exports_hide(void *library, size_t length, uint32_t cuda_version);
