#include "sim/libcuda/task.h"

#include <stdlib.h>
#include <string.h>

#include "sim/libcuda/capture.h"
#include "sim/libcuda/event.h"
#include "sim/libcuda/graph.h"
#include "sim/libcuda/pool.h"
#include "sim/libcuda/regions.h"

static size_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
	return (depth - 1) * slice + (height - 1) * pitch + width;
}

static void *side(uint64_t address, bool host, size_t bytes)
{
	return host ? (void *)(uintptr_t)address : region_bytes(address, bytes);
}

static void *copy_to(const struct copy *c)
{
	return side(c->to, c->to_host, extent(c->width, c->height, c->depth, c->to_pitch, c->to_slice));
}

static void *copy_from(const struct copy *c)
{
	return side(
		c->from, c->from_host, extent(c->width, c->height, c->depth, c->from_pitch, c->from_slice));
}

static bool empty(const struct copy *c)
{
	return c->width == 0 || c->height == 0 || c->depth == 0;
}

CUresult copy_check(const struct copy *c)
{
	if (empty(c))
		return CUDA_SUCCESS;
	if (!copy_to(c) || !copy_from(c))
		return (c->to_host && !c->to) || (c->from_host && !c->from)
			       ? CUDA_ERROR_INVALID_VALUE
			       : misuse(SIM_BAD_POINTER, CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

static void run_copy(struct op *op)
{
	const struct copy *c = op->data;
	char *to = empty(c) ? NULL : copy_to(c), *from = empty(c) ? NULL : copy_from(c);

	for (size_t z = 0; to && from && z < c->depth; z++)
		for (size_t y = 0; y < c->height; y++)
			memmove(to + z * c->to_slice + y * c->to_pitch,
				from + z * c->from_slice + y * c->from_pitch, c->width);
	free(op->data);
}

static size_t fill_extent(const struct fill *f)
{
	return (f->height - 1) * f->pitch + f->width * f->element;
}

CUresult fill_check(const struct fill *f)
{
	if (f->width == 0 || f->height == 0)
		return CUDA_SUCCESS;
	if (f->to % f->element != 0 || (f->height > 1 && f->pitch < f->width * f->element))
		return CUDA_ERROR_INVALID_VALUE;
	return region_bytes(f->to, fill_extent(f)) ? CUDA_SUCCESS
						   : misuse(SIM_BAD_POINTER, CUDA_ERROR_INVALID_VALUE);
}

static void run_fill(struct op *op)
{
	const struct fill *f = op->data;
	char *to = f->width && f->height ? region_bytes(f->to, fill_extent(f)) : NULL;

	for (size_t y = 0; to && y < f->height; y++) {
		char *row = to + y * f->pitch;

		for (size_t x = 0; f->element > 1 && x < f->width; x++)
			memcpy(row + x * f->element, &f->value, f->element);
		if (f->element == 1)
			memset(row, (int)f->value, f->width);
	}
	free(op->data);
}

/* Copies the parameters; the action frees the copy. */
static CUresult add_with_data(struct stream *stream, struct op op, const void *data, size_t size)
{
	CUresult r;

	op.data = malloc(size);

	if (!op.data)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(op.data, data, size);
	r = queue_add(stream, &op);
	if (r != CUDA_SUCCESS)
		free(op.data);
	return r;
}

static uint64_t time_at(uint64_t bytes, uint32_t bytes_per_ns)
{
	return bytes_per_ns ? bytes / bytes_per_ns : bytes;
}

/* A copy within the GPU reads and writes each byte. */
static CUresult add_copy(struct stream *stream, const struct copy *copy)
{
	const struct sim_gpu *gpu = device_gpu(stream->object.context->device);
	uint64_t bytes = (uint64_t)copy->width * copy->height * copy->depth;
	bool host = copy->to_host || copy->from_host;
	struct op op = {.kind = OP_WORK,
		.action = run_copy,
		.engine = !host				      ? SIM_SM
			  : copy->to_host && !copy->from_host ? SIM_COPY_OUT
							      : SIM_COPY_IN,
		.duration_ns = host ? time_at(bytes, gpu->pcie_gbps) : time_at(2 * bytes, gpu->memory_gbps)};

	return add_with_data(stream, op, copy, sizeof(*copy));
}

static CUresult add_fill(struct stream *stream, const struct fill *fill)
{
	const struct sim_gpu *gpu = device_gpu(stream->object.context->device);
	uint64_t bytes = (uint64_t)fill->width * fill->element * fill->height;
	struct op op = {.kind = OP_WORK,
		.action = run_fill,
		.engine = SIM_SM,
		.duration_ns = time_at(bytes, gpu->memory_gbps)};

	return add_with_data(stream, op, fill, sizeof(*fill));
}

static CUresult run_event(struct stream *stream, const struct task *task)
{
	struct event *event;
	CUresult r = object_find(task->event, OBJECT_EVENT, &event);

	if (r != CUDA_SUCCESS)
		return r;
	if (task->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		return event_record(event, stream);
	if (!event->mark)
		return CUDA_SUCCESS;
	return queue_add(stream, &(struct op){.kind = OP_WAIT, .mark = mark_use(event->mark)});
}

CUresult task_run(struct stream *stream, const struct task *task)
{
	switch (task->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return queue_add(stream, &(struct op){.kind = OP_WORK,
						 .duration_ns = task->launch.duration_ns,
						 .kernel = true,
						 .fault = task->launch.fault});
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return add_copy(stream, &task->copy);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return add_fill(stream, &task->fill);
	case CU_GRAPH_NODE_TYPE_HOST:
		return queue_add(stream, &(struct op){.kind = OP_HOST,
						 .host = task->host.function,
						 .callback = task->host.callback,
						 .data = task->host.data});
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return run_event(stream, task);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return graph_run(stream, task->child);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return graph_memory_run_alloc(task->alloc.address);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return graph_memory_run_free(stream, task->address);
	default:
		return CUDA_SUCCESS;
	}
}

CUresult task_start(struct stream *stream, const struct task *task)
{
	CUresult r = capture_refuses_implicit(stream);

	if (r != CUDA_SUCCESS)
		return r;
	if (stream->capture_status == CU_STREAM_CAPTURE_STATUS_NONE)
		return task_run(stream, task);
	return capture_add(stream, task);
}
