/* exports.h - limits a driver's library to the names of its version. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct export_row {
	const char *name;
	uint32_t since; /* CUDA version of the first driver that has the name */
	uint32_t gone;	/* CUDA version of the first later driver that lacks it; 0: all later ones have it */
};

/* Generated, sorted by name. */
extern const struct export_row export_rows[];
extern const size_t export_row_count;

/* exports_hide() - removes from the dynamic symbols of an ELF library (64 bits, of this machine's byte order)
 * those that a driver of cuda_version does not have. -EBADMSG: it is not such a library. */
int exports_hide(void *library, size_t length, uint32_t cuda_version);
