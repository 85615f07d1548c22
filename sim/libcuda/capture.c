#include "sim/libcuda/capture.h"

#include <stdlib.h>
#include <string.h>

#include "sim/libcuda/event.h"
#include "sim/libcuda/graph.h"

static unsigned global_captures; /* of mode GLOBAL */

static CUresult set_front(struct stream *stream, struct node *const *nodes, size_t count)
{
	struct node **front = calloc(count + 1, sizeof(*front));

	if (!front)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (count > 0)
		memcpy(front, nodes, count * sizeof(*front));
	free(stream->capture_front);
	stream->capture_front = front;
	stream->capture_front_count = count;
	return CUDA_SUCCESS;
}

static bool in_front(const struct stream *stream, const struct node *node)
{
	for (size_t i = 0; i < stream->capture_front_count; i++)
		if (stream->capture_front[i] == node)
			return true;
	return false;
}

static void leave(struct stream *stream)
{
	if (stream->capture_origin && stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		global_captures--;
	free(stream->capture_front);
	stream->capture_front = NULL;
	stream->capture_front_count = 0;
	stream->capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
	stream->capture_graph = NULL;
	stream->capture_origin = false;
}

/* Invalidates every stream of the capture and the events that belong to it. */
static void invalidate(uint64_t id)
{
	struct stream *stream;
	size_t cursor = 0;

	while ((stream = (struct stream *)object_next(OBJECT_STREAM, NULL, &cursor)))
		if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_ACTIVE && stream->capture_id == id)
			stream->capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

void capture_forget_event(struct event *event)
{
	free(event->capture_front);
	event->capture_front = NULL;
	event->capture_front_count = 0;
	event->capture_graph = NULL;
}

static void end_all(uint64_t id)
{
	struct stream *stream;
	struct event *event;
	size_t cursor = 0;

	while ((stream = (struct stream *)object_next(OBJECT_STREAM, NULL, &cursor)))
		if (stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE && stream->capture_id == id)
			leave(stream);
	cursor = 0;
	while ((event = (struct event *)object_next(OBJECT_EVENT, NULL, &cursor)))
		if (event->capture_graph && event->capture_id == id)
			capture_forget_event(event);
}

void capture_forget(struct stream *stream)
{
	struct graph *graph = stream->capture_graph;

	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_NONE)
		return;
	if (!stream->capture_origin) {
		invalidate(stream->capture_id);
		leave(stream);
		return;
	}
	end_all(stream->capture_id);
	graph_free(graph);
}

CUresult capture_add(struct stream *stream, const struct task *task)
{
	struct node *node;
	CUresult r;

	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	r = graph_add(stream->capture_graph, task, stream->capture_front, stream->capture_front_count, &node);
	return r == CUDA_SUCCESS ? set_front(stream, &node, 1) : r;
}

CUresult capture_record(struct stream *stream, struct event *event, unsigned flags)
{
	struct task task = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .event = event->object.handle};
	struct node **front;

	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return capture_add(stream, &task);
	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	front = calloc(stream->capture_front_count + 1, sizeof(*front));
	if (!front)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stream->capture_front_count > 0)
		memcpy(front, stream->capture_front, stream->capture_front_count * sizeof(*front));
	capture_forget_event(event);
	event->capture_graph = stream->capture_graph;
	event->capture_id = stream->capture_id;
	event->capture_front = front;
	event->capture_front_count = stream->capture_front_count;
	return CUDA_SUCCESS;
}

static CUresult join(struct stream *stream, const struct event *event)
{
	stream->capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	stream->capture_graph = event->capture_graph;
	stream->capture_id = event->capture_id;
	stream->capture_origin = false;
	return set_front(stream, event->capture_front, event->capture_front_count);
}

static CUresult merge(struct stream *stream, const struct event *event)
{
	size_t count = stream->capture_front_count;
	_cleanup_free_ struct node **all = calloc(count + event->capture_front_count + 1, sizeof(*all));

	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (count > 0)
		memcpy(all, stream->capture_front, count * sizeof(*all));
	for (size_t i = 0; i < event->capture_front_count; i++)
		if (!in_front(stream, event->capture_front[i]))
			all[count++] = event->capture_front[i];
	return set_front(stream, all, count);
}

CUresult capture_wait(struct stream *stream, struct event *event, unsigned flags)
{
	struct task task = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .event = event->object.handle};

	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_NONE)
		return join(stream, event);
	if (flags)
		return capture_add(stream, &task);
	if (!event->capture_graph) {
		invalidate(stream->capture_id);
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (event->capture_id != stream->capture_id) {
		invalidate(stream->capture_id);
		invalidate(event->capture_id);
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	return merge(stream, event);
}

CUresult capture_refuses(struct stream *stream)
{
	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_SUCCESS;
	invalidate(stream->capture_id);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_refuses_context(struct context *context)
{
	CUresult r = CUDA_SUCCESS;
	struct stream *stream;
	size_t cursor = 0;

	while (r == CUDA_SUCCESS && (stream = (struct stream *)object_next(OBJECT_STREAM, context, &cursor)))
		r = capture_refuses(stream);
	return r;
}

CUresult capture_refuses_implicit(struct stream *stream)
{
	struct stream *other;
	size_t cursor = 0;

	if (stream->kind != STREAM_LEGACY || global_captures == 0)
		return CUDA_SUCCESS;
	while ((other = (struct stream *)object_next(OBJECT_STREAM, stream->object.context, &cursor)))
		if (other->capture_status == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
			!(other->flags & CU_STREAM_NON_BLOCKING)) {
			invalidate(other->capture_id);
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	return CUDA_SUCCESS;
}

bool capture_forbids(void)
{
	struct stream *stream;
	size_t cursor = 0;

	if (global_captures == 0)
		return false;
	while ((stream = (struct stream *)object_next(OBJECT_STREAM, NULL, &cursor)))
		if (stream->capture_origin && stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
			invalidate(stream->capture_id);
	return true;
}

static CUresult begin(struct call *call, CUstream handle, struct stream **ret_stream, const char *function)
{
	CUresult r = call_begin_context(call, function);

	return r == CUDA_SUCCESS ? stream_find(call->context, handle, ret_stream) : r;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
	static uint64_t last_id;
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	struct graph *graph;
	CUresult r = begin(&call, handle, &stream, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->kind == STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_ILLEGAL_STATE;
	r = graph_new(&graph);
	if (r != CUDA_SUCCESS)
		return r;
	graph->owned = true;
	stream->capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	stream->capture_mode = mode;
	stream->capture_origin = true;
	stream->capture_id = ++last_id;
	stream->capture_graph = graph;
	if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		global_captures++;
	return set_front(stream, NULL, 0);
}

/* The version from before capture modes. */
CUresult cuStreamBeginCapture(CUstream handle)
{
	return cuStreamBeginCapture_v2(handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static bool has_dependent(const struct graph *graph, const struct node *node)
{
	for (size_t i = 0; i < graph->node_count; i++)
		for (size_t k = 0; k < graph->nodes[i]->dependency_count; k++)
			if (graph->nodes[i]->dependencies[k] == node)
				return true;
	return false;
}

/* Whether another stream has captured work that nothing in the origin waits for. */
static bool unjoined(const struct stream *origin)
{
	struct stream *stream;
	size_t cursor = 0;

	while ((stream = (struct stream *)object_next(OBJECT_STREAM, NULL, &cursor))) {
		if (stream == origin || stream->capture_status == CU_STREAM_CAPTURE_STATUS_NONE ||
			stream->capture_id != origin->capture_id)
			continue;
		for (size_t i = 0; i < stream->capture_front_count; i++)
			if (!in_front(origin, stream->capture_front[i]) &&
				!has_dependent(origin->capture_graph, stream->capture_front[i]))
				return true;
	}
	return false;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *ret_graph)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	struct graph *graph;
	CUresult r = begin(&call, handle, &stream, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (!stream->capture_origin)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	graph = stream->capture_graph;
	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (unjoined(stream))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	end_all(stream->capture_id);
	*ret_graph = NULL;
	if (r == CUDA_SUCCESS) {
		graph->owned = false;
		*ret_graph = (CUgraph)(uintptr_t)graph->object.handle;
	} else {
		graph_free(graph);
	}
	return r;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *ret_status)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	CUresult r = begin(&call, handle, &stream, __func__);

	if (r == CUDA_SUCCESS && !ret_status)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = capture_refuses_implicit(stream);
	if (r == CUDA_SUCCESS)
		*ret_status = stream->capture_status;
	return r;
}

/* The list of dependencies is stored in the stream, until the stream captures something else. */
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *ret_status, uint64_t *ret_id,
	CUgraph *ret_graph, const CUgraphNode **ret_dependencies, const CUgraphEdgeData **ret_edges,
	size_t *ret_count)
{
	_cleanup_call_ struct call call = {};
	static __thread CUgraphNode list[1024];
	struct stream *stream;
	CUresult r = begin(&call, handle, &stream, __func__);
	size_t count = 0;

	if (r == CUDA_SUCCESS && !ret_status)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	*ret_status = stream->capture_status;
	if (stream->capture_status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	while (count < ARRAY_SIZE(list) && count < stream->capture_front_count) {
		list[count] = node_handle(stream->capture_front[count]);
		count++;
	}
	if (ret_id)
		*ret_id = stream->capture_id;
	if (ret_graph)
		*ret_graph = (CUgraph)(uintptr_t)stream->capture_graph->object.handle;
	if (ret_dependencies)
		*ret_dependencies = list;
	if (ret_edges)
		*ret_edges = NULL;
	if (ret_count)
		*ret_count = count;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *ret_status, uint64_t *ret_id,
	CUgraph *ret_graph, const CUgraphNode **ret_dependencies, size_t *ret_count)
{
	return cuStreamGetCaptureInfo_v3(
		handle, ret_status, ret_id, ret_graph, ret_dependencies, NULL, ret_count);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *ret_status, uint64_t *ret_id)
{
	return cuStreamGetCaptureInfo_v3(handle, ret_status, ret_id, NULL, NULL, NULL, NULL);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static __thread CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureMode old = own;

	if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	own = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
