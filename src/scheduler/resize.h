/* resize.h - the requests to the API server for resizes (core/resizing.h). */
#pragma once

struct scheduler;

/* resizes_start() - call it before the first event. */
void resizes_start(struct scheduler *scheduler);

/* resizes_carry_out() - carries out the core's orders. For actuator.c. */
void resizes_carry_out(struct scheduler *scheduler);
