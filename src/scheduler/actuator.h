/* actuator.h - carries out the orders of the core (core/core.h): requests to the API server, answers to
 * kube-scheduler, and the timer of what is due later. It runs at the end of each wake-up of the loop, so no
 * callback has to call it. */
#pragma once

struct actuator;
struct budget_sync;
struct pod_facts;
struct scheduler;

int actuator_new(struct scheduler *scheduler, struct actuator **ret_actuator);
void actuator_free(struct actuator *actuator); /* accepts NULL */

/* actuate() - carries out the orders at once, for tests that call the scheduler without its loop. */
void actuate(struct scheduler *scheduler);

/* The parts that carry out: Bindings (core/bind.h), evictions by ration (core/evicting.h) and resizes
 * (core/resizing.h). Call X_start() before the first event; the actuator calls X_carry_out(). */
void bind_start(struct scheduler *scheduler);
void binds_carry_out(struct scheduler *scheduler);
void evictions_start(struct scheduler *scheduler);
void evictions_carry_out(struct scheduler *scheduler);
void resizes_start(struct scheduler *scheduler);
void resizes_carry_out(struct scheduler *scheduler);

/* post_pod_event() - posts an Event about the pod, of which only namespace, name and uid are read. type,
 * reason and text: as in kube_event_post(). */
void post_pod_event(struct scheduler *scheduler, const struct pod_facts *pod, const char *type,
	const char *reason, const char *text);

/* budget_sync_start() - copies the API server's PodDisruptionBudgets, by LIST + WATCH, into core.budgets. No
 * part waits for them: without them the eviction API still refuses what it must. */
int budget_sync_start(struct scheduler *scheduler, struct budget_sync **ret_sync);
void budget_sync_stop(struct budget_sync *sync); /* accepts NULL */
