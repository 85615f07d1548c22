/* stream.h - streams: what was asked for in order, and how far the GPU is with it.
 *
 * Work goes to the context's lines (sim/state/work.h) as soon as nothing holds its stream up; then the stream
 * only knows the point at which its last piece ends. What is held up - behind a function of the host,
 * behind an event that is not there yet - waits in the stream's queue (queue.h).
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
	uint64_t thread; /* whose per-thread stream it is */
	uint64_t id;
	struct point tail;	  /* after which the next operation begins */
	struct op *first, **last; /* the queue */
	CUstreamCaptureStatus capture_status;
	CUstreamCaptureMode capture_mode;
	uint64_t capture_id;
	bool capture_origin;
	struct graph *capture_graph;
	struct node **capture_front; /* what the next captured node depends on */
	size_t capture_front_count;
	struct stream *next; /* of the context's default streams */
};

static inline CUstream stream_handle(const struct stream *stream)
{
	return (CUstream)(uintptr_t)stream->object.handle;
}

/* stream_find() - 0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle, of whatever context. */
CUresult stream_find(struct context *context, CUstream handle, struct stream **ret_stream);
/* stream_find_own() - for work of a context: another one's stream is INVALID_HANDLE, counted. */
CUresult stream_find_own(struct context *context, CUstream handle, struct stream **ret_stream);

/* stream_free(), streams_free_default() - whatever is still queued is not done. */
void stream_free(struct stream *stream);
void streams_free_default(struct context *context);

/* stream_tail() - where everything ends that it was given so far, and that it waits for. */
struct point stream_tail(const struct stream *stream);
/* stream_sleep() - about so long, and not longer. Lets others in meanwhile. */
void stream_sleep(int64_t ns);

/* stream_idle() - everything asked for is done; else *ret_wait says how long it takes about. */
bool stream_idle(struct stream *stream, int64_t *ret_wait);
/* stream_idle_before_queue() - likewise, but for what is held up. */
bool stream_idle_before_queue(const struct stream *stream, int64_t *ret_wait);
/* stream_wait() - until then. Lets others in meanwhile. Why the context failed, else success. */
CUresult stream_wait(struct stream *stream);
/* context_wait_submitted() - until the GPU has done what it was given; what is held up is not waited for. */
CUresult context_wait_submitted(struct context *context);
/* context_wait() - all of its streams. */
CUresult context_wait(struct context *context);
