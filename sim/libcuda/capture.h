/* capture.h - streams that record a graph instead of doing the work. */
#pragma once

#include "sim/libcuda/stream.h"

struct event;
struct task;

/* capture_add() - a node behind what the stream has captured so far. */
CUresult capture_add(struct stream *stream, const struct task *task);
/* capture_record(), capture_wait() - events carry a capture from stream to stream. */
CUresult capture_record(struct stream *stream, struct event *event, unsigned flags);
CUresult capture_wait(struct stream *stream, struct event *event, unsigned flags);
/* capture_forget(), capture_forget_event() - the stream or event ends, or is used anew. */
void capture_forget(struct stream *stream);
void capture_forget_event(struct event *event);

/* capture_refuses() - what a captured stream cannot answer: STREAM_CAPTURE_UNSUPPORTED, and the capture is
 * void. */
CUresult capture_refuses(struct stream *stream);
CUresult capture_refuses_context(struct context *context);
/* capture_refuses_implicit() - work in the legacy stream while a blocking stream of the context is captured.
 */
CUresult capture_refuses_implicit(struct stream *stream);
/* capture_forbids() - a call that could wait for the GPU, such as cuMemAlloc, while a capture of mode GLOBAL
 * runs. */
bool capture_forbids(void);
