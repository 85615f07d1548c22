/* events-internal.h - the effects of one event inside another, for the files of this folder. None of these
 * functions is an event, so none begins with core_begin(). */
#pragma once

#include "core/core.h"

/* evictions_init(), policy_spaces_init() - parts of core_init(). Without a watch of policies, the core
 * assumes that the cluster has no policies. evictions_release() - also frees attempts whose requests are
 * under way: the caller has cancelled these. */
void evictions_init(struct evictions *evictions);
void evictions_release(struct evictions *evictions);
void policy_spaces_init(struct policy_spaces *spaces);
void policy_spaces_release(struct policy_spaces *spaces);

/* core_see_gang_pod() - as gangs_see_pod(): something other than the watch shows the pod (listed false).
 * core_filter_gang() - filter for a gang member, as gangs_filter(). GANG_NONE: the pod takes the normal path.
 * core_fail_gang() - this pod's gang cannot be bound as planned. core_follow_gangs() - call after each
 * function of gang.h that says that orders may follow. core_look_at_gangs_within() - the gangs must be
 * evaluated after this delay at the latest. */
int core_see_gang_pod(struct core *core, const struct pod_facts *facts, bool listed, int64_t now_ns);
enum gang_answer core_filter_gang(struct core *core, const struct pod_facts *pod, const char *const *names,
	size_t n, int64_t now_ns, const char **ret_node, const char **ret_text);
void core_fail_gang(struct core *core, const char *uid, const char *why, int64_t now_ns);
void core_follow_gangs(struct core *core, int64_t now_ns);
void core_look_at_gangs_within(struct core *core, int64_t delay_ns, int64_t now_ns);

/* core_may_evict_for() - there are pods of lower priority, and the pod does not forbid preemption.
 * core_consider_evictions() - filter has rejected such a pod on all the named nodes. core_cancel_evictions()
 * - kube-scheduler preempts for the pod; evictions that have begun go on. core_is_evicting_for() - victims of
 * this pod have been evicted, or are about to be. */
bool core_may_evict_for(const struct core *core, const struct pod_facts *pod);
void core_consider_evictions(struct core *core, const struct pod_facts *pod, const char *const *names,
	size_t n_names, int64_t now_ns);
void core_cancel_evictions(struct core *core, const char *uid);
bool core_is_evicting_for(const struct core *core, const char *uid);

/* core_follow_nomination() - the API server shows an unbound pod like this; GPUs of its
 * status.nominatedNodeName are kept for it. If this process did not choose them (after a restart, or if
 * another program nominated the pod), they are chosen as if all pods below this one had gone. A nomination
 * that was cleared lasts for another 10 s, because kube-scheduler clears it after a bind error.
 * core_follow_nominations() - the same for all waiting pods: it is known only after the first LISTs which
 * GPUs are being freed. */
void core_follow_nomination(struct core *core, const struct pod_facts *pod, int64_t now_ns);
void core_follow_nominations(struct core *core, int64_t now_ns);
