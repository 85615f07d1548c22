#include "sim/libcuda/event.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "sim/libcuda/capture.h"
#include "sim/libcuda/objects.h"

#define FLAGS_KNOWN (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)
#define WAIT_MAX (50 * NS_PER_MS)
#define RESOLUTION_NS 500 /* of cuEventElapsedTime, as documented */

void event_free_object(struct object *object)
{
	struct event *event = (struct event *)object;

	capture_forget_event(event);
	mark_drop(event->mark);
	object_forget(object);
	free(event);
}

CUresult cuEventCreate(CUevent *ret_handle, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct event *event;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || flags & ~FLAGS_KNOWN ||
		(flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event || object_register(&event->object, OBJECT_EVENT, call.context) < 0) {
		free(event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	event->flags = flags;
	*ret_handle = (CUevent)(uintptr_t)event->object.handle;
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct event *event;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_EVENT, &event);
	if (r == CUDA_SUCCESS)
		event_free_object(&event->object);
	return r;
}

CUresult cuEventDestroy(CUevent handle)
{
	return cuEventDestroy_v2(handle);
}

CUresult event_record(struct event *event, struct stream *stream)
{
	struct mark *mark = mark_new();

	if (!mark)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mark_drop(event->mark);
	event->mark = mark;
	return queue_add(stream, &(struct op){.kind = OP_RECORD, .mark = mark_use(mark)});
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_number, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	struct event *event;
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = call_begin_context(&call, __func__);
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_EVENT, &event);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, stream_number, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->object.context != event->object.context)
		return misuse(SIM_WRONG_CONTEXT, CUDA_ERROR_INVALID_HANDLE);
	if (stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		return capture_record(stream, event, flags);
	capture_forget_event(event);
	return event_record(event, stream);
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
	return cuEventRecordWithFlags(handle, stream, 0);
}

CUresult cuStreamWaitEvent(CUstream stream_number, CUevent handle, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	struct event *event;
	CUresult r = call_begin_context(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, stream_number, &stream);
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_EVENT, &event);
	if (r != CUDA_SUCCESS)
		return r;
	if (flags & ~1u)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->capture_graph || stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		return capture_wait(stream, event, flags);
	if (!event->mark)
		return CUDA_SUCCESS;
	return queue_add(stream, &(struct op){.kind = OP_WAIT, .mark = mark_use(event->mark)});
}

CUresult cuEventQuery(CUevent handle)
{
	_cleanup_call_ struct call call = {};
	struct event *event;
	CUresult r;
	int64_t at;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = call_begin(&call, __func__);
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_EVENT, &event);
	if (r == CUDA_SUCCESS && event->capture_graph)
		r = CUDA_ERROR_CAPTURED_EVENT;
	if (r == CUDA_SUCCESS)
		r = context_check(event->object.context);
	if (r != CUDA_SUCCESS || !event->mark)
		return r;
	return mark_reached(event->mark, &at) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* Waits for the most recent record of the event. */
static CUresult wait_for(struct event *event)
{
	struct mark *mark = event->mark ? mark_use(event->mark) : NULL;
	uint64_t context_number = event->object.context->object.handle;
	struct context *context = event->object.context;
	CUresult r = CUDA_SUCCESS;
	int64_t wait, at;

	while (r == CUDA_SUCCESS && mark && (wait = mark_reached(mark, &at)) > 0) {
		stream_sleep(wait > WAIT_MAX ? WAIT_MAX : wait);
		r = object_find_quietly(context_number, OBJECT_CONTEXT) ? context_check(context)
									: CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	mark_drop(mark);
	return r;
}

CUresult cuEventSynchronize(CUevent handle)
{
	_cleanup_call_ struct call call = {};
	struct event *event;
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = call_begin(&call, __func__);
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_EVENT, &event);
	if (r == CUDA_SUCCESS && event->capture_graph)
		r = CUDA_ERROR_CAPTURED_EVENT;
	if (r == CUDA_SUCCESS)
		r = context_check(event->object.context);
	return r == CUDA_SUCCESS ? wait_for(event) : r;
}

static CUresult time_of(CUevent handle, int64_t *ret_at)
{
	struct event *event;
	CUresult r = object_find((uintptr_t)handle, OBJECT_EVENT, &event);

	if (r != CUDA_SUCCESS)
		return r;
	if (!event->mark || event->flags & CU_EVENT_DISABLE_TIMING)
		return CUDA_ERROR_INVALID_HANDLE;
	return mark_reached(event->mark, ret_at) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime_v2(float *ret_ms, CUevent start, CUevent end)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	int64_t from, to;

	if (r == CUDA_SUCCESS && !ret_ms)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = time_of(start, &from);
	if (r == CUDA_SUCCESS)
		r = time_of(end, &to);
	if (r == CUDA_SUCCESS)
		*ret_ms = (float)((to - from) / RESOLUTION_NS * RESOLUTION_NS) / (float)NS_PER_MS;
	return r;
}

CUresult cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ret_ms, start, end);
}
