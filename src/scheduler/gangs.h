/* gangs.h - what gangs (core/gang/gang.h) need from outside: PodGroups by watch, and what the core has
 * decided about their pods: they are evicted where a gang has not started in its time, and lose the mark of a
 * gang that has. All functions accept NULL: for tests of what stands around them.
 */
#pragma once

struct gang_controller;
struct scheduler;

/* gang_controller_new() - the core of the scheduler knows its gangs already. */
int gang_controller_new(struct scheduler *scheduler, struct gang_controller **ret_controller);
/* gang_controller_stop() - no more requests; before the client goes. gang_controller_free() - after it. */
void gang_controller_stop(struct gang_controller *controller);
void gang_controller_free(struct gang_controller *controller);

/* gang_controller_carry_out() - what the core has ordered. For actuator.c. */
void gang_controller_carry_out(struct gang_controller *controller);

/* gang_controller_tick() - every second. */
void gang_controller_tick(struct gang_controller *controller);
