/* event.h - events: points in a stream, with the time at which the GPU came to them. */
#pragma once

#include "sim/libcuda/queue.h"

struct event {
	struct object object;
	unsigned flags;
	struct mark *mark; /* NULL: never recorded */
	/* Recorded in a stream that is being captured: what a stream that waits for it joins. */
	struct graph *capture_graph;
	uint64_t capture_id;
	struct node **capture_front;
	size_t capture_front_count;
};

/* event_record() - in a stream that is not being captured. */
CUresult event_record(struct event *event, struct stream *stream);
