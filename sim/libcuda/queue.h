/* queue.h - the operations of a stream that something holds up, and the marks that events leave. */
#pragma once

#include "sim/libcuda/stream.h"

/* Where an event was recorded. Shared by the event and by those that wait for it. */
struct mark {
	unsigned users;
	bool placed; /* else its record is still queued */
	struct sim_line *lines[SIM_ENGINES];
	uint64_t numbers[SIM_ENGINES]; /* a line may be another context's by now */
	struct point point;
	int64_t recorded_at; /* CLOCK_MONOTONIC */
};

enum op_kind {
	OP_WORK,   /* occupies the GPU, then action */
	OP_RECORD, /* places the mark */
	OP_WAIT,   /* for the mark */
	OP_HOST,   /* a function of the application, on a thread of the driver */
	OP_POLL,   /* until ready() */
};

struct op {
	struct op *next;
	enum op_kind kind;
	uint64_t order; /* over all streams of the process */
	uint64_t duration_ns;
	enum sim_engine engine;
	bool kernel;
	void (*action)(struct op *op); /* when its turn has come; may be NULL */
	bool (*ready)(struct op *op);  /* OP_POLL */
	void (*host)(void *data);      /* OP_HOST */
	void (*callback)(CUstream stream, CUresult result, void *data); /* OP_HOST instead */
	void *data;
	struct mark *mark;
	bool running;	       /* OP_HOST: called and not back yet */
	uint64_t arguments[6]; /* of action and ready */
	CUresult fault;	       /* OP_WORK: the context fails with it when the work is done */
};

/* queue_add() - copies *op. What nothing holds up happens at once. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult queue_add(struct stream *stream, const struct op *op);
/* queue_advance() - do what can be done. True if something is left. */
bool queue_advance(struct stream *stream);
void queue_drop_first(struct stream *stream);
/* queue_clear() - drop what is left. */
void queue_clear(struct stream *stream);

struct mark *mark_new(void);
struct mark *mark_use(struct mark *mark);
void mark_drop(struct mark *mark);
/* mark_reached() - 0 and when; else about how long it takes. */
int64_t mark_reached(const struct mark *mark, int64_t *ret_at);

/* worker_wake() - the driver's thread looks after the queues until they are empty. */
void worker_wake(void);
