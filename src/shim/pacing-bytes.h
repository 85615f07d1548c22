/* pacing-bytes.h - copies and fills: what they cost grows with their size. */
#pragma once

#include "shim/pacing.h"

enum bytes_what { BYTES_COPY, BYTES_FILL, BYTES_DECOMPRESSED, BYTES_PEER, BYTES_PREFETCHED };

/* pacing_begin_bytes() - pacing_begin() for so many of them. A copy between machine and GPU of less than 64
 * KiB is paid for and not measured. */
void pacing_begin_bytes(
	struct pace *pace, enum pace_kind kind, enum bytes_what what, uint64_t bytes, CUstream stream);

/* pacing_pay_small() - for `count` copies of less than 64 KiB each in one call, of which `bytes` (below 64
 * KiB) are not paid for otherwise. */
void pacing_pay_small(
	enum pace_kind kind, enum bytes_what what, uint64_t count, uint64_t bytes, CUstream stream);
bool pacing_is_small_copy(enum pace_kind kind, uint64_t bytes);

/* pacing_kind_of() - of a copy between unified addresses, or with the side that is no address given as 0: an
 * array, on the GPU. PACE_KINDS: within the machine's memory. */
enum pace_kind pacing_kind_of(CUdeviceptr to, CUdeviceptr from);
