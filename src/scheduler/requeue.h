/* requeue.h - rejected pods, and when kube-scheduler is made to try them again.
 *
 * kube-scheduler may learn of the end of a pod before our watch does. If it then asks about a waiting pod,
 * our ledger still counts the ended one, filter rejects, and no further event may come for five minutes. So
 * when something is freed that a rejected pod fits on, the pod is requeued: a PATCH changes its annotation
 * ration.dev/nudge, and any update of a pending pod moves it back into kube-scheduler's active queue (tried
 * at 1.36.3: filter within 0.1 s).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct json_object;
struct pod_facts;
struct requeue_state;
struct requeuer;
struct scheduler;

int requeuer_new(struct scheduler *scheduler, struct requeuer **ret_requeuer);
void requeuer_free(struct requeuer *requeuer); /* accepts NULL */

/* requeuer_rejected() - filter found no node. */
void requeuer_rejected(struct requeuer *requeuer, const struct pod_facts *pod);

/* requeuer_found() - the pod was turned away by its gang, and waits like any pod from now on. */
void requeuer_found(struct requeuer *requeuer, const struct pod_facts *pod);

/* requeuer_look() - the ledger may have changed: check soon which pods fit now. */
void requeuer_look(struct requeuer *requeuer);

/* requeuer_now() - requeue this pod now, whether it fits or not. */
void requeuer_now(struct requeuer *requeuer, const struct pod_facts *pod);

/* requeuer_find() - requeue_list_find(): how a pod waits; false if it does not. */
bool requeuer_find(const struct requeuer *requeuer, const char *uid, struct requeue_state *ret_state);

size_t requeuer_count(const struct requeuer *requeuer);
