/* gangs.h - pods that are placed all or none (model/gang.h), between kube-scheduler and the API server.
 *
 * Members and PodGroups come by watch. Filter asks here first for a pod of a gang, bind waits here until
 * enough of its gang stand beside it, and what must happen by itself does: pods are nudged, turned away from
 * bind, and evicted where a gang has not come about in its time. All functions accept NULL: for tests of what
 * stands around them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gang_desk;
struct gang_rules;
struct gang_view;
struct pod_facts;
struct scheduler;
struct table;

int gang_desk_new(struct scheduler *scheduler, const struct gang_rules *rules, struct gang_desk **ret_desk);
/* gang_desk_stop() - no more requests; before the client goes. gang_desk_free() - after it. */
void gang_desk_stop(struct gang_desk *desk);
void gang_desk_free(struct gang_desk *desk);

/* gang_desk_see() - the watch, or the answer to a question, shows the pod. gang_desk_forget() - it has
 * ended, or (ended false) is gone from the API server. */
void gang_desk_see(struct gang_desk *desk, const struct pod_facts *pod, bool listed);
void gang_desk_forget(struct gang_desk *desk, const char *uid, bool ended);

/* gang_desk_filter() - false: to be treated like any pod. True: *ret_node is the only node that it gets, or
 * NULL with the constant reason in *ret_text; both valid until the next change. */
bool gang_desk_filter(struct gang_desk *desk, const struct pod_facts *pod, const char *const *names, size_t n,
	const char **ret_node, const char **ret_text);

/* gang_desk_seek(), gang_desk_fit_on(), gang_desk_for_waiting(), gang_desk_has_none() - as in model/gang.h.
 */
bool gang_desk_seek(
	struct gang_desk *desk, const struct pod_facts *pod, size_t *ret_needed, const char **ret_mate);
bool gang_desk_fit_on(struct gang_desk *desk, const char *uid, const struct table *nodes, size_t needed);
void gang_desk_for_waiting(const struct gang_desk *desk, const char *uid,
	void (*call)(void *userdata, const char *uid), void *userdata);
bool gang_desk_has_none(const struct gang_desk *desk, const char *uid);

/* gang_desk_gathers() - the bind of this pod is to wait until bind_queue_go() or bind_queue_turn_away().
 * gang_desk_carry_out() - what has been decided since; both of these may be called from within.
 * gang_desk_failed() - a gang cannot be bound as it stands. */
bool gang_desk_gathers(struct gang_desk *desk, const char *uid);
void gang_desk_carry_out(struct gang_desk *desk);
void gang_desk_sent(struct gang_desk *desk, const char *uid);
void gang_desk_failed(struct gang_desk *desk, const char *uid, const char *why);
const struct pod_facts *gang_desk_facts(const struct gang_desk *desk, const char *uid);
bool gang_desk_are_mates(const struct gang_desk *desk, const char *uid, const char *other);

/* gang_desk_is_forming(), gang_desk_rules_out(), gang_desk_holds() - as in model/gang.h. */
bool gang_desk_is_forming(const struct gang_desk *desk, const char *uid);
bool gang_desk_rules_out(const struct gang_desk *desk, const struct pod_facts *pod);
bool gang_desk_holds(const struct gang_desk *desk, const char *uid);
bool gang_desk_find(const struct gang_desk *desk, const char *uid, struct gang_view *ret_view);

/* gang_desk_look() - the ledger may have changed: look soon. gang_desk_tick() - every second. */
void gang_desk_look(struct gang_desk *desk);
void gang_desk_tick(struct gang_desk *desk);
