/* queue.h - the operations of a stream that must wait, and the marks that events leave. */
#pragma once

#include "sim/libcuda/stream.h"

/* The place where an event was recorded. The event and those that wait for it share it. */
struct mark {
	unsigned users;
	bool placed; /* false: the record is still queued */
	struct sim_line *lines[SIM_ENGINES];
	uint64_t numbers[SIM_ENGINES]; /* a line may belong to another context by now */
	struct point point;
	int64_t recorded_at; /* CLOCK_MONOTONIC */
};

enum op_kind {
	OP_WORK,   /* occupies the GPU, then calls action */
	OP_RECORD, /* places the mark */
	OP_WAIT,   /* waits for the mark */
	OP_HOST,   /* calls a function of the application, on a thread of the driver */
	OP_POLL,   /* waits until ready() */
};

struct op {
	struct op *next;
	enum op_kind kind;
	uint64_t order; /* over all streams of the process */
	uint64_t duration_ns;
	enum sim_engine engine;
	bool kernel;
	void (*action)(struct op *op); /* called when its turn has come; may be NULL */
	bool (*ready)(struct op *op);  /* OP_POLL */
	void (*host)(void *data);      /* OP_HOST */
	void (*callback)(CUstream stream, CUresult result, void *data); /* for OP_HOST, instead of action */
	void *data;
	struct mark *mark;
	bool running;	       /* OP_HOST: called, and has not returned yet */
	uint64_t arguments[6]; /* arguments of action and ready */
	CUresult fault;	       /* OP_WORK: the context fails with it when the work is done */
};

/* queue_add() - copies *op. An operation that need not wait happens at once. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult queue_add(struct stream *stream, const struct op *op);
/* queue_advance() - performs the operations that need not wait any more. True if any are left. */
bool queue_advance(struct stream *stream);
void queue_drop_first(struct stream *stream);
/* queue_clear() - drops all operations. */
void queue_clear(struct stream *stream);

struct mark *mark_new(void);
struct mark *mark_use(struct mark *mark);
void mark_drop(struct mark *mark);
/* mark_reached() - 0, and when the mark was reached; else an estimate of the remaining ns. */
int64_t mark_reached(const struct mark *mark, int64_t *ret_at);

/* worker_wake() - lets the driver's thread process the queues until they are empty. */
void worker_wake(void);
