#include "shim/pacing-events.h"

#include "shim/cuda-library.h"

static struct events_of *find(struct events *events, CUcontext context)
{
	for (unsigned i = 0; i < EVENTS_CONTEXTS; i++)
		if (events->contexts[i].context == context)
			return &events->contexts[i];
	return NULL;
}

static struct events_of *find_shown(struct events *events, CUcontext context)
{
	struct events_of *of = find(events, context);

	if (of)
		return of->hidden ? NULL : of;
	of = find(events, NULL);
	if (of)
		*of = (struct events_of){.context = context};
	return of;
}

CUevent events_take(struct events *events, CUcontext context)
{
	struct events_of *of = find_shown(events, context);
	CUevent event = NULL;

	if (!of)
		return NULL;
	if (of->count > 0)
		return of->free[--of->count];
	return DRIVER(cuEventCreate)(&event, 0) == CUDA_SUCCESS ? event : NULL;
}

void events_put(struct events *events, CUcontext context, CUevent event)
{
	struct events_of *of = event ? find_shown(events, context) : NULL;

	if (of && of->count < EVENTS_EACH)
		of->free[of->count++] = event;
}

void events_hide(struct events *events, CUcontext context)
{
	struct events_of *of = find(events, context);

	if (of)
		of->hidden = true;
}

void events_unhide(struct events *events, CUcontext context, bool ended)
{
	struct events_of *of = find(events, context);

	if (of && ended)
		of->context = NULL;
	else if (of)
		of->hidden = false;
}
