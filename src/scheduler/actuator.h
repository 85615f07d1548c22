/* actuator.h - carries out what the core has ordered (core/core.h): requests to the API server, answers to
 * kube-scheduler, and the timer of what is due later. It does so at the end of each wake-up of the loop, so
 * that no callback has to ask for it.
 */
#pragma once

struct actuator;
struct scheduler;

int actuator_new(struct scheduler *scheduler, struct actuator **ret_actuator);
void actuator_free(struct actuator *actuator); /* accepts NULL */

/* actuate() - the same at once: for tests that call the scheduler without its loop. */
void actuate(struct scheduler *scheduler);
