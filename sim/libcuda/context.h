/* context.h - contexts: primary and created, the stack of each thread, what a context costs on the GPU. */
#pragma once

#include "sim/libcuda/driver.h"
#include "sim/libcuda/handles.h"

struct block;

#define CONTEXT_LIMITS 11 /* CU_LIMIT_* known to 13.0 */

/* A point in a context's work: so far on each of its lines. */
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
	CUresult failure;    /* sticky: what every call answers from then on */
	uint64_t seen_event; /* of the state's events, for Xids */
	uint64_t overhead;   /* bytes of the GPU besides what is allocated in it */
	size_t limits[CONTEXT_LIMITS];
	uint64_t peers;			     /* bit per ordinal */
	struct block *blocks;		     /* suballoc.h */
	struct sim_line *lines[SIM_ENGINES]; /* those for copies when there was one */
	struct point tail;		     /* where all work that was submitted so far ends */
	struct point blocking_tail;	     /* that of the legacy stream and of those it waits for */
	struct point legacy_tail;
	unsigned held;	/* streams with a queue */
	CUresult fault; /* of a kernel: the context's failure when its line has come to fault_position */
	uint64_t fault_position;
	struct stream *defaults; /* the legacy stream and those of threads */
};

static inline CUcontext context_handle(const struct context *context)
{
	return (CUcontext)(uintptr_t)context->object.handle;
}

/* context_new() - CUDA_ERROR_OUT_OF_MEMORY when the GPU has no room for it. */
CUresult context_new(struct device *device, unsigned flags, bool primary, struct context **ret_context);
/* context_free() - and everything in it. */
void context_free(struct context *context);

/* context_find() - NULL handle: the current one. */
CUresult context_find(CUcontext handle, struct context **ret_context);
/* context_current() - of the calling thread. INVALID_CONTEXT, or why the context fails now. */
CUresult context_current(struct context **ret_context);
/* context_check() - why it fails now: a lost GPU, an Xid, a fault of its own. */
CUresult context_check(struct context *context);
/* context_push() - -ENOMEM. */
int context_push(struct context *context);

/* context_drop_top() - pop the current one. */
void context_drop_top(void);

/* context_reached() - 0 and when; else about how long it takes, in ns. ret_at may be NULL. */
int64_t context_reached(const struct context *context, const struct point *point, int64_t *ret_at);
/* point_reached() - the same for lines that may be another context's by now: those are passed over. */
int64_t point_reached(
	struct sim_line *const *lines, const uint64_t *numbers, const struct point *point, int64_t *ret_at);
void point_raise(struct point *point, const struct point *least);

/* context_grow() - more or less overhead. */
CUresult context_grow(struct context *context, int64_t bytes);
