/* pacing-events.h - events that are used again and again, per context, in which they end. Under the caller's
 * lock; all zeros is empty. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

#define EVENTS_CONTEXTS 64
#define EVENTS_EACH 66

struct events {
	struct events_of {
		CUcontext context; /* NULL: free */
		bool hidden;	   /* it is about to end */
		uint32_t count;
		CUevent free[EVENTS_EACH];
	} contexts[EVENTS_CONTEXTS];
};

/* events_take() - one of the current context, which is this one. NULL: there is none to be had. */
CUevent events_take(struct events *events, CUcontext context);
void events_put(struct events *events, CUcontext context, CUevent event);

/* events_hide() - none is given out until events_unhide() says whether the context has ended. */
void events_hide(struct events *events, CUcontext context);
void events_unhide(struct events *events, CUcontext context, bool ended);
