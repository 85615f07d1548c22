/* resize.h - the requests to the API server that resizes (core/resizing.h) need. */
#pragma once

struct scheduler;

/* resizes_start() - before the first event. */
void resizes_start(struct scheduler *scheduler);

/* resizes_carry_out() - what the core has ordered. For actuate(). */
void resizes_carry_out(struct scheduler *scheduler);
