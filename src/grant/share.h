/* share.h - memory that processes of a container share by an IPC handle: which process made it, and which
 * ones opened it.
 *
 * usage_slot.shared[] has a word for each GPU of the grant. The words behind them, up to GRANT_FILE_GPUS_MAX,
 * are records: one for each region that the slot's owner has exported or opened. Both sides know the bytes of
 * the handle, so equal hashes mean the same region. Only the owner writes its records, each with one atomic
 * instruction; 0 is free.
 */
#pragma once

#include "grant/usage.h"

enum share_kind {
	SHARE_EXPORT = 1,
	SHARE_IMPORT,
	SHARE_FREED, /* an export that its maker has freed; its charge stays until a sample has seen that */
};

#define SHARE_UNIT_SHIFT 21	 /* 2 MiB, the step in which the driver allocates memory that can be shared */
#define SHARE_UNKNOWN UINT64_MAX /* the size becomes known when the region has been opened */

/* share_word() - builds a record. hash: of the handle. */
static inline uint64_t share_word(enum share_kind kind, unsigned gpu, uint64_t bytes, uint64_t hash)
{
	return (hash >> 28) << 28 | (bytes >> SHARE_UNIT_SHIFT & 0xfffff) << 8 | (uint64_t)(gpu & 63) << 2 |
	       kind;
}

static inline enum share_kind share_kind(uint64_t word)
{
	return word & 3;
}

static inline uint64_t share_as(enum share_kind kind, uint64_t word)
{
	return (word & ~UINT64_C(3)) | kind;
}

static inline unsigned share_gpu(uint64_t word)
{
	return word >> 2 & 63;
}

/* The bytes of a record; 0 for SHARE_UNKNOWN. */
static inline uint64_t share_bytes(uint64_t word)
{
	uint64_t units = word >> 8 & 0xfffff;

	return units == 0xfffff ? 0 : units << SHARE_UNIT_SHIFT;
}

/* share_region() - identifies a region: equal for all its records, and never 0. */
static inline uint64_t share_region(uint64_t word)
{
	return word >> 28 << 6 | share_gpu(word) | UINT64_C(1) << 63;
}

/* share_is_imported() - whether a process other than the slot's owner has opened this export.
 * share_has_importers() - whether another process has imported memory on this GPU. share_is_used() - whether
 * another process may have memory that the slot's owner made. */
bool share_is_imported(const struct usage_file *usage, uint32_t slot, uint64_t export);
bool share_has_importers(const struct usage_file *usage, uint32_t slot, unsigned gpu);
bool share_is_used(const struct usage_file *usage, uint32_t slot);
