/* pacing-events.h - reused events, per context; they end with their context. Protected by the caller's lock;
 * all zeros is empty. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

#define EVENTS_CONTEXTS 64
#define EVENTS_EACH 66

struct events {
	struct events_of {
		CUcontext context; /* NULL: free */
		bool hidden;	   /* the context is about to end */
		uint32_t count;
		CUevent free[EVENTS_EACH];
	} contexts[EVENTS_CONTEXTS];
};

/* events_take() - an event of `context`, which is the current one. NULL: none can be had. */
CUevent events_take(struct events *events, CUcontext context);
void events_put(struct events *events, CUcontext context, CUevent event);

/* events_hide() - hides the context's events until events_unhide() says whether the context has ended. */
void events_hide(struct events *events, CUcontext context);
void events_unhide(struct events *events, CUcontext context, bool ended);
