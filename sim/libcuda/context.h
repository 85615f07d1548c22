/* context.h - contexts: primary and created, the stack of each thread, what a context costs on the card. */
#pragma once

#include "sim/libcuda/driver.h"
#include "sim/libcuda/handles.h"

struct block;

#define CONTEXT_LIMITS 11 /* CU_LIMIT_* known to 13.0 */

struct context {
	struct object object;
	struct device *device;
	bool primary;
	unsigned flags;
	unsigned api_version;
	uint64_t id;
	CUresult failure;    /* sticky: what every call answers from then on */
	uint64_t seen_event; /* of the state's events, for Xids */
	uint64_t overhead;   /* bytes of the card besides what is allocated in it */
	size_t limits[CONTEXT_LIMITS];
	uint64_t peers;	      /* bit per ordinal */
	struct block *blocks; /* suballoc.h */
	struct sim_line *line;
	uint64_t tail;	/* where all work that was submitted so far ends */
	CUresult fault; /* of a kernel: the context's failure when its line has come to fault_position */
	uint64_t fault_position;
	struct stream *defaults; /* the legacy stream and those of threads */
};

static inline CUcontext context_handle(const struct context *context)
{
	return (CUcontext)(uintptr_t)context->object.handle;
}

/* context_new() - CUDA_ERROR_OUT_OF_MEMORY when the card has no room for it. */
CUresult context_new(struct device *device, unsigned flags, bool primary, struct context **ret_context);
/* context_free() - and everything in it. */
void context_free(struct context *context);

/* context_find() - NULL handle: the current one. */
CUresult context_find(CUcontext handle, struct context **ret_context);
/* context_current() - of the calling thread. INVALID_CONTEXT, or why the context fails now. */
CUresult context_current(struct context **ret_context);
/* context_check() - why it fails now: a lost card, an Xid, a fault of its own. */
CUresult context_check(struct context *context);
/* context_push() - -ENOMEM. */
int context_push(struct context *context);

/* context_drop_top() - pop the current one. */
void context_drop_top(void);

/* context_grow() - more or less overhead. */
CUresult context_grow(struct context *context, int64_t bytes);
