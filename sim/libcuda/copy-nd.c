/* copy-nd.c - cuMemcpy2D and 3D: copies of boxes between host, device and arrays. */
#include "sim/libcuda/array.h"
#include "sim/libcuda/task.h"

/* One side of a descriptor, in bytes. */
struct corner {
	CUmemorytype type;
	uint64_t host, device;
	CUarray array;
	size_t pitch, height; /* 0: as large as the box */
	size_t x, y, z;
};

static CUresult resolve(const struct corner *c, const struct copy *copy, uint64_t *ret_address,
	size_t *ret_pitch, size_t *ret_slice, bool *ret_host)
{
	size_t pitch = c->pitch ? c->pitch : c->x + copy->width;
	size_t height = c->height ? c->height : c->y + copy->height;
	uint64_t base = c->type == CU_MEMORYTYPE_HOST ? c->host : c->device;
	struct array *array;
	CUresult r;

	if (c->type == CU_MEMORYTYPE_ARRAY) {
		r = object_find((uintptr_t)c->array, OBJECT_ARRAY, &array);
		if (r != CUDA_SUCCESS)
			return r;
		base = array->region ? array->region->span.base : 0;
		pitch = array_pitch(array);
		height = array->height ? array->height : 1;
		if (!base || c->x + copy->width > pitch || c->y + copy->height > height)
			return CUDA_ERROR_INVALID_VALUE;
	} else if (c->type < CU_MEMORYTYPE_HOST || c->type > CU_MEMORYTYPE_UNIFIED) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (copy->height > 1 && pitch < copy->width)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_host = c->type == CU_MEMORYTYPE_HOST || (c->type == CU_MEMORYTYPE_UNIFIED && !region_at(base));
	*ret_address = base + (c->z * height + c->y) * pitch + c->x;
	*ret_pitch = pitch;
	*ret_slice = pitch * height;
	return CUDA_SUCCESS;
}

static CUresult copy_box(const CUDA_MEMCPY3D *d, CUstream handle, bool wait, const char *function)
{
	_cleanup_call_ struct call call = {};
	struct task task = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	struct stream *stream;
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = call_begin_context(&call, function);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r == CUDA_SUCCESS)
		r = copy_of_descriptor(d, &task.copy);
	if (r == CUDA_SUCCESS)
		r = copy_check(&task.copy);
	if (r == CUDA_SUCCESS)
		r = task_start(stream, &task);
	return r == CUDA_SUCCESS && wait ? stream_wait(stream) : r;
}

CUresult copy_of_descriptor(const CUDA_MEMCPY3D *d, struct copy *ret_copy)
{
	struct copy copy = {.width = d->WidthInBytes, .height = d->Height, .depth = d->Depth};
	struct corner to = {d->dstMemoryType, (uintptr_t)d->dstHost, d->dstDevice, d->dstArray, d->dstPitch,
		d->dstHeight, d->dstXInBytes, d->dstY, d->dstZ};
	struct corner from = {d->srcMemoryType, (uintptr_t)d->srcHost, d->srcDevice, d->srcArray, d->srcPitch,
		d->srcHeight, d->srcXInBytes, d->srcY, d->srcZ};
	CUresult r;

	r = resolve(&to, &copy, &copy.to, &copy.to_pitch, &copy.to_slice, &copy.to_host);
	if (r == CUDA_SUCCESS)
		r = resolve(&from, &copy, &copy.from, &copy.from_pitch, &copy.from_slice, &copy.from_host);
	if (r == CUDA_SUCCESS)
		*ret_copy = copy;
	return r;
}

static CUDA_MEMCPY3D box_of_plane(const CUDA_MEMCPY2D *d)
{
	return (CUDA_MEMCPY3D){.srcXInBytes = d->srcXInBytes,
		.srcY = d->srcY,
		.srcMemoryType = d->srcMemoryType,
		.srcHost = d->srcHost,
		.srcDevice = d->srcDevice,
		.srcArray = d->srcArray,
		.srcPitch = d->srcPitch,
		.dstXInBytes = d->dstXInBytes,
		.dstY = d->dstY,
		.dstMemoryType = d->dstMemoryType,
		.dstHost = d->dstHost,
		.dstDevice = d->dstDevice,
		.dstArray = d->dstArray,
		.dstPitch = d->dstPitch,
		.WidthInBytes = d->WidthInBytes,
		.Height = d->Height,
		.Depth = 1};
}

static CUresult copy_plane(const CUDA_MEMCPY2D *d, CUstream stream, bool wait, const char *function)
{
	CUDA_MEMCPY3D box;

	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	box = box_of_plane(d);
	return copy_box(&box, stream, wait, function);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *d)
{
	return copy_plane(d, NULL, true, __func__);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *d)
{
	return copy_plane(d, NULL, true, __func__);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *d, CUstream stream)
{
	return copy_plane(d, stream, false, __func__);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *d)
{
	return d ? copy_box(d, NULL, true, __func__) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *d, CUstream stream)
{
	return d ? copy_box(d, stream, false, __func__) : CUDA_ERROR_INVALID_VALUE;
}
