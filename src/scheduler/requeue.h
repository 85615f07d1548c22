/* requeue.h - requeues waiting pods. core/requeue.h decides what they wait for and when it is their turn;
 * this part has the only timer and the only request for it.
 *
 * kube-scheduler may learn of the end of a pod before ration's watch does. If it then asks about a waiting
 * pod, the ledger still counts the ended one, filter rejects, and no further event may come for five minutes.
 * So when something is freed on which a rejected pod fits, the pod is requeued. A PATCH changes its
 * annotation ration.dev/nudge, and any update of a pending pod moves it back into kube-scheduler's active
 * queue (tried at 1.36.3: filter within 0.1 s). */
#pragma once

struct pod_facts;
struct requeuer;
struct scheduler;

int requeuer_new(struct scheduler *scheduler, struct requeuer **ret_requeuer);
void requeuer_free(struct requeuer *requeuer); /* accepts NULL */

/* requeue_log_refused() - logs that core/requeue.h could not add this pod; r: its -E2BIG or -ENOMEM. */
void requeue_log_refused(const char *namespace_, const char *name, int r);

/* requeuer_look() - the ledger may have changed, or something was reported to scheduler->core.requeues. The
 * requeuer soon evaluates which pods must be requeued. */
void requeuer_look(struct requeuer *requeuer);
