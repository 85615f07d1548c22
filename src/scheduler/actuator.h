/* actuator.h - carries out what the core has ordered (core/core.h): requests to the API server, answers to
 * kube-scheduler, and the timer of what is due later.
 */
#pragma once

struct actuator;
struct scheduler;

int actuator_new(struct scheduler *scheduler, struct actuator **ret_actuator);
void actuator_free(struct actuator *actuator); /* accepts NULL */

/* actuate() - after each event that was told to the core, and each change of the ledger. */
void actuate(struct scheduler *scheduler);
