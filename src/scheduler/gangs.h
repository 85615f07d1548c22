/* gangs.h - connects gangs (core/gang/gang.h) with the API server: it watches PodGroups, and carries out the
 * core's decisions about pods. A pod is evicted if its gang has not started in time; its mark is removed when
 * its gang has started. All functions accept NULL, for tests of other parts. */
#pragma once

struct gang_controller;
struct scheduler;

/* gang_controller_new() - the core of the scheduler already knows its gangs. */
int gang_controller_new(struct scheduler *scheduler, struct gang_controller **ret_controller);
/* gang_controller_stop() - no more requests; call it before the client is freed. gang_controller_free() -
 * call it after that. */
void gang_controller_stop(struct gang_controller *controller);
void gang_controller_free(struct gang_controller *controller);

/* gang_controller_carry_out() - carries out the core's orders. For actuator.c. */
void gang_controller_carry_out(struct gang_controller *controller);

/* gang_controller_tick() - call it every second. */
void gang_controller_tick(struct gang_controller *controller);
