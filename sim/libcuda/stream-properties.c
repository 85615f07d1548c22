/* stream-properties.c - properties of a stream. */
#include "sim/libcuda/stream.h"

static CUresult begin(struct call *call, CUstream handle, const void *output, struct stream **ret_stream,
	const char *function)
{
	CUresult r = call_begin_context(call, function);

	if (r == CUDA_SUCCESS)
		r = stream_find(call->context, handle, ret_stream);
	return r == CUDA_SUCCESS && !output ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult cuStreamGetPriority(CUstream handle, int *ret_priority)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	CUresult r = begin(&call, handle, ret_priority, &stream, __func__);

	if (r == CUDA_SUCCESS)
		*ret_priority = stream->priority;
	return r;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *ret_flags)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	CUresult r = begin(&call, handle, ret_flags, &stream, __func__);

	if (r == CUDA_SUCCESS)
		*ret_flags = stream->flags;
	return r;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *ret_id)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	CUresult r = begin(&call, handle, ret_id, &stream, __func__);

	if (r == CUDA_SUCCESS)
		*ret_id = stream->id;
	return r;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *ret_context)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	CUresult r = begin(&call, handle, ret_context, &stream, __func__);

	if (r == CUDA_SUCCESS)
		*ret_context = context_handle(stream->object.context);
	return r;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *ret_ordinal)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	CUresult r = begin(&call, handle, ret_ordinal, &stream, __func__);

	if (r == CUDA_SUCCESS)
		*ret_ordinal = (CUdevice)(stream->object.context->device - driver.devices);
	return r;
}
