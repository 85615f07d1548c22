/* stream.h - streams: operations in order, and how far the GPU has got.
 *
 * Work goes to the context's lines (sim/state/work.h) as soon as nothing delays its stream. Then the stream
 * only knows the point at which its last piece ends. An operation that must wait, for a host function or for
 * an event that is not recorded yet, stays in the stream's queue (queue.h).
 */
#pragma once

#include "sim/libcuda/context.h"

struct op;
struct graph;

enum stream_kind { STREAM_CREATED, STREAM_LEGACY, STREAM_PER_THREAD };

struct stream {
	struct object object;
	enum stream_kind kind;
	unsigned flags;
	int priority;
	uint64_t thread; /* the thread whose per-thread stream it is */
	uint64_t id;
	struct point tail;	  /* the next operation begins after it */
	struct op *first, **last; /* the queue */
	CUstreamCaptureStatus capture_status;
	CUstreamCaptureMode capture_mode;
	uint64_t capture_id;
	bool capture_origin;
	struct graph *capture_graph;
	struct node **capture_front; /* the nodes that the next captured node depends on */
	size_t capture_front_count;
	struct stream *next; /* list of the context's default streams */
};

static inline CUstream stream_handle(const struct stream *stream)
{
	return (CUstream)(uintptr_t)stream->object.handle;
}

/* stream_find() - 0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle, of any context. */
CUresult stream_find(struct context *context, CUstream handle, struct stream **ret_stream);
/* stream_find_own() - for work of a context: the stream of another context is INVALID_HANDLE, and counted. */
CUresult stream_find_own(struct context *context, CUstream handle, struct stream **ret_stream);

/* stream_free(), streams_free_default() - drop the operations that are still queued. */
void stream_free(struct stream *stream);
void streams_free_default(struct context *context);

/* stream_tail() - the end of everything that was submitted to it, and of everything it waits for. */
struct point stream_tail(const struct stream *stream);
/* stream_sleep() - sleeps for about this time, and not longer. Other threads may enter meanwhile. */
void stream_sleep(int64_t ns);

/* stream_idle() - true: everything is done; false: *ret_wait is an estimate of the remaining time. */
bool stream_idle(struct stream *stream, int64_t *ret_wait);
/* stream_idle_before_queue() - the same without the operations in the queue. */
bool stream_idle_before_queue(const struct stream *stream, int64_t *ret_wait);
/* stream_wait() - waits until the stream is idle. Other threads may enter meanwhile. Success, or the error
 * with which the context failed. */
CUresult stream_wait(struct stream *stream);
/* context_wait_submitted() - waits until the GPU has done all submitted work. It does not wait for operations
 * in queues. */
CUresult context_wait_submitted(struct context *context);
/* context_wait() - waits for all streams of the context. */
CUresult context_wait(struct context *context);
