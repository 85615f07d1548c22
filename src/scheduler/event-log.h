/* event-log.h - the last events of the core and its decisions, starting from a state of the core, so that
 * `ration replay` can repeat them elsewhere.
 *
 * The log is a ring of two segments. Each begins with the state of the core at that moment, and continues
 * with all inputs and outputs since then, as lines of text (core/log/record.h, core/log/state.h). When the
 * newer segment has SEGMENT_BYTES, another one begins and the older one is dropped. States are compressed.
 *
 * Writing the state of a large cluster takes tens of milliseconds, and filter must not wait for it. So a
 * child process, made by fork(), writes it: the child has the memory of one moment, while this process
 * continues. */
#pragma once

#include <stddef.h>

struct event_log;
struct http_call;
struct scheduler;

/* event_log_new() - recording begins at the first event_log_follow() when the core is ready. */
int event_log_new(struct scheduler *scheduler, struct event_log **ret_log);
void event_log_free(struct event_log *log); /* accepts NULL */

/* event_log_follow() - call it between two events, when all orders are carried out: a segment may begin.
 * Accepts NULL. */
void event_log_follow(struct event_log *log);

/* event_log_bytes() - memory of the segments, states included. */
size_t event_log_bytes(const struct event_log *log);

/* event_log_answer() - GET /history: the older segment's state, all events since then, and the present state,
 * which a replay must reach. Only one answer is made at a time. Other calls get 503, and so do calls before a
 * state is written. */
void event_log_answer(struct event_log *log, struct http_call *call);

/* event_log_stop() - an answer that is not ready becomes 503. Call it before the HTTP server is freed.
 * Accepts NULL. */
void event_log_stop(struct event_log *log);
