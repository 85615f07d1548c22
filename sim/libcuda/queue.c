#include "sim/libcuda/queue.h"

#include <stdlib.h>

#include "base/clock.h"

struct mark *mark_new(void)
{
	struct mark *mark = calloc(1, sizeof(*mark));

	if (mark)
		mark->users = 1;
	return mark;
}

struct mark *mark_use(struct mark *mark)
{
	mark->users++;
	return mark;
}

void mark_drop(struct mark *mark)
{
	if (mark && --mark->users == 0)
		free(mark);
}

int64_t mark_reached(const struct mark *mark, int64_t *ret_at)
{
	int64_t wait, at = 0;

	if (!mark->placed)
		return NS_PER_MS / 2;
	wait = mark->line && mark->line->number == mark->line_number
		       ? sim_line_reached(driver.work, &driver.processes, mark->line, mark->position, &at)
		       : 0;
	if (wait == 0)
		*ret_at = at > mark->recorded_at ? at : mark->recorded_at;
	return wait;
}

static bool blocking(const struct stream *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The legacy stream and the blocking ones wait for each other's earlier operations. */
static bool others_are_before(const struct stream *stream, const struct op *op)
{
	struct context *context = stream->object.context;
	struct stream *other;
	size_t cursor = 0;

	if (!blocking(stream))
		return false;
	while ((other = (struct stream *)object_next(OBJECT_STREAM, context, &cursor)))
		if (other != stream && other->first && other->first->order < op->order && blocking(other) &&
			(stream->kind == STREAM_LEGACY || other->kind == STREAM_LEGACY))
			return true;
	return false;
}

static bool tail_is_done(const struct stream *stream)
{
	int64_t wait;

	return stream_idle_before_queue(stream, &wait);
}

static void submit(struct stream *stream, const struct op *op)
{
	struct context *context = stream->object.context;

	if (op->duration_ns > 0)
		context->tail = stream->tail = sim_line_submit(
			driver.work, &driver.processes, context->line, op->duration_ns);
	else if (stream->kind == STREAM_LEGACY)
		stream->tail = context->tail;
	if (op->fault != CUDA_SUCCESS) {
		context->fault = op->fault;
		context->fault_position = stream->tail;
	}
}

static void place(struct stream *stream, struct mark *mark)
{
	mark->line = stream->object.context->line;
	mark->line_number = mark->line->number;
	mark->position = stream->kind == STREAM_LEGACY ? stream->object.context->tail : stream->tail;
	mark->recorded_at = monotonic_ns();
	mark->placed = true;
}

/* True if the operation is over. */
static bool perform(struct stream *stream, struct op *op)
{
	int64_t at;

	if (others_are_before(stream, op))
		return false;
	switch (op->kind) {
	case OP_WORK:
		submit(stream, op);
		if (op->action)
			op->action(op);
		return true;
	case OP_RECORD:
		place(stream, op->mark);
		return true;
	case OP_WAIT:
		if (!op->mark->placed)
			return false;
		if (op->mark->line == stream->object.context->line) {
			if (op->mark->position > stream->tail)
				stream->tail = op->mark->position;
			return true;
		}
		return mark_reached(op->mark, &at) == 0;
	case OP_POLL:
		return tail_is_done(stream) && op->ready(op);
	case OP_HOST:
		return false; /* worker.c takes it out */
	}
	return true;
}

static void op_free(struct op *op)
{
	mark_drop(op->mark);
	free(op);
}

CUresult queue_add(struct stream *stream, const struct op *op)
{
	static uint64_t order;
	struct op *copy = malloc(sizeof(*copy));

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*copy = *op;
	copy->order = ++order;
	copy->next = NULL;
	if (!stream->first && copy->kind != OP_HOST && perform(stream, copy)) {
		op_free(copy);
		return CUDA_SUCCESS;
	}
	*stream->last = copy;
	stream->last = &copy->next;
	worker_wake();
	return CUDA_SUCCESS;
}

void queue_drop_first(struct stream *stream)
{
	struct op *op = stream->first;

	stream->first = op->next;
	if (!stream->first)
		stream->last = &stream->first;
	op_free(op);
}

bool queue_advance(struct stream *stream)
{
	while (stream->first && perform(stream, stream->first))
		queue_drop_first(stream);
	return stream->first != NULL;
}

void queue_clear(struct stream *stream)
{
	while (stream->first)
		queue_drop_first(stream);
}
