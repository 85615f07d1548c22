#include "sim/libcuda/array.h"

#include <stdlib.h>

#include "sim/libcuda/objects.h"

#define WIDTH_MAX 131072
#define LEVELS_MAX 18

static size_t element_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	}
	return 0;
}

size_t array_pitch(const struct array *array)
{
	return array->width * array->channels * element_bytes(array->format);
}

static size_t array_bytes(const struct array *array)
{
	return array_pitch(array) * (array->height ? array->height : 1) * (array->depth ? array->depth : 1);
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (!d || d->Width == 0 || d->Width > WIDTH_MAX || d->Height > WIDTH_MAX || d->Depth > 16384 ||
		(d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	if (d->Flags & CUDA_ARRAY3D_CUBEMAP && (d->Width != d->Height || d->Depth % 6 != 0 || d->Depth == 0))
		return CUDA_ERROR_INVALID_VALUE;
	/* Compressed and video formats are not simulated. */
	return element_bytes(d->Format) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void array_free_object(struct object *object)
{
	struct array *array = (struct array *)object;

	if (array->region)
		memory_free(array->region);
	object_forget(object);
	free(array);
}

static CUresult array_new(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *d, struct mipmapped *of,
	struct array **ret_array)
{
	struct array *array = calloc(1, sizeof(*array));
	CUresult r = CUDA_SUCCESS;

	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->width = d->Width;
	array->height = d->Height;
	array->depth = d->Depth;
	array->format = d->Format;
	array->channels = d->NumChannels;
	array->flags = d->Flags;
	array->mipmapped = of;
	if (!(d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)))
		r = memory_new(context, REGION_ARRAY, ARENA_DEVICE, array_bytes(array), &array->region);
	if (r == CUDA_SUCCESS && object_register(&array->object, OBJECT_ARRAY, of ? NULL : context) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		*ret_array = array;
	else
		array_free_object(&array->object);
	return r;
}

CUresult cuArray3DCreate_v2(CUarray *ret_handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct array *array;

	if (r == CUDA_SUCCESS)
		r = ret_handle ? check(descriptor) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = array_new(call.context, descriptor, NULL, &array);
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUarray)(uintptr_t)array->object.handle;
	return r;
}

CUresult cuArray3DCreate(CUarray *ret_handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;

	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	wide = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags};
	return cuArray3DCreate_v2(ret_handle, &wide);
}

CUresult cuArrayCreate_v2(CUarray *ret_handle, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR deep;

	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	deep = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	return cuArray3DCreate_v2(ret_handle, &deep);
}

CUresult cuArrayCreate(CUarray *ret_handle, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY_DESCRIPTOR wide;

	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	wide = (CUDA_ARRAY_DESCRIPTOR){d->Width, d->Height, d->Format, d->NumChannels};
	return cuArrayCreate_v2(ret_handle, &wide);
}

static CUresult find(struct call *call, CUarray handle, struct array **ret_array, const char *function)
{
	CUresult r = call_begin_context(call, function);

	return r == CUDA_SUCCESS ? object_find((uintptr_t)handle, OBJECT_ARRAY, ret_array) : r;
}

CUresult cuArrayDestroy(CUarray handle)
{
	_cleanup_call_ struct call call = {};
	struct array *array;
	CUresult r = find(&call, handle, &array, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (array->mipmapped)
		return CUDA_ERROR_INVALID_HANDLE;
	array_free_object(&array->object);
	return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *ret, CUarray handle)
{
	_cleanup_call_ struct call call = {};
	struct array *a;
	CUresult r = find(&call, handle, &a, __func__);

	if (r == CUDA_SUCCESS && !ret)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret = (CUDA_ARRAY3D_DESCRIPTOR){
			a->width, a->height, a->depth, a->format, a->channels, a->flags};
	return r;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *ret, CUarray handle)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult r = ret ? cuArray3DGetDescriptor_v2(&d, handle) : CUDA_ERROR_INVALID_VALUE;

	if (r == CUDA_SUCCESS)
		*ret = (CUDA_ARRAY_DESCRIPTOR){d.Width, d.Height, d.Format, d.NumChannels};
	return r;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret, CUarray handle, CUdevice device)
{
	_cleanup_call_ struct call call = {};
	struct array *array;
	CUresult r = find(&call, handle, &array, __func__);

	if (r == CUDA_SUCCESS && (!ret || !driver_device(device)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret = (CUDA_ARRAY_MEMORY_REQUIREMENTS){
			.size = round_up(array_bytes(array), 65536), .alignment = 65536};
	return r;
}

void mipmapped_free_object(struct object *object)
{
	struct mipmapped *mipmapped = (struct mipmapped *)object;

	for (unsigned i = 0; i < mipmapped->count; i++)
		array_free_object(&mipmapped->levels[i]->object);
	object_forget(object);
	free(mipmapped->levels);
	free(mipmapped);
}

static size_t half(size_t size, unsigned level)
{
	return size == 0 ? 0 : size >> level > 0 ? size >> level : 1;
}

CUresult mipmapped_new(struct context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels,
	struct mipmapped **ret_mipmapped)
{
	struct mipmapped *mipmapped = calloc(1, sizeof(*mipmapped));
	bool layered = descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	CUresult r = CUDA_SUCCESS;

	if (!mipmapped)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mipmapped->levels = calloc(levels, sizeof(struct array *));
	if (!mipmapped->levels || object_register(&mipmapped->object, OBJECT_MIPMAPPED, context) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; r == CUDA_SUCCESS && i < levels; i++) {
		CUDA_ARRAY3D_DESCRIPTOR d = *descriptor;

		d.Width = half(d.Width, i);
		d.Height = half(d.Height, i);
		d.Depth = layered ? d.Depth : half(d.Depth, i);
		r = array_new(context, &d, mipmapped, &mipmapped->levels[i]);
		mipmapped->count += r == CUDA_SUCCESS;
	}
	if (r == CUDA_SUCCESS)
		*ret_mipmapped = mipmapped;
	else
		mipmapped_free_object(&mipmapped->object);
	return r;
}

/* One more than the number of times that the largest dimension can be halved; further levels are ignored
 * (cuda.h of CUDA 13.5.37). */
static unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	size_t sizes = descriptor->Width | descriptor->Height | descriptor->Depth;
	unsigned levels = 1;

	while (sizes >> levels && levels < LEVELS_MAX)
		levels++;
	return levels;
}

CUresult cuMipmappedArrayCreate(
	CUmipmappedArray *ret_handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct mipmapped *mipmapped;
	unsigned most;

	if (r == CUDA_SUCCESS)
		r = ret_handle && levels > 0 ? check(descriptor) : CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	most = levels_of(descriptor);
	r = mipmapped_new(call.context, descriptor, levels < most ? levels : most, &mipmapped);
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUmipmappedArray)(uintptr_t)mipmapped->object.handle;
	return r;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct mipmapped *mipmapped;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_MIPMAPPED, &mipmapped);
	if (r == CUDA_SUCCESS)
		mipmapped_free_object(&mipmapped->object);
	return r;
}

CUresult cuMipmappedArrayGetLevel(CUarray *ret_handle, CUmipmappedArray handle, unsigned level)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct mipmapped *mipmapped;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_MIPMAPPED, &mipmapped);
	if (r == CUDA_SUCCESS && (!ret_handle || level >= mipmapped->count))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUarray)(uintptr_t)mipmapped->levels[level]->object.handle;
	return r;
}
