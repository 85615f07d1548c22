#include "shim/pacing-bytes.h"

#include "shim/cuda-library.h"

/* What a sample is the cost of: a part of this size. Smaller fills and copies within the card are kernels of
 * their own; smaller copies to and from it take less time than the call. */
#define PART_SHIFT 16

void pacing_begin_bytes(
	struct pace *pace, enum pace_kind kind, enum bytes_what what, uint64_t bytes, CUstream stream)
{
	uint64_t parts = (bytes + (UINT64_C(1) << PART_SHIFT) - 1) >> PART_SHIFT;
	bool is_small = bytes >> PART_SHIFT == 0;
	uint64_t words[] = {kind, what, is_small};

	pace->paced = false;
	if (kind == PACE_KINDS || bytes == 0 || (is_small && kind != PACE_CORE) || !pacing_is_on())
		return;
	pacing_begin(
		pace, kind, cost_key(words, 3), parts < UINT32_MAX ? (uint32_t)parts : UINT32_MAX, stream);
}

static bool is_host(CUdeviceptr address)
{
	unsigned type = 0;

	if (address == 0)
		return false;
	/* What the driver does not know is the program's own memory. */
	return DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
		       CUDA_SUCCESS ||
	       type == CU_MEMORYTYPE_HOST;
}

enum pace_kind pacing_kind_of(CUdeviceptr to, CUdeviceptr from)
{
	bool to_host = is_host(to), from_host = is_host(from);

	if (to_host)
		return from_host ? PACE_KINDS : PACE_FROM_CARD;
	return from_host ? PACE_TO_CARD : PACE_CORE;
}
