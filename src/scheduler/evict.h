/* evict.h - the requests to the API server for evictions by ration (core/evicting.h), and their counters,
 * recordings, Events and log lines. */
#pragma once

struct scheduler;

/* evictions_start() - call it before the first event. */
void evictions_start(struct scheduler *scheduler);

/* evictions_carry_out() - carries out the core's orders. For actuator.c. */
void evictions_carry_out(struct scheduler *scheduler);
