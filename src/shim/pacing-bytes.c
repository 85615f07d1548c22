#include "shim/pacing-bytes.h"

#include "shim/cuda-library.h"
#include "shim/pacing-constants.h"

static uint64_t key_of(enum pace_kind kind, enum bytes_what what, bool is_small)
{
	uint64_t words[] = {kind, what, is_small};

	return cost_key(words, 3);
}

void pacing_pay_small(
	enum pace_kind kind, enum bytes_what what, uint64_t count, uint64_t bytes, CUstream stream)
{
	if (count != 0)
		pacing_pay(kind, key_of(kind, what, false), count * SMALL_COPY_NS, (uint32_t)bytes, stream);
}

bool pacing_is_small_copy(enum pace_kind kind, uint64_t bytes)
{
	return kind != PACE_CORE && bytes >> PART_SHIFT == 0;
}

void pacing_begin_bytes(
	struct pace *pace, enum pace_kind kind, enum bytes_what what, uint64_t bytes, CUstream stream)
{
	uint64_t parts = (bytes + (UINT64_C(1) << PART_SHIFT) - 1) >> PART_SHIFT;

	pace->paced = false;
	if (kind == PACE_KINDS || bytes == 0)
		return;
	if (pacing_is_small_copy(kind, bytes))
		pacing_pay_small(kind, what, 1, bytes, stream);
	else
		pacing_begin(pace, kind, key_of(kind, what, bytes >> PART_SHIFT == 0),
			parts < UINT32_MAX ? (uint32_t)parts : UINT32_MAX, stream);
}

static bool is_host(CUdeviceptr address)
{
	unsigned type = 0;

	if (address == 0)
		return false;
	/* Memory that the driver does not know is the program's own host memory. */
	return DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
		       CUDA_SUCCESS ||
	       type == CU_MEMORYTYPE_HOST;
}

enum pace_kind pacing_kind_of(CUdeviceptr to, CUdeviceptr from)
{
	bool to_host = is_host(to), from_host = is_host(from);

	if (to_host)
		return from_host ? PACE_KINDS : PACE_FROM_GPU;
	return from_host ? PACE_TO_GPU : PACE_CORE;
}
