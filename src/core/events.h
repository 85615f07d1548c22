/* events.h - how the core follows the API server and kube-scheduler: each function is an event, and the time
 * is an argument. Pure. Other events are in filter.h, bind.h, preempt.h, policies.h, resizing.h and
 * evicting.h.
 *
 * After an event the caller carries out all orders: core_next_bind_order() (bind.h), core_next_resize_order()
 * (resizing.h), core_next_eviction_order() (evicting.h) and core_next_gang_order(), until none of them has an
 * order left. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"

/* core_init() - the ownership is LEDGER_OWNER_US without end until it is set. rules NULL: gangs have no
 * time-outs, for tests without gangs. */
void core_init(struct core *core, const struct gang_rules *rules);
void core_release(struct core *core);

/* core_see_node(), core_node_is_gone(), core_hear_agent(), core_set_agent_lost() - as the functions of
 * registry/ledger.h: ledger_set_node() and so on. core_set_nodes_told() - the time (monotonic) up to which
 * the watch of nodes has told everything. Orphans end by time only when it has told all of their time: its
 * connection may be dead although it is open. */
int core_see_node(struct core *core, const struct node_facts *facts);
void core_node_is_gone(struct core *core, const char *name, const char *uid);
void core_hear_agent(struct core *core, const char *node, int64_t heard_ns);
void core_set_agent_lost(struct core *core, const char *node, bool lost);
void core_set_nodes_told(struct core *core, int64_t told_ns);

/* core_set_watch() - whether the watch of pods is open, and the time up to which it has told everything; 0:
 * it is not open. core_set_ownership() - what the Lease of the ledger says. core_note_call() - kube-scheduler
 * calls; another: the calling process may not be the one of the last call (leadership.h). core_drop_hold() -
 * what filter held for the pod is no longer needed. */
void core_set_watch(struct core *core, bool following, int64_t heard_ns);
void core_set_ownership(struct core *core, const struct ownership *ownership);
void core_note_call(struct core *core, bool another, int64_t now_ns);
void core_drop_hold(struct core *core, const char *uid);

/* core_see_pod() - the watch shows the pod. verdict: a number that changes whenever kube-scheduler says again
 * that the pod is unschedulable; 0 if it does not say so. -ENOMEM: the pod was not taken over. */
int core_see_pod(struct core *core, const struct pod_facts *facts, uintptr_t verdict, int64_t now_ns);

/* core_pod_is_gone() - the API server no longer has the pod. shown: its last state has been seen; otherwise
 * its containers may run. -ENOMEM: the ledger still has the pod as it was. */
int core_pod_is_gone(struct core *core, const char *uid, bool shown, int64_t now_ns);

/* core_show_pod() - an answer to a request of this process, not the watch, shows the pod bound. What the
 * watch shows later counts more, and so does an end that it has told. -ENOMEM. */
int core_show_pod(struct core *core, const struct pod_facts *facts);

/* core_nodes_are_listed(), core_pods_are_listed() - a LIST of all nodes or pods is complete. The latter
 * returns how many waiting pods could not be queued for another attempt because too many wait. */
void core_nodes_are_listed(struct core *core, int64_t now_ns);
size_t core_pods_are_listed(struct core *core, int64_t now_ns);

/* core_is_unlisted() - the pod occupies a GPU and the watch has not shown it. If it ended in a gap of the
 * watch, or before the watch began, no event tells its end. The caller asks the API server for such pods
 * after each LIST, and every CORE_VERIFY_AGAIN_NS as long as there are any. core_pod_is_verified() - the
 * answer; one that is not clear changes nothing. facts: what the API server shows, for POD_ENDED and
 * POD_IS_THERE. Returns whether the pod's end is new. A watch that works lags less than CORE_VERIFY_AGAIN_NS
 * (leadership.h). */
#define CORE_VERIFY_AGAIN_NS (10 * NS_PER_S)
bool core_is_unlisted(const struct ledger_pod *pod);
enum pod_verified { POD_UNCLEAR, POD_GONE, POD_ENDED, POD_IS_THERE };
bool core_pod_is_verified(struct core *core, const char *uid, enum pod_verified what,
	const struct pod_facts *facts, int64_t now_ns);

/* core_tick() - call once a second: ends what is limited in time. */
void core_tick(struct core *core, int64_t now_ns);

/* core_look_at_gangs() - evaluates the gangs. Afterwards, and whenever the ledger may have changed, the
 * caller arms a timer for gangs_look_ns. core_gangs_may_look() - the ledger may have changed. */
#define CORE_LOOK_DELAY_NS (INT64_C(50) * 1000 * 1000) /* one evaluation for a burst of events */
void core_gangs_may_look(struct core *core, int64_t now_ns);
void core_look_at_gangs(struct core *core, int64_t now_ns);

/* core_see_budget() - takes the budget over in any case; -ENOMEM: it is lost. core_budget_is_gone() - unknown
 * budgets are ignored. */
int core_see_budget(struct core *core, struct budget *budget);
void core_budget_is_gone(struct core *core, const char *uid);

/* core_see_group(), core_group_is_gone(), core_set_groups_known(), core_gang_has_run() - as the functions of
 * gang/gang.h. core_gang_recalled() - the answer to GANG_RECALL; all: all finished pods of the gang were
 * shown. */
int core_see_group(struct core *core, const char *key, const struct gang_group *group, int64_t now_ns);
void core_group_is_gone(struct core *core, const char *key, int64_t now_ns);
void core_set_groups_known(struct core *core, bool known, int64_t now_ns);
int core_gang_has_run(struct core *core, const struct pod_facts *finished);
void core_gang_recalled(struct core *core, const char *uid, bool all, int64_t now_ns);

/* core_look_at_requeues() - requeue_list_look(). core_requeue_failed() - requeue_list_failed(). */
size_t core_look_at_requeues(struct core *core, int64_t now_ns,
	const struct pod_facts *ret_pods[REQUEUES_PER_LOOK], int64_t *ret_again_ns);
void core_requeue_failed(struct core *core, const char *uid, int64_t now_ns);

/* core_next_gang_order() - what the caller must do for a gang; NULL: nothing. The core itself carries out
 * GANG_GO and GANG_TURN_AWAY. The caller frees the order by gang_order_free(). */
struct gang_order *core_next_gang_order(struct core *core);
