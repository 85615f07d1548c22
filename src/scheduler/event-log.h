/* event-log.h - the last events of the core and what it decided, from a state of the core on, so that `ration
 * replay` can repeat them elsewhere.
 *
 * The log is a ring of two segments. Each begins with the state of the core at that moment and goes on with
 * what has come in and gone out since then, as lines of text (core/log/record.h, core/log/state.h). When the
 * newer segment has SEGMENT_BYTES, another one begins and the older one is dropped. States are compressed.
 *
 * A state of a large cluster takes tens of milliseconds to write, and filter must not wait for it. A child
 * process that fork() makes writes it: the child has the memory of one moment, while this process goes on.
 */
#pragma once

#include <stddef.h>

struct event_log;
struct http_call;
struct scheduler;

/* event_log_new() - from the first event_log_follow() on at which the core is ready. */
int event_log_new(struct scheduler *scheduler, struct event_log **ret_log);
void event_log_free(struct event_log *log); /* accepts NULL */

/* event_log_follow() - between two events, with all orders carried out: a segment may begin. Accepts NULL.
 */
void event_log_follow(struct event_log *log);

/* event_log_bytes() - memory of the segments, states included. */
size_t event_log_bytes(const struct event_log *log);

/* event_log_answer() - GET /history: the older segment's state, all events since then, and the state at this
 * moment, which a replay must reach. One answer at a time; others get 503, as do those that come before a
 * state is written. */
void event_log_answer(struct event_log *log, struct http_call *call);

/* event_log_stop() - an answer that is not ready is 503 now: before the HTTP server is freed. Accepts NULL.
 */
void event_log_stop(struct event_log *log);
