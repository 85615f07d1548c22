/* pacing-bytes.h - copies and fills, whose cost grows with their size. */
#pragma once

#include "shim/pacing.h"

enum bytes_what { BYTES_COPY, BYTES_FILL, BYTES_DECOMPRESSED, BYTES_PEER, BYTES_PREFETCHED };

/* pacing_begin_bytes() - pacing_begin() for a number of bytes. A copy of less than 64 KiB between host and
 * GPU is charged and not measured. */
void pacing_begin_bytes(
	struct pace *pace, enum pace_kind kind, enum bytes_what what, uint64_t bytes, CUstream stream);

/* pacing_pay_small() - for `count` copies of less than 64 KiB each in one call, of which `bytes` (below 64
 * KiB) are not charged otherwise. */
void pacing_pay_small(
	enum pace_kind kind, enum bytes_what what, uint64_t count, uint64_t bytes, CUstream stream);
bool pacing_is_small_copy(enum pace_kind kind, uint64_t bytes);

/* pacing_kind_of() - the kind of a copy between unified addresses. A side that has no address is given as 0:
 * an array, which is on the GPU. PACE_KINDS: the copy is within host memory. */
enum pace_kind pacing_kind_of(CUdeviceptr to, CUdeviceptr from);
