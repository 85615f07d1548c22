/* preempt.h - the verb preempt, and the GPUs kept for nominated pods.
 *
 * kube-scheduler calls preempt when the node's sum of gpu-mem is short (for a node whose sum suffices while
 * no GPU does, see evict.h). It has chosen victims so that the sums fit; we add those without which no GPU
 * does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pod_facts;
struct scheduler;

/* preempt_answer() - body is ExtenderPreemptionArgs with NodeNameToMetaVictims (nodeCacheCapable). The answer
 * names at most one node, the best, and its GPUs are kept for the pod. In-tree's victims all stay in the
 * list: which of them it needs for something else than GPUs we cannot know. Its form has no place for an
 * error: NULL with the sentence in err and *ret_status 400 or 503. NULL and 200: out of memory. */
struct error;
char *preempt_answer(
	struct scheduler *scheduler, const char *body, size_t len, unsigned *ret_status, struct error *err);

/* nomination_follow() - the API server shows an unbound pod like this: its status.nominatedNodeName keeps
 * GPUs there for it; where we did not choose them (restart, somebody else's nomination) they are chosen as
 * if everybody below the pod had gone. A nomination that was cleared lasts for another 10 s: kube-scheduler
 * clears it after a bind error. */
void nomination_follow(struct scheduler *scheduler, const struct pod_facts *pod);

/* nominations_follow_all() - the first LISTs are in: only now it can be told which GPUs are being freed. */
void nominations_follow_all(struct scheduler *scheduler);

/* nomination_waits() - the node for which the pod is nominated, if somebody there is about to go; else NULL.
 * Such a node is not unresolvable: then kube-scheduler keeps the nomination and looks for no other victims
 * (PodEligibleToPreemptOthers, 1.36.3). */
const struct node_ledger *nomination_waits(const struct scheduler *scheduler, const struct pod_facts *pod);
