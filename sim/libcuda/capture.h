/* capture.h - streams that record a graph instead of doing the work. */
#pragma once

#include "sim/libcuda/stream.h"

struct event;
struct task;

/* capture_add() - adds a node after everything that the stream has captured so far. */
CUresult capture_add(struct stream *stream, const struct task *task);
/* capture_record(), capture_wait() - an event extends a capture from one stream to another. */
CUresult capture_record(struct stream *stream, struct event *event, unsigned flags);
CUresult capture_wait(struct stream *stream, struct event *event, unsigned flags);
/* capture_forget(), capture_forget_event() - called when the stream or event ends or is reused. */
void capture_forget(struct stream *stream);
void capture_forget_event(struct event *event);

/* capture_refuses() - for a call that a capturing stream cannot answer: STREAM_CAPTURE_UNSUPPORTED, and the
 * capture becomes invalid. */
CUresult capture_refuses(struct stream *stream);
CUresult capture_refuses_context(struct context *context);
/* capture_refuses_implicit() - for work in the legacy stream while a blocking stream of the context captures.
 */
CUresult capture_refuses_implicit(struct stream *stream);
/* capture_forbids() - whether a call that could wait for the GPU, such as cuMemAlloc, is forbidden because a
 * capture of mode GLOBAL is active. */
bool capture_forbids(void);
