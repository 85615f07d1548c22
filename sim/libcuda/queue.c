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
	wait = point_reached(mark->lines, mark->numbers, &mark->point, ret_at ? &at : NULL);
	if (wait == 0 && ret_at)
		*ret_at = at > mark->recorded_at ? at : mark->recorded_at;
	return wait;
}

static bool blocking(const struct stream *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The legacy stream and the blocking streams wait for each other's earlier operations. */
static bool others_are_before(const struct stream *stream, const struct op *op)
{
	struct context *context = stream->object.context;
	struct stream *other;
	size_t cursor = 0;

	if (!blocking(stream) || context->held == 0)
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

static void set_tail(struct stream *stream, const struct point *tail)
{
	struct context *context = stream->object.context;

	stream->tail = *tail;
	point_raise(&context->tail, tail);
	if (blocking(stream))
		point_raise(&context->blocking_tail, tail);
	if (stream->kind == STREAM_LEGACY)
		context->legacy_tail = *tail;
}

/* If no line is left for copies, the multiprocessors do them. */
static enum sim_engine engine_for(struct context *context, const struct op *op)
{
	if (context->lines[op->engine] ||
		sim_line_take(driver.work, &driver.processes, driver.slot, context->device->gpu, op->engine,
			&context->lines[op->engine]) == 0)
		return op->engine;
	return SIM_SM;
}

/* Returns false if it must be tried later. */
static bool submit(struct stream *stream, const struct op *op)
{
	struct context *context = stream->object.context;
	enum sim_engine engine = engine_for(context, op);
	struct sim_piece piece = {.duration_ns = op->duration_ns, .kernel = op->kernel};
	struct point after = stream_tail(stream), tail = {};

	if (op->duration_ns == 0) {
		set_tail(stream, &after);
		return true;
	}
	if (blocking(stream))
		point_raise(&after, &context->legacy_tail);
	for (size_t e = 0; e < SIM_ENGINES; e++) {
		piece.after[e] = after.position[e] > 0 ? context->lines[e] : NULL;
		piece.until[e] = after.position[e];
	}
	if (sim_line_submit(driver.work, &driver.processes, context->lines[engine], &piece,
		    &tail.position[engine]) < 0)
		return false;
	set_tail(stream, &tail);
	if (op->fault != CUDA_SUCCESS) {
		context->fault = op->fault;
		context->fault_position = tail.position[engine];
	}
	return true;
}

/* The GPU decides when it reaches an event, not the caller. A context without work on the GPU waits for its
 * turn first, and work launched behind the event runs in the same turn. So in this case the event is a small
 * piece of work. */
static void reach_idle_gpu(struct stream *stream)
{
	struct context *context = stream->object.context;
	const struct op touch = {.kind = OP_WORK, .duration_ns = 1, .engine = SIM_SM};

	if (context_reached(context, &context->tail, NULL) == 0)
		submit(stream, &touch);
}

static void place(struct stream *stream, struct mark *mark)
{
	struct context *context = stream->object.context;

	reach_idle_gpu(stream);
	for (size_t e = 0; e < SIM_ENGINES; e++) {
		mark->lines[e] = context->lines[e];
		mark->numbers[e] = context->lines[e] ? context->lines[e]->number : 0;
	}
	mark->point = stream_tail(stream);
	mark->recorded_at = monotonic_ns();
	mark->placed = true;
}

/* If the event was recorded in the same context, only the stream's tail moves. */
static bool wait_for(struct stream *stream, const struct mark *mark)
{
	struct sim_line *line = stream->object.context->lines[SIM_SM];
	struct point tail = stream_tail(stream);

	if (!mark->placed)
		return false;
	if (mark->lines[SIM_SM] != line || mark->numbers[SIM_SM] != line->number)
		return mark_reached(mark, NULL) == 0;
	point_raise(&tail, &mark->point);
	set_tail(stream, &tail);
	return true;
}

/* Returns true if the operation is complete. */
static bool perform(struct stream *stream, struct op *op)
{
	if (others_are_before(stream, op))
		return false;
	switch (op->kind) {
	case OP_WORK:
		if (!submit(stream, op))
			return false;
		if (op->action)
			op->action(op);
		return true;
	case OP_RECORD:
		place(stream, op->mark);
		return true;
	case OP_WAIT:
		return wait_for(stream, op->mark);
	case OP_POLL:
		return tail_is_done(stream) && op->ready(op);
	case OP_HOST:
		return false; /* worker.c removes it */
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
	struct op at_once = *op, *copy;

	at_once.order = ++order;
	at_once.next = NULL;
	if (!stream->first && op->kind != OP_HOST && perform(stream, &at_once)) {
		mark_drop(op->mark);
		return CUDA_SUCCESS;
	}
	copy = malloc(sizeof(*copy));
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*copy = at_once;
	if (!stream->first)
		stream->object.context->held++;
	*stream->last = copy;
	stream->last = &copy->next;
	worker_wake();
	return CUDA_SUCCESS;
}

void queue_drop_first(struct stream *stream)
{
	struct op *op = stream->first;

	stream->first = op->next;
	if (!stream->first) {
		stream->last = &stream->first;
		stream->object.context->held--;
	}
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
