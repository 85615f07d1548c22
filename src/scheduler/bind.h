/* bind.h - the verb bind, and the requests that the core orders for it (core/bind.h). */
#pragma once

#include <stddef.h>

struct http_call;
struct scheduler;

/* bind_start() - call it before the first bind. */
void bind_start(struct scheduler *scheduler);

/* bind_submit() - body is ExtenderBindingArgs. Answers the call now or later, always exactly once. */
void bind_submit(struct scheduler *scheduler, struct http_call *call, const char *body, size_t len);

/* binds_carry_out() - carries out the core's orders. For actuator.c. */
void binds_carry_out(struct scheduler *scheduler);
