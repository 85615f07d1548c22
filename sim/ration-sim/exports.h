/* exports.h - a driver's library has the names of its version, and no others. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct export_row {
	const char *name;
	uint32_t since; /* CUDA version of the first driver that has it */
	uint32_t gone;	/* and of the first later one that does not; 0: all have it */
};

/* Generated, sorted by name. */
extern const struct export_row export_rows[];
extern const size_t export_row_count;

/* exports_hide() - take from the dynamic symbols of an ELF library (64 bits, of this machine's byte order)
 * those that a driver of cuda_version does not have. -EBADMSG: it is no such library. */
int exports_hide(void *library, size_t length, uint32_t cuda_version);
