/* Hooks of calls that start work: kernels, copies, fills, prefetches. Before the driver is called, each waits
 * until its container may use the GPU. Then the container is charged for the work (pacing.h).
 *
 * Most of them are rows of hooks.def. A row names the function that begins the wait: one of the begin_*()
 * below, which compute the cost from the arguments.
 */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/pacing-constants.h"
#include "shim/pacing.h"

/* ---- kernels --------------------------------------------------------------------------------------------
 */

/* The cost of a kernel is stored by its function and its launch shape. */
struct shape {
	uint64_t words[COST_KEY_WORDS];
};

static struct shape shape_of(
	CUfunction function, const unsigned grid[3], const unsigned block[3], unsigned shared)
{
	return (struct shape){{(uintptr_t)function, grid[0] | (uint64_t)grid[1] << 32,
		grid[2] | (uint64_t)block[0] << 32, block[1] | (uint64_t)block[2] << 32, shared}};
}

static void begin_shape(struct pace *pace, const struct shape *shape, CUstream stream)
{
	pacing_begin(pace, PACE_CORE, cost_key(shape->words, COST_KEY_WORDS), 1, stream);
}

static void begin_kernel(struct pace *pace, CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
	CUstream stream)
{
	struct shape shape = shape_of(function, (unsigned[]){grid_x, grid_y, grid_z},
		(unsigned[]){block_x, block_y, block_z}, shared);

	begin_shape(pace, &shape, stream);
}

/* As before CUDA 4: the function object holds the shape of its block. */
static void begin_grid(struct pace *pace, CUfunction function, int width, int height, CUstream stream)
{
	struct shape shape = shape_of(
		function, (unsigned[]){(unsigned)width, (unsigned)height, 0}, (unsigned[]){0, 0, 0}, 0);

	begin_shape(pace, &shape, stream);
}

enum bytes_what { BYTES_COPY, BYTES_FILL, BYTES_DECOMPRESSED, BYTES_PEER, BYTES_PREFETCHED };

static uint64_t key_of(enum pace_kind kind, enum bytes_what what, bool is_small)
{
	uint64_t words[] = {kind, what, is_small};

	return cost_key(words, 3);
}

/* pacing_pay_small() - for `count` copies of less than 64 KiB each in one call, of which `bytes` (below 64
 * KiB) are not charged otherwise. */
static void pacing_pay_small(
	enum pace_kind kind, enum bytes_what what, uint64_t count, uint64_t bytes, CUstream stream)
{
	if (count != 0)
		pacing_pay(kind, key_of(kind, what, false), count * SMALL_COPY_NS, (uint32_t)bytes, stream);
}

static bool pacing_is_small_copy(enum pace_kind kind, uint64_t bytes)
{
	return kind != PACE_CORE && bytes >> PART_SHIFT == 0;
}

/* pacing_begin_bytes() - pacing_begin() for a number of bytes. A copy of less than 64 KiB between host and
 * GPU is charged and not measured. */
static void pacing_begin_bytes(
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

/* pacing_kind_of() - the kind of a copy between unified addresses. A side that has no address is given as 0:
 * an array, which is on the GPU. PACE_KINDS: the copy is within host memory. */
static enum pace_kind pacing_kind_of(CUdeviceptr to, CUdeviceptr from)
{
	bool to_host = is_host(to), from_host = is_host(from);

	if (to_host)
		return from_host ? PACE_KINDS : PACE_FROM_GPU;
	return from_host ? PACE_TO_GPU : PACE_CORE;
}

/* ---- copies ---------------------------------------------------------------------------------------------
 */

static void begin_copy(struct pace *pace, enum pace_kind kind, uint64_t bytes, CUstream stream)
{
	pacing_begin_bytes(pace, kind, BYTES_COPY, bytes, stream);
}

static void begin_unified_copy(
	struct pace *pace, CUdeviceptr to, CUdeviceptr from, uint64_t bytes, CUstream stream)
{
	begin_copy(pace, pacing_kind_of(to, from), bytes, stream);
}

/* A copy between GPUs uses the copy engine of the sending GPU. */
static void begin_peer_copy(struct pace *pace, uint64_t bytes, CUstream stream)
{
	pacing_begin_bytes(pace, PACE_FROM_GPU, BYTES_PEER, bytes, stream);
}

/* Returns one side of a copy in the form that pacing_kind_of() takes. */
static CUdeviceptr side(CUmemorytype type, const void *host, CUdeviceptr device)
{
	if (type == CU_MEMORYTYPE_HOST)
		return (uintptr_t)host;
	return type == CU_MEMORYTYPE_UNIFIED ? device : 0;
}

static void begin_copy_nd(struct pace *pace, CUdeviceptr to, CUdeviceptr from, enum bytes_what what,
	uint64_t bytes, CUstream stream)
{
	enum pace_kind kind = pacing_kind_of(to, from);

	if (what == BYTES_PEER && kind == PACE_CORE)
		kind = PACE_FROM_GPU;
	pacing_begin_bytes(pace, kind, what, bytes, stream);
}

static void begin_2d(struct pace *pace, const CUDA_MEMCPY2D *c, CUstream stream)
{
	pace->paced = false;
	if (c)
		begin_copy_nd(pace, side(c->dstMemoryType, c->dstHost, c->dstDevice),
			side(c->srcMemoryType, c->srcHost, c->srcDevice), BYTES_COPY,
			(uint64_t)c->WidthInBytes * c->Height, stream);
}

static void begin_2d_v1(struct pace *pace, const CUDA_MEMCPY2D_v1 *c, CUstream stream)
{
	pace->paced = false;
	if (c)
		begin_copy_nd(pace, side(c->dstMemoryType, c->dstHost, c->dstDevice),
			side(c->srcMemoryType, c->srcHost, c->srcDevice), BYTES_COPY,
			(uint64_t)c->WidthInBytes * c->Height, stream);
}

static void begin_3d_of(struct pace *pace, const CUDA_MEMCPY3D *c, enum bytes_what what, CUstream stream)
{
	pace->paced = false;
	if (c)
		begin_copy_nd(pace, side(c->dstMemoryType, c->dstHost, c->dstDevice),
			side(c->srcMemoryType, c->srcHost, c->srcDevice), what,
			(uint64_t)c->WidthInBytes * c->Height * c->Depth, stream);
}

static void begin_3d(struct pace *pace, const CUDA_MEMCPY3D *c, CUstream stream)
{
	begin_3d_of(pace, c, BYTES_COPY, stream);
}

static void begin_peer_3d(struct pace *pace, const CUDA_MEMCPY3D_PEER *c, CUstream stream)
{
	begin_3d_of(pace, c, BYTES_PEER, stream);
}

static void begin_3d_v1(struct pace *pace, const CUDA_MEMCPY3D_v1 *c, CUstream stream)
{
	pace->paced = false;
	if (c)
		begin_copy_nd(pace, side(c->dstMemoryType, c->dstHost, c->dstDevice),
			side(c->srcMemoryType, c->srcHost, c->srcDevice), BYTES_COPY,
			(uint64_t)c->WidthInBytes * c->Height * c->Depth, stream);
}

/* The bytes that one call copies in each direction, and the number of its small copies. */
struct batch {
	uint64_t bytes[PACE_KINDS + 1], small[PACE_KINDS + 1];
};

static void batch_add(struct batch *batch, enum pace_kind kind, uint64_t bytes)
{
	batch->bytes[kind] += bytes;
	batch->small[kind] += pacing_is_small_copy(kind, bytes);
}

static void begin_all(struct pace *paces, const struct batch *batch, CUstream stream)
{
	for (unsigned kind = 0; kind < PACE_KINDS; kind++) {
		uint64_t small = batch->small[kind];

		/* One of the small copies is part of the following call. */
		if (pacing_is_small_copy(kind, batch->bytes[kind]) && small > 0)
			small--;
		if (small > 0)
			pacing_pay_small(kind, BYTES_COPY, small, 0, stream);
		pacing_begin_bytes(&paces[kind], kind, BYTES_COPY, batch->bytes[kind], stream);
	}
}

static void begin_batch(struct pace *paces, const CUdeviceptr *to, const CUdeviceptr *from,
	const size_t *bytes, size_t count, CUstream stream)
{
	struct batch batch = {0};

	if (to && from && bytes)
		for (size_t i = 0; i < count; i++)
			batch_add(&batch, pacing_kind_of(to[i], from[i]), bytes[i]);
	begin_all(paces, &batch, stream);
}

static CUdeviceptr operand(const CUmemcpy3DOperand *o)
{
	return o->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? o->op.ptr.ptr : 0;
}

/* The extent of arrays is in elements of at most 16 bytes; it is treated as bytes. */
static void begin_copy_3d_batch(
	struct pace *paces, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count, CUstream stream)
{
	struct batch batch = {0};

	if (list)
		for (size_t i = 0; i < count; i++)
			batch_add(&batch, pacing_kind_of(operand(&list[i].dst), operand(&list[i].src)),
				(uint64_t)list[i].extent.width * list[i].extent.height *
					list[i].extent.depth);
	begin_all(paces, &batch, stream);
}

/* This GPU's copy engine moves data to and from an endpoint of the fabric, as between two GPUs. */
static enum pace_kind fabric_kind(const CUDA_FABRIC_COPY_BATCH_OP *op)
{
	if (op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return PACE_FROM_GPU;
	return pacing_kind_of(op->dst.op.ptr.ptr, op->src.op.ptr.ptr);
}

static void begin_fabric(
	struct pace *paces, const CUDA_FABRIC_COPY_BATCH_OP *list, size_t count, CUstream stream)
{
	struct batch batch = {0};

	if (list)
		for (size_t i = 0; i < count; i++)
			batch_add(&batch, fabric_kind(&list[i]), list[i].size);
	begin_all(paces, &batch, stream);
}

static void begin_decompression(
	struct pace *pace, const CUmemDecompressParams *list, size_t count, CUstream stream)
{
	uint64_t sum = 0;

	for (size_t i = 0; list && i < count; i++)
		sum += list[i].dstNumBytes > list[i].srcNumBytes ? list[i].dstNumBytes : list[i].srcNumBytes;
	pacing_begin_bytes(pace, PACE_CORE, BYTES_DECOMPRESSED, sum, stream);
}

/* ---- fills and prefetches ------------------------------------------------------------------------------
 */

/* The driver executes a fill as a kernel of its own. */
static void begin_memset(struct pace *pace, uint64_t bytes, CUstream stream)
{
	pacing_begin_bytes(pace, PACE_CORE, BYTES_FILL, bytes, stream);
}

/* A prefetch moves managed memory to or from the GPU before it is used. Memory that is there already is not
 * moved. So a prefetch has a cost of its own, and its low samples are the ones that moved nothing. */
static enum pace_kind kind_of_prefetch(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? PACE_TO_GPU : PACE_FROM_GPU;
}

static void begin_prefetch(struct pace *pace, enum pace_kind kind, uint64_t bytes, CUstream stream)
{
	pacing_begin_bytes(pace, kind, BYTES_PREFETCHED, bytes, stream);
}

/* The ranges of one call. */
struct ranges {
	const size_t *bytes;
	size_t count;
	const CUmemLocation *locations; /* each location is for the ranges from its index on */
	const size_t *first;
	size_t location_count;
};

static void begin_prefetches(struct pace *paces, const struct ranges *ranges, CUstream stream)
{
	uint64_t to = 0, from = 0;
	size_t at = 0;

	if (ranges->bytes && ranges->locations && ranges->first && ranges->location_count)
		for (size_t i = 0; i < ranges->count; i++) {
			while (at + 1 < ranges->location_count && ranges->first[at + 1] <= i)
				at++;
			*(kind_of_prefetch(ranges->locations[at]) == PACE_TO_GPU ? &to
										 : &from) += ranges->bytes[i];
		}
	begin_prefetch(&paces[0], PACE_TO_GPU, to, stream);
	begin_prefetch(&paces[1], PACE_FROM_GPU, from, stream);
}

/* ---- hooks that are rows --------------------------------------------------------------------------------
 */

/* One hook: in which stream the work is started; how many engines of a GPU it may use; how the wait begins.
 */
#define WORK(symbol, on, params, args, engines, begin, ...)                                                  \
	HOOK CUresult symbol params                                                                          \
	{                                                                                                    \
		struct pace paces[engines];                                                                  \
		CUresult r;                                                                                  \
                                                                                                             \
		if (!pacing_is_on())                                                                         \
			return DRIVER(symbol) args;                                                          \
		begin(paces, __VA_ARGS__, on);                                                               \
		r = DRIVER(symbol) args;                                                                     \
		for (unsigned i = 0; i < (engines); i++)                                                     \
			pacing_end(&paces[i], r);                                                            \
		return r;                                                                                    \
	}
#define WORK_V1(symbol, ...) WORK(symbol, NULL, __VA_ARGS__)
#define WORK_V1_ASYNC(symbol, ...) WORK(symbol, stream, __VA_ARGS__)
#define WORK_SYNC(symbol, variant, ...)                                                                      \
	WORK(symbol, NULL, __VA_ARGS__) WORK(symbol##_ptds, CU_STREAM_PER_THREAD, __VA_ARGS__)
#define WORK_ASYNC(symbol, variant, ...)                                                                     \
	WORK(symbol, stream, __VA_ARGS__) WORK(symbol##_ptsz, pacing_own_stream(stream), __VA_ARGS__)
#include "shim/hooks.def"

/* ---- hooks of another shape -----------------------------------------------------------------------------
 */

static void begin_config(
	struct pace *pace, const CUlaunchConfig *config, CUfunction function, CUstream stream)
{
	struct shape shape = shape_of(function,
		(unsigned[]){config->gridDimX, config->gridDimY, config->gridDimZ},
		(unsigned[]){config->blockDimX, config->blockDimY, config->blockDimZ},
		config->sharedMemBytes);

	for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
		const CUlaunchAttribute *attribute = &config->attrs[i];

		if (attribute->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			continue;
		shape.words[5] = attribute->value.clusterDim.x | (uint64_t)attribute->value.clusterDim.y
									 << 32;
		shape.words[6] = attribute->value.clusterDim.z;
	}
	begin_shape(pace, &shape, stream);
}

HOOK CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	struct pace pace;
	CUresult r;

	if (!config || !pacing_is_on())
		return DRIVER(cuLaunchKernelEx)(config, function, params, extra);
	begin_config(&pace, config, function, config->hStream);
	r = DRIVER(cuLaunchKernelEx)(config, function, params, extra);
	pacing_end(&pace, r);
	return r;
}

HOOK CUresult cuLaunchKernelEx_ptsz(
	const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	struct pace pace;
	CUresult r;

	if (!config || !pacing_is_on())
		return DRIVER(cuLaunchKernelEx_ptsz)(config, function, params, extra);
	begin_config(&pace, config, function, pacing_own_stream(config->hStream));
	r = DRIVER(cuLaunchKernelEx_ptsz)(config, function, params, extra);
	pacing_end(&pace, r);
	return r;
}

/* Launches on several GPUs, in streams of their own contexts. The kernels wait for each other, so all of them
 * are charged before the first starts. */
HOOK CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags)
{
	struct pace paces[CUDA_DEVICES_MAX];
	bool paced = list && count <= CUDA_DEVICES_MAX && pacing_is_on();
	CUresult r;

	for (unsigned i = 0; paced && i < count; i++)
		begin_kernel(&paces[i], list[i].function, list[i].gridDimX, list[i].gridDimY,
			list[i].gridDimZ, list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ,
			list[i].sharedMemBytes, list[i].hStream);
	r = DRIVER(cuLaunchCooperativeKernelMultiDevice)(list, count, flags);
	for (unsigned i = 0; paced && i < count; i++)
		pacing_end(&paces[i], r);
	return r;
}

/* Kernels that start other kernels. No public document describes their arguments, so they can be neither
 * charged nor paced. The answer is that of a driver without the feature. */
static CUresult refuse_subgrid(void)
{
	return cuda_is_started() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
}

HOOK CUresult cuSubgridCreate(void)
{
	return refuse_subgrid();
}

HOOK CUresult cuSubgridWorkerGridCreate(void)
{
	return refuse_subgrid();
}

HOOK CUresult cuSubgridWorksetCreate(void)
{
	return refuse_subgrid();
}
