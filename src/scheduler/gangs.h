/* gangs.h - pods that are placed all or none (core/gang/gang.h), between kube-scheduler and the API server.
 *
 * Members and PodGroups come by watch. Filter asks here first for a pod of a gang, bind waits here until
 * enough of its gang stand beside it, and what must happen by itself does: pods are requeued, turned away
 * from bind, and evicted where a gang has not started in its time. All functions accept NULL: for tests of
 * what stands around them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gang_controller;
struct gang_rules;
struct gang_view;
struct pod_facts;
struct scheduler;
struct table;

int gang_controller_new(
	struct scheduler *scheduler, const struct gang_rules *rules, struct gang_controller **ret_controller);
/* gang_controller_stop() - no more requests; before the client goes. gang_controller_free() - after it. */
void gang_controller_stop(struct gang_controller *controller);
void gang_controller_free(struct gang_controller *controller);

/* gang_controller_see() - the watch, or the answer to a question, shows the pod. gang_controller_forget() -
 * it has ended, or (ended false) is gone from the API server. */
void gang_controller_see(struct gang_controller *controller, const struct pod_facts *pod, bool listed);
void gang_controller_forget(struct gang_controller *controller, const char *uid, bool ended);

/* gang_controller_filter() - false: to be treated like any pod. True: *ret_node is the only node that it
 * gets, or NULL with the constant reason in *ret_text; both valid until the next change. */
bool gang_controller_filter(struct gang_controller *controller, const struct pod_facts *pod,
	const char *const *names, size_t n, const char **ret_node, const char **ret_text);

/* gang_controller_seek(), gang_controller_fit_on(), gang_controller_for_waiting(), gang_controller_has_none()
 * - as in core/gang/gang.h.
 */
bool gang_controller_seek(struct gang_controller *controller, const struct pod_facts *pod, size_t *ret_needed,
	const char **ret_mate);
bool gang_controller_fit_on(
	struct gang_controller *controller, const char *uid, const struct table *nodes, size_t needed);
void gang_controller_for_waiting(const struct gang_controller *controller, const char *uid,
	void (*call)(void *userdata, const char *uid), void *userdata);
bool gang_controller_has_none(const struct gang_controller *controller, const char *uid);

/* gang_controller_gathers() - the bind of this pod is to wait until bind_queue_go() or
 * bind_queue_turn_away(). gang_controller_carry_out() - what has been decided since; both of these may be
 * called from within. gang_controller_failed() - a gang cannot be bound as it stands. */
bool gang_controller_gathers(struct gang_controller *controller, const char *uid);
void gang_controller_carry_out(struct gang_controller *controller);
void gang_controller_sent(struct gang_controller *controller, const char *uid);
void gang_controller_failed(struct gang_controller *controller, const char *uid, const char *why);
const struct pod_facts *gang_controller_facts(const struct gang_controller *controller, const char *uid);
bool gang_controller_are_mates(const struct gang_controller *controller, const char *uid, const char *other);

/* gang_controller_is_forming(), gang_controller_rules_out(), gang_controller_holds() - as in
 * core/gang/gang.h. */
bool gang_controller_is_forming(const struct gang_controller *controller, const char *uid);
bool gang_controller_rules_out(const struct gang_controller *controller, const struct pod_facts *pod);
bool gang_controller_holds(const struct gang_controller *controller, const char *uid);
bool gang_controller_find(
	const struct gang_controller *controller, const char *uid, struct gang_view *ret_view);

/* gang_controller_look() - the ledger may have changed: look soon. gang_controller_tick() - every second. */
void gang_controller_look(struct gang_controller *controller);
void gang_controller_tick(struct gang_controller *controller);
