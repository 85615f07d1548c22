/* evict.h - evictions of our own, for a node where the sum of free gpu-mem suffices and no GPU does.
 *
 * kube-scheduler sees only the sum and finds nobody to preempt there (preemption.go "expected at least one
 * victim", 1.36.3). So when filter rejects a pod of higher priority everywhere, and kube-scheduler does not
 * preempt for it within a moment, we choose node, GPU and victims by the same order and evict them through
 * the eviction API: one at a time, with their uid as precondition, those that a PodDisruptionBudget guards
 * first, since only they can be refused. Meanwhile the GPU is kept for the pod. Then the pod is nominated
 * for the node. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct evictions;
struct pod_facts;
struct scheduler;

int evictions_new(struct scheduler *scheduler, struct evictions **ret_evictions);
void evictions_free(struct evictions *evictions); /* after the client; accepts NULL */

/* Evictions of NULL are nobody's: for tests of what stands around them.
 *
 * evictions_consider() - filter has rejected the pod on all the named nodes. Searches at most one tenth of
 * the time. */
void evictions_consider(
	struct evictions *evictions, const struct pod_facts *pod, const char *const *names, size_t n_names);

/* evictions_cancel() - somebody else cares for the pod now; what has begun goes on. */
void evictions_cancel(struct evictions *evictions, const char *uid);

/* evictions_are_under_way() - victims of this pod have been asked to go, or are about to be. */
bool evictions_are_under_way(const struct evictions *evictions, const char *uid);
