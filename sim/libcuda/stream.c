#include "sim/libcuda/stream.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "sim/libcuda/capture.h"
#include "sim/libcuda/objects.h"
#include "sim/libcuda/pool.h"
#include "sim/libcuda/queue.h"

#define SPIN_NS 10000		    /* a sleep ends some us late */
#define SLEEP_MAX (100 * NS_PER_MS) /* the state of the GPU may change meanwhile */

static uint64_t this_thread(void)
{
	static _Atomic uint64_t last;
	static __thread uint64_t number;

	if (number == 0)
		number = atomic_fetch_add(&last, 1) + 1;
	return number;
}

static struct stream *stream_new(struct context *context, enum stream_kind kind, unsigned flags)
{
	static uint64_t last_id;
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream || object_register(&stream->object, OBJECT_STREAM, context) < 0) {
		free(stream);
		return NULL;
	}
	stream->kind = kind;
	stream->flags = flags;
	stream->id = ++last_id;
	stream->last = &stream->first;
	return stream;
}

void stream_free(struct stream *stream)
{
	capture_forget(stream);
	queue_clear(stream);
	object_forget(&stream->object);
	free(stream);
}

void stream_free_object(struct object *object)
{
	struct stream *stream = (struct stream *)object;

	if (stream->kind == STREAM_CREATED)
		stream_free(stream);
}

void streams_free_default(struct context *context)
{
	while (context->defaults) {
		struct stream *stream = context->defaults;

		context->defaults = stream->next;
		stream_free(stream);
	}
}

static CUresult find_default(struct context *context, enum stream_kind kind, struct stream **ret_stream)
{
	uint64_t thread = kind == STREAM_PER_THREAD ? this_thread() : 0;
	struct stream *stream = context->defaults;

	while (stream && (stream->kind != kind || stream->thread != thread))
		stream = stream->next;
	if (!stream) {
		stream = stream_new(context, kind, CU_STREAM_DEFAULT);
		if (!stream)
			return CUDA_ERROR_OUT_OF_MEMORY;
		stream->thread = thread;
		stream->next = context->defaults;
		context->defaults = stream;
	}
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

CUresult stream_find(struct context *context, CUstream handle, struct stream **ret_stream)
{
	if (!handle || handle == CU_STREAM_LEGACY)
		return find_default(context, STREAM_LEGACY, ret_stream);
	if (handle == CU_STREAM_PER_THREAD)
		return find_default(context, STREAM_PER_THREAD, ret_stream);
	return object_find((uintptr_t)handle, OBJECT_STREAM, ret_stream);
}

CUresult stream_find_own(struct context *context, CUstream handle, struct stream **ret_stream)
{
	struct stream *stream;
	CUresult r = stream_find(context, handle, &stream);

	if (r == CUDA_SUCCESS && stream->object.context != context)
		r = misuse(SIM_WRONG_CONTEXT, CUDA_ERROR_INVALID_HANDLE);
	if (r == CUDA_SUCCESS)
		*ret_stream = stream;
	return r;
}

struct point stream_tail(const struct stream *stream)
{
	return stream->kind == STREAM_LEGACY ? stream->object.context->blocking_tail : stream->tail;
}

bool stream_idle_before_queue(const struct stream *stream, int64_t *ret_wait)
{
	struct point tail = stream_tail(stream);

	*ret_wait = context_reached(stream->object.context, &tail, NULL);
	return *ret_wait == 0;
}

bool stream_idle(struct stream *stream, int64_t *ret_wait)
{
	if (queue_advance(stream)) {
		*ret_wait = NS_PER_MS / 5;
		return false;
	}
	return stream_idle_before_queue(stream, ret_wait);
}

/* Wakes in time, because the last part is a busy wait. By default the kernel lets a thread sleep 50 us longer
 * than requested (prctl(2), PR_SET_TIMERSLACK). */
void stream_sleep(int64_t ns)
{
	struct timespec wait = {0, (ns > SLEEP_MAX ? SLEEP_MAX : ns) - SPIN_NS};
	static __thread bool exact;

	driver_pause();
	if (!exact)
		exact = prctl(PR_SET_TIMERSLACK, 1) == 0;
	if (wait.tv_nsec > 0)
		nanosleep(&wait, NULL);
	else
		sched_yield();
	driver_resume();
}

/* Another thread may destroy the stream while this one sleeps. Then the stream's remaining operations are
 * dropped. */
CUresult stream_wait(struct stream *stream)
{
	struct context *context = stream->object.context;
	uint64_t handle = stream->object.handle, context_number = context->object.handle;
	int64_t wait;

	while (!stream_idle(stream, &wait)) {
		CUresult r = context_check(context);

		if (r != CUDA_SUCCESS)
			return r;
		stream_sleep(wait);
		if (!object_find_quietly(context_number, OBJECT_CONTEXT))
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
		if (!object_find_quietly(handle, OBJECT_STREAM))
			return CUDA_SUCCESS;
	}
	pools_trim(context->device);
	return context_check(context);
}

CUresult context_wait_submitted(struct context *context)
{
	uint64_t number = context->object.handle;
	int64_t wait;

	while ((wait = context_reached(context, &context->tail, NULL)) > 0) {
		CUresult r = context_check(context);

		if (r != CUDA_SUCCESS)
			return r;
		stream_sleep(wait);
		if (!object_find_quietly(number, OBJECT_CONTEXT))
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	return context_check(context);
}

CUresult context_wait(struct context *context)
{
	uint64_t number = context->object.handle;
	CUresult r = CUDA_SUCCESS;
	struct stream *stream;
	size_t cursor = 0;

	while (r == CUDA_SUCCESS &&
		(stream = (struct stream *)object_next(OBJECT_STREAM, context, &cursor))) {
		r = stream_wait(stream);
		if (!object_find_quietly(number, OBJECT_CONTEXT))
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	/* Work of destroyed streams continues. */
	if (r == CUDA_SUCCESS)
		r = context_wait_submitted(context);
	if (r == CUDA_SUCCESS)
		pools_trim(context->device);
	return r;
}

CUresult cuStreamCreateWithPriority(CUstream *ret_handle, unsigned flags, int priority)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct stream *stream;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || flags & ~CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	stream = stream_new(call.context, STREAM_CREATED, flags);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	*ret_handle = stream_handle(stream);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *ret_handle, unsigned flags)
{
	return cuStreamCreateWithPriority(ret_handle, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct stream *stream;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_STREAM, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (stream->kind != STREAM_CREATED)
		return CUDA_ERROR_INVALID_HANDLE;
	/* Work on the GPU is completed in any case; waiting operations are waited for. */
	while (stream->first && stream_wait(stream) == CUDA_SUCCESS &&
		object_find_quietly((uintptr_t)handle, OBJECT_STREAM))
		;
	if (object_find_quietly((uintptr_t)handle, OBJECT_STREAM))
		stream_free(stream);
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle)
{
	return cuStreamDestroy_v2(handle);
}

static CUresult begin(struct call *call, CUstream handle, struct stream **ret_stream, const char *function)
{
	CUresult r = call_begin_context(call, function);

	return r == CUDA_SUCCESS ? stream_find(call->context, handle, ret_stream) : r;
}

CUresult cuStreamQuery(CUstream handle)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	int64_t wait;
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = begin(&call, handle, &stream, __func__);
	if (r == CUDA_SUCCESS)
		r = capture_refuses(stream);
	if (r != CUDA_SUCCESS)
		return r;
	return stream_idle(stream, &wait) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamSynchronize(CUstream handle)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = begin(&call, handle, &stream, __func__);
	if (r == CUDA_SUCCESS)
		r = capture_refuses(stream);
	return r == CUDA_SUCCESS ? stream_wait(stream) : r;
}

CUresult cuCtxSynchronize(void)
{
	_cleanup_call_ struct call call = {};
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = call_begin_context(&call, __func__);
	if (r == CUDA_SUCCESS)
		r = capture_refuses_context(call.context);
	return r == CUDA_SUCCESS ? context_wait(call.context) : r;
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
	_cleanup_call_ struct call call = {};
	struct context *context;
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = context_find(handle, &context);
	if (r == CUDA_SUCCESS)
		r = context_check(context);
	return r == CUDA_SUCCESS ? context_wait(context) : r;
}
