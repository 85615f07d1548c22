/* Managed memory that is moved to or from the GPU before it is touched. What is there already is not moved,
 * so a prefetch has a cost of its own, of which the low samples are those that moved nothing. */
#include "shim/cuda-library.h"
#include "shim/pacing-bytes.h"

static enum pace_kind kind_of(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? PACE_TO_GPU : PACE_FROM_GPU;
}

static void begin(struct pace *pace, enum pace_kind kind, uint64_t bytes, CUstream stream)
{
	pacing_begin_bytes(pace, kind, BYTES_PREFETCHED, bytes, stream);
}

static CUresult end(struct pace *pace, CUresult r)
{
	pacing_end(pace, r);
	return r;
}

HOOK CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
{
	struct pace pace;

	begin(&pace, device == CU_DEVICE_CPU ? PACE_FROM_GPU : PACE_TO_GPU, bytes, stream);
	return end(&pace, DRIVER(cuMemPrefetchAsync)(address, bytes, device, stream));
}

HOOK CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
{
	struct pace pace;

	begin(&pace, device == CU_DEVICE_CPU ? PACE_FROM_GPU : PACE_TO_GPU, bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemPrefetchAsync_ptsz)(address, bytes, device, stream));
}

HOOK CUresult cuMemPrefetchAsync_v2(
	CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags, CUstream stream)
{
	struct pace pace;

	begin(&pace, kind_of(location), bytes, stream);
	return end(&pace, DRIVER(cuMemPrefetchAsync_v2)(address, bytes, location, flags, stream));
}

HOOK CUresult cuMemPrefetchAsync_v2_ptsz(
	CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags, CUstream stream)
{
	struct pace pace;

	begin(&pace, kind_of(location), bytes, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemPrefetchAsync_v2_ptsz)(address, bytes, location, flags, stream));
}

/* ---- several ranges in one call -------------------------------------------------------------------------
 */

struct ranges {
	const size_t *bytes;
	size_t count;
	const CUmemLocation *locations; /* each from the range of its index on */
	const size_t *first;
	size_t location_count;
};

struct both {
	struct pace to, from;
};

static void begin_ranges(struct both *both, const struct ranges *ranges, CUstream stream)
{
	uint64_t to = 0, from = 0;
	size_t at = 0;

	if (pacing_is_on() && ranges->bytes && ranges->locations && ranges->first && ranges->location_count)
		for (size_t i = 0; i < ranges->count; i++) {
			while (at + 1 < ranges->location_count && ranges->first[at + 1] <= i)
				at++;
			*(kind_of(ranges->locations[at]) == PACE_TO_GPU ? &to : &from) += ranges->bytes[i];
		}
	begin(&both->to, PACE_TO_GPU, to, stream);
	begin(&both->from, PACE_FROM_GPU, from, stream);
}

static CUresult end_both(struct both *both, CUresult r)
{
	pacing_end(&both->to, r);
	return end(&both->from, r);
}

HOOK CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *bytes, size_t count,
	CUmemLocation *locations, size_t *first, size_t location_count, unsigned long long flags,
	CUstream stream)
{
	const struct ranges ranges = {bytes, count, locations, first, location_count};
	struct both both;

	begin_ranges(&both, &ranges, stream);
	return end_both(&both, DRIVER(cuMemPrefetchBatchAsync)(addresses, bytes, count, locations, first,
				       location_count, flags, stream));
}

HOOK CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *addresses, size_t *bytes, size_t count,
	CUmemLocation *locations, size_t *first, size_t location_count, unsigned long long flags,
	CUstream stream)
{
	const struct ranges ranges = {bytes, count, locations, first, location_count};
	struct both both;

	begin_ranges(&both, &ranges, pacing_own_stream(stream));
	return end_both(&both, DRIVER(cuMemPrefetchBatchAsync_ptsz)(addresses, bytes, count, locations, first,
				       location_count, flags, stream));
}
