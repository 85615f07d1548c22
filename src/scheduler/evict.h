/* evict.h - the requests to the API server that evictions of our own (core/evicting.h) need, and what is
 * counted, recorded and told about them. */
#pragma once

struct scheduler;

/* evictions_start() - before the first event. */
void evictions_start(struct scheduler *scheduler);

/* evictions_carry_out() - what the core has ordered. For actuator.c. */
void evictions_carry_out(struct scheduler *scheduler);
