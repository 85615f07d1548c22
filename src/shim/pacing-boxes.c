/* Copies of rectangles, boxes and of many things at once. */
#include "shim/cuda-library.h"
#include "shim/pacing-bytes.h"

/* One call may copy in all directions. */
struct paces {
	struct pace of[PACE_KINDS];
};

/* A side of a copy as pacing_kind_of() takes it. */
static CUdeviceptr side(CUmemorytype type, const void *host, CUdeviceptr device)
{
	if (type == CU_MEMORYTYPE_HOST)
		return (uintptr_t)host;
	return type == CU_MEMORYTYPE_UNIFIED ? device : 0;
}

static void begin_box(struct pace *pace, CUdeviceptr to, CUdeviceptr from, enum bytes_what what,
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
	if (c && pacing_is_on())
		begin_box(pace, side(c->dstMemoryType, c->dstHost, c->dstDevice),
			side(c->srcMemoryType, c->srcHost, c->srcDevice), BYTES_COPY,
			(uint64_t)c->WidthInBytes * c->Height, stream);
}

static void begin_2d_v1(struct pace *pace, const CUDA_MEMCPY2D_v1 *c, CUstream stream)
{
	pace->paced = false;
	if (c && pacing_is_on())
		begin_box(pace, side(c->dstMemoryType, c->dstHost, c->dstDevice),
			side(c->srcMemoryType, c->srcHost, c->srcDevice), BYTES_COPY,
			(uint64_t)c->WidthInBytes * c->Height, stream);
}

static void begin_3d_of(struct pace *pace, const CUDA_MEMCPY3D *c, enum bytes_what what, CUstream stream)
{
	pace->paced = false;
	if (c && pacing_is_on())
		begin_box(pace, side(c->dstMemoryType, c->dstHost, c->dstDevice),
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
	if (c && pacing_is_on())
		begin_box(pace, side(c->dstMemoryType, c->dstHost, c->dstDevice),
			side(c->srcMemoryType, c->srcHost, c->srcDevice), BYTES_COPY,
			(uint64_t)c->WidthInBytes * c->Height * c->Depth, stream);
}

/* What one call copies in each direction, and in how many small copies. */
struct batch {
	uint64_t bytes[PACE_KINDS + 1], small[PACE_KINDS + 1];
};

static void batch_add(struct batch *batch, enum pace_kind kind, uint64_t bytes)
{
	batch->bytes[kind] += bytes;
	batch->small[kind] += pacing_is_small_copy(kind, bytes);
}

static void begin_all(struct paces *paces, const struct batch *batch, CUstream stream)
{
	for (unsigned kind = 0; kind < PACE_KINDS; kind++) {
		uint64_t small = batch->small[kind];

		/* One of them is in what follows. */
		if (pacing_is_small_copy(kind, batch->bytes[kind]) && small > 0)
			small--;
		if (small > 0)
			pacing_pay_small(kind, BYTES_COPY, small, 0, stream);
		pacing_begin_bytes(&paces->of[kind], kind, BYTES_COPY, batch->bytes[kind], stream);
	}
}

static CUresult end_all(struct paces *paces, CUresult r)
{
	for (unsigned kind = 0; kind < PACE_KINDS; kind++)
		pacing_end(&paces->of[kind], r);
	return r;
}

static void begin_batch(struct paces *paces, const CUdeviceptr *to, const CUdeviceptr *from,
	const size_t *bytes, size_t count, CUstream stream)
{
	struct batch batch = {0};

	if (to && from && bytes && pacing_is_on())
		for (size_t i = 0; i < count; i++)
			batch_add(&batch, pacing_kind_of(to[i], from[i]), bytes[i]);
	begin_all(paces, &batch, stream);
}

static CUdeviceptr operand(const CUmemcpy3DOperand *o)
{
	return o->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? o->op.ptr.ptr : 0;
}

/* The extent of arrays is in elements, of 16 bytes at most: taken for bytes. */
static void begin_boxes(
	struct paces *paces, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count, CUstream stream)
{
	struct batch batch = {0};

	if (list && pacing_is_on())
		for (size_t i = 0; i < count; i++)
			batch_add(&batch, pacing_kind_of(operand(&list[i].dst), operand(&list[i].src)),
				(uint64_t)list[i].extent.width * list[i].extent.height *
					list[i].extent.depth);
	begin_all(paces, &batch, stream);
}

/* What goes to or comes from an endpoint of the fabric is moved by this GPU's copy engine, as between two
 * GPUs. */
static enum pace_kind fabric_kind(const CUDA_FABRIC_COPY_BATCH_OP *op)
{
	if (op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return PACE_FROM_GPU;
	return pacing_kind_of(op->dst.op.ptr.ptr, op->src.op.ptr.ptr);
}

static void begin_fabric(
	struct paces *paces, const CUDA_FABRIC_COPY_BATCH_OP *list, size_t count, CUstream stream)
{
	struct batch batch = {0};

	if (list && pacing_is_on())
		for (size_t i = 0; i < count; i++)
			batch_add(&batch, fabric_kind(&list[i]), list[i].size);
	begin_all(paces, &batch, stream);
}

static void begin_decompression(
	struct pace *pace, const CUmemDecompressParams *list, size_t count, CUstream stream)
{
	uint64_t sum = 0;

	for (size_t i = 0; list && pacing_is_on() && i < count; i++)
		sum += list[i].dstNumBytes > list[i].srcNumBytes ? list[i].dstNumBytes : list[i].srcNumBytes;
	pacing_begin_bytes(pace, PACE_CORE, BYTES_DECOMPRESSED, sum, stream);
}

static CUresult end(struct pace *pace, CUresult r)
{
	pacing_end(pace, r);
	return r;
}

HOOK CUresult cuMemBatchDecompressAsync(
	CUmemDecompressParams *list, size_t count, unsigned int flags, size_t *error, CUstream stream)
{
	struct pace pace;

	begin_decompression(&pace, list, count, stream);
	return end(&pace, DRIVER(cuMemBatchDecompressAsync)(list, count, flags, error, stream));
}

HOOK CUresult cuMemBatchDecompressAsync_ptsz(
	CUmemDecompressParams *list, size_t count, unsigned int flags, size_t *error, CUstream stream)
{
	struct pace pace;

	begin_decompression(&pace, list, count, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemBatchDecompressAsync_ptsz)(list, count, flags, error, stream));
}

HOOK CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *copy)
{
	struct pace pace;

	begin_2d_v1(&pace, copy, NULL);
	return end(&pace, DRIVER(cuMemcpy2D)(copy));
}

HOOK CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *copy, CUstream stream)
{
	struct pace pace;

	begin_2d_v1(&pace, copy, stream);
	return end(&pace, DRIVER(cuMemcpy2DAsync)(copy, stream));
}

HOOK CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	struct pace pace;

	begin_2d(&pace, copy, stream);
	return end(&pace, DRIVER(cuMemcpy2DAsync_v2)(copy, stream));
}

HOOK CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	struct pace pace;

	begin_2d(&pace, copy, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpy2DAsync_v2_ptsz)(copy, stream));
}

HOOK CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *copy)
{
	struct pace pace;

	begin_2d_v1(&pace, copy, NULL);
	return end(&pace, DRIVER(cuMemcpy2DUnaligned)(copy));
}

HOOK CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
	struct pace pace;

	begin_2d(&pace, copy, NULL);
	return end(&pace, DRIVER(cuMemcpy2DUnaligned_v2)(copy));
}

HOOK CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy)
{
	struct pace pace;

	begin_2d(&pace, copy, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpy2DUnaligned_v2_ptds)(copy));
}

HOOK CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
	struct pace pace;

	begin_2d(&pace, copy, NULL);
	return end(&pace, DRIVER(cuMemcpy2D_v2)(copy));
}

HOOK CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy)
{
	struct pace pace;

	begin_2d(&pace, copy, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpy2D_v2_ptds)(copy));
}

HOOK CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *copy)
{
	struct pace pace;

	begin_3d_v1(&pace, copy, NULL);
	return end(&pace, DRIVER(cuMemcpy3D)(copy));
}

HOOK CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *copy, CUstream stream)
{
	struct pace pace;

	begin_3d_v1(&pace, copy, stream);
	return end(&pace, DRIVER(cuMemcpy3DAsync)(copy, stream));
}

HOOK CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	struct pace pace;

	begin_3d(&pace, copy, stream);
	return end(&pace, DRIVER(cuMemcpy3DAsync_v2)(copy, stream));
}

HOOK CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	struct pace pace;

	begin_3d(&pace, copy, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpy3DAsync_v2_ptsz)(copy, stream));
}

HOOK CUresult cuMemcpy3DBatchAsync(
	size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags, CUstream stream)
{
	struct paces paces;

	begin_boxes(&paces, list, count, stream);
	return end_all(&paces, DRIVER(cuMemcpy3DBatchAsync)(count, list, failed, flags, stream));
}

HOOK CUresult cuMemcpy3DBatchAsync_ptsz(
	size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags, CUstream stream)
{
	struct paces paces;

	begin_boxes(&paces, list, count, pacing_own_stream(stream));
	return end_all(&paces, DRIVER(cuMemcpy3DBatchAsync_ptsz)(count, list, failed, flags, stream));
}

HOOK CUresult cuMemcpy3DBatchAsync_v2(
	size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream)
{
	struct paces paces;

	begin_boxes(&paces, list, count, stream);
	return end_all(&paces, DRIVER(cuMemcpy3DBatchAsync_v2)(count, list, flags, stream));
}

HOOK CUresult cuMemcpy3DBatchAsync_v2_ptsz(
	size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream)
{
	struct paces paces;

	begin_boxes(&paces, list, count, pacing_own_stream(stream));
	return end_all(&paces, DRIVER(cuMemcpy3DBatchAsync_v2_ptsz)(count, list, flags, stream));
}

HOOK CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy)
{
	struct pace pace;

	begin_peer_3d(&pace, copy, NULL);
	return end(&pace, DRIVER(cuMemcpy3DPeer)(copy));
}

HOOK CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	struct pace pace;

	begin_peer_3d(&pace, copy, stream);
	return end(&pace, DRIVER(cuMemcpy3DPeerAsync)(copy, stream));
}

HOOK CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	struct pace pace;

	begin_peer_3d(&pace, copy, pacing_own_stream(stream));
	return end(&pace, DRIVER(cuMemcpy3DPeerAsync_ptsz)(copy, stream));
}

HOOK CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *copy)
{
	struct pace pace;

	begin_peer_3d(&pace, copy, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpy3DPeer_ptds)(copy));
}

HOOK CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
	struct pace pace;

	begin_3d(&pace, copy, NULL);
	return end(&pace, DRIVER(cuMemcpy3D_v2)(copy));
}

HOOK CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy)
{
	struct pace pace;

	begin_3d(&pace, copy, CU_STREAM_PER_THREAD);
	return end(&pace, DRIVER(cuMemcpy3D_v2_ptds)(copy));
}

HOOK CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
	void *attributes, size_t *indices, size_t attributes_count, size_t *failed, CUstream stream)
{
	struct paces paces;

	begin_batch(&paces, to, from, bytes, count, stream);
	return end_all(&paces, DRIVER(cuMemcpyBatchAsync)(to, from, bytes, count, attributes, indices,
				       attributes_count, failed, stream));
}

HOOK CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
	void *attributes, size_t *indices, size_t attributes_count, size_t *failed, CUstream stream)
{
	struct paces paces;

	begin_batch(&paces, to, from, bytes, count, pacing_own_stream(stream));
	return end_all(&paces, DRIVER(cuMemcpyBatchAsync_ptsz)(to, from, bytes, count, attributes, indices,
				       attributes_count, failed, stream));
}

HOOK CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
	void *attributes, size_t *indices, size_t attributes_count, CUstream stream)
{
	struct paces paces;

	begin_batch(&paces, to, from, bytes, count, stream);
	return end_all(&paces, DRIVER(cuMemcpyBatchAsync_v2)(to, from, bytes, count, attributes, indices,
				       attributes_count, stream));
}

HOOK CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
	void *attributes, size_t *indices, size_t attributes_count, CUstream stream)
{
	struct paces paces;

	begin_batch(&paces, to, from, bytes, count, pacing_own_stream(stream));
	return end_all(&paces, DRIVER(cuMemcpyBatchAsync_v2_ptsz)(to, from, bytes, count, attributes, indices,
				       attributes_count, stream));
}

HOOK CUresult cuMemcpy3DWithAttributesAsync(
	CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream stream)
{
	struct paces paces;

	begin_boxes(&paces, op, 1, stream);
	return end_all(&paces, DRIVER(cuMemcpy3DWithAttributesAsync)(op, flags, stream));
}

HOOK CUresult cuMemcpy3DWithAttributesAsync_ptsz(
	CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream stream)
{
	struct paces paces;

	begin_boxes(&paces, op, 1, pacing_own_stream(stream));
	return end_all(&paces, DRIVER(cuMemcpy3DWithAttributesAsync_ptsz)(op, flags, stream));
}

HOOK CUresult cuFabricCpyBatchAsync(
	size_t count, CUDA_FABRIC_COPY_BATCH_OP *list, unsigned long long flags, CUstream stream)
{
	struct paces paces;

	begin_fabric(&paces, list, count, stream);
	return end_all(&paces, DRIVER(cuFabricCpyBatchAsync)(count, list, flags, stream));
}

HOOK CUresult cuFabricCpyBatchAsync_ptsz(
	size_t count, CUDA_FABRIC_COPY_BATCH_OP *list, unsigned long long flags, CUstream stream)
{
	struct paces paces;

	begin_fabric(&paces, list, count, pacing_own_stream(stream));
	return end_all(&paces, DRIVER(cuFabricCpyBatchAsync_ptsz)(count, list, flags, stream));
}
