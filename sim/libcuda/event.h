/* event.h - events: points in a stream, and the time at which the GPU reached them. */
#pragma once

#include "sim/libcuda/queue.h"

struct event {
	struct object object;
	unsigned flags;
	struct mark *mark; /* NULL: never recorded */
	/* If the event was recorded in a capturing stream: the capture that a waiting stream joins. */
	struct graph *capture_graph;
	uint64_t capture_id;
	struct node **capture_front;
	size_t capture_front_count;
};

/* event_record() - for a stream that does not capture. */
CUresult event_record(struct event *event, struct stream *stream);
