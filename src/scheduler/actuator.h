/* actuator.h - carries out the orders of the core (core/core.h): requests to the API server, answers to
 * kube-scheduler, and the timer of what is due later. It runs at the end of each wake-up of the loop, so no
 * callback has to call it. */
#pragma once

struct actuator;
struct scheduler;

int actuator_new(struct scheduler *scheduler, struct actuator **ret_actuator);
void actuator_free(struct actuator *actuator); /* accepts NULL */

/* actuate() - carries out the orders at once, for tests that call the scheduler without its loop. */
void actuate(struct scheduler *scheduler);
