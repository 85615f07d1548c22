/* context.h - contexts, primary and created; the stack of each thread; the memory that a context takes on the
 * GPU. */
#pragma once

#include "sim/libcuda/driver.h"
#include "sim/libcuda/handles.h"

struct block;

#define CONTEXT_LIMITS 11 /* CU_LIMIT_* of CUDA 13.0 */

/* A point in a context's work: a position on each of its lines. */
struct point {
	uint64_t position[SIM_ENGINES];
};

struct context {
	struct object object;
	struct device *device;
	bool primary;
	unsigned flags;
	unsigned api_version;
	uint64_t id;
	CUresult failure;    /* sticky: the answer of every call from then on */
	uint64_t seen_event; /* number of the last state event seen, for Xids */
	uint64_t overhead;   /* bytes of the GPU besides allocations in the context */
	size_t limits[CONTEXT_LIMITS];
	uint64_t peers;			     /* a bit per ordinal */
	struct block *blocks;		     /* suballoc.h */
	struct sim_line *lines[SIM_ENGINES]; /* lines for copies exist only after the first copy */
	struct point tail;		     /* the end of all work that was submitted so far */
	struct point
		blocking_tail; /* the end of the work of the legacy stream and of the streams it waits for */
	struct point legacy_tail;
	unsigned held;	/* number of streams with a queue */
	CUresult fault; /* the fault of a kernel: the context fails with it when its line reaches
			   fault_position */
	uint64_t fault_position;
	struct stream *defaults; /* the legacy stream and the per-thread streams */
};

static inline CUcontext context_handle(const struct context *context)
{
	return (CUcontext)(uintptr_t)context->object.handle;
}

/* context_new() - CUDA_ERROR_OUT_OF_MEMORY if the GPU has no room for it. */
CUresult context_new(struct device *device, unsigned flags, bool primary, struct context **ret_context);
/* context_free() - frees the context and everything in it. */
void context_free(struct context *context);

/* context_find() - a NULL handle means the current context. */
CUresult context_find(CUcontext handle, struct context **ret_context);
/* context_current() - the calling thread's context. INVALID_CONTEXT, or the error with which the context now
 * fails. */
CUresult context_current(struct context **ret_context);
/* context_check() - the error with which the context now fails: a lost GPU, an Xid, or its own fault. */
CUresult context_check(struct context *context);
/* context_push() - -ENOMEM. */
int context_push(struct context *context);

/* context_drop_top() - pops the current context. */
void context_drop_top(void);

/* context_reached() - 0, and when the point was reached; else an estimate of the remaining ns. ret_at may be
 * NULL. */
int64_t context_reached(const struct context *context, const struct point *point, int64_t *ret_at);
/* point_reached() - the same for lines that may belong to another context by now; such lines are skipped. */
int64_t point_reached(
	struct sim_line *const *lines, const uint64_t *numbers, const struct point *point, int64_t *ret_at);
void point_raise(struct point *point, const struct point *least);

/* context_grow() - changes the overhead by this many bytes. */
CUresult context_grow(struct context *context, int64_t bytes);
