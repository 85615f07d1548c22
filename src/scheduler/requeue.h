/* requeue.h - pods that wait are requeued. What they wait for, and when it is their turn, is decided in
 * core/requeue.h; here are the only timer and the only request for it.
 *
 * kube-scheduler may learn of the end of a pod before our watch does. If it then asks about a waiting pod,
 * our ledger still counts the ended one, filter rejects, and no further event may come for five minutes. So
 * when something is freed that a rejected pod fits on, the pod is requeued: a PATCH changes its annotation
 * ration.dev/nudge, and any update of a pending pod moves it back into kube-scheduler's active queue (tried
 * at 1.36.3: filter within 0.1 s).
 */
#pragma once

struct pod_facts;
struct requeuer;
struct scheduler;

int requeuer_new(struct scheduler *scheduler, struct requeuer **ret_requeuer);
void requeuer_free(struct requeuer *requeuer); /* accepts NULL */

/* requeue_log_refused() - the log says that core/requeue.h could not take this pod; r: its -E2BIG or -ENOMEM.
 */
void requeue_log_refused(const char *namespace_, const char *name, int r);

/* requeuer_look() - the ledger may have changed, or something was reported to scheduler->core.requeues: look
 * soon which pods are to be requeued. */
void requeuer_look(struct requeuer *requeuer);
