/* bind.h - Bindings in flight: the verb bind, answered when the API server has answered.
 *
 * One write per pod: the Binding carries node, uid (as precondition) and all annotations, and the API server
 * applies them in one transaction (tried at 1.36.3). The GPU is reserved in the ledger before the request
 * leaves.
 */
#pragma once

#include <stddef.h>

struct bind_queue;
struct http_call;
struct scheduler;

int bind_queue_new(struct scheduler *scheduler, struct bind_queue **ret_queue);
/* bind_queue_free() - only when bind_queue_busy() is 0. Accepts NULL. */
void bind_queue_free(struct bind_queue *queue);

/* bind_queue_submit() - body is ExtenderBindingArgs. Answers the call now or later, always exactly once. */
void bind_queue_submit(struct bind_queue *queue, struct http_call *call, const char *body, size_t len);

/* bind_queue_busy() - calls not answered yet. */
size_t bind_queue_busy(const struct bind_queue *queue);

/* bind_queue_doubtful() - reservations whose Binding may or may not have been applied. */
size_t bind_queue_doubtful(const struct bind_queue *queue);

/* bind_queue_go() - enough of this pod's gang stand at bind: their GPUs are reserved, all or none, and their
 * Bindings leave. bind_queue_turn_away() - the call that waits for the pod, if one does, is refused. */
void bind_queue_go(struct bind_queue *queue, const char *uid);
void bind_queue_turn_away(struct bind_queue *queue, const char *uid);
