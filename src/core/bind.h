/* bind.h - a bind: from the call of kube-scheduler until the outcome of the Binding is known. Pure: the
 * caller sends the requests; orders tell it what to do next.
 *
 * One write per pod: the Binding carries node, uid (as precondition) and all annotations, and the API server
 * applies them in one transaction (tried at 1.36.3). The GPU is reserved in the ledger before the Binding is
 * ordered. If the outcome is unknown, the reservation stays until the watch shows the truth, at most for
 * WATCH_LAG_MAX_NS while the watch is open.
 *
 * The pods of a gang that has not started wait here until enough of them have come; then the GPUs of all are
 * reserved, or of none, before the first Binding is ordered.
 *
 * Where a bind goes (BIND_ANSWER may follow every step):
 *
 *   queued -> node listed (or waits for the list of another bind) -> pod read, unless the watch has shown it
 *          -> gathered, if its gang has not started -> sent -> in doubt, if the outcome is unknown */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/binds.h"
#include "core/placement/decide.h"

struct core;
struct placement;
struct pod_facts;

void bind_target_release(struct bind_target *target); /* accepts NULL */

void binds_init(struct binds *binds);
/* binds_release() - frees all binds, including those whose requests are under way: the caller has cancelled
 * these. */
void binds_release(struct binds *binds);
size_t binds_doubtful(const struct binds *binds); /* how many */

/* binds_find() - finds a bind by its number until it is freed; NULL: it is freed. */
struct bind *binds_find(const struct binds *binds, uint64_t number);

/* core_bind() - a call of bind by kube-scheduler. Takes target over, also on failure: -ENOMEM. */
int core_bind(struct core *core, struct bind_target *target, void *caller, int64_t now_ns);

/* core_next_bind_order() - the oldest order that is not carried out yet, which the caller must carry out now;
 * NULL: none. The bind stays valid until the caller reports the result by one of the functions below. */
struct bind *core_next_bind_order(struct core *core);

/* core_node_listed() - why: NULL, or the reason why there is no list. */
void core_node_listed(struct core *core, struct bind *bind, const char *why, int64_t now_ns);

/* core_bind_pod_read() - facts: NULL, with the sentence in why, if the API server did not show the pod. */
void core_bind_pod_read(
	struct core *core, struct bind *bind, const struct pod_facts *facts, const char *why, int64_t now_ns);

/* core_binding_answered() - why: what the API server said, unless the outcome is BINDING_APPLIED. */
void core_binding_answered(
	struct core *core, struct bind *bind, enum binding_outcome outcome, const char *why, int64_t now_ns);

/* core_bind_not_asked() - the caller could not start the request of the last order; why: the reason. */
void core_bind_not_asked(struct core *core, struct bind *bind, const char *why, int64_t now_ns);

/* core_bind_is_answered() - kube-scheduler has its answer. The bind is freed, or stays in doubt. */
void core_bind_is_answered(struct core *core, struct bind *bind);

/* core_doubts_end_ns() - when the first bind stops being in doubt; INT64_MAX if none is in doubt.
 * core_doubt_may_end() - this time is over, and the watch of pods has sent something since. core_end_doubts()
 * - releases the reservations of the binds of which that is true. */
int64_t core_doubts_end_ns(const struct core *core);
bool core_doubt_may_end(const struct core *core, int64_t now_ns);
void core_end_doubts(struct core *core, int64_t now_ns);

/* bind_go() - enough members of this pod's gang wait: the GPUs of all are reserved, or of none, and their
 * Bindings are ordered. bind_turn_away() - refuses the call that waits for the pod, if there is one. For
 * events.c. */
void bind_go(struct core *core, const char *uid, int64_t now_ns);
void bind_turn_away(struct core *core, const char *uid);
