/* ledger.h - every change of what pods use on nodes and GPUs. The structs are in registry.h.
 *
 * Fed by what the API server shows (nodes, pods) in any order, any number of times, and by our own
 * reservations. A pod occupies from its reservation until a terminal phase or its deletion. Numbers are
 * running sums, O(1) per event; ledger_check() recounts them from the pods.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/registry/registry.h"
#include "core/registry/reject-reason.h"

void ledger_init(struct ledger *ledger);
void ledger_release(struct ledger *ledger);

/* ledger_set_node() - the node exists and looks like this. Its pods are recounted if anything that matters
 * changed; holds on one that changes its mode end. Needs name and uid. Pods may name a node before it is
 * known, and after it is gone. ledger_remove_node() - it is gone; ignored if uid is another (the node was
 * re-created meanwhile).
 */
int ledger_set_node(struct ledger *ledger, const struct node_facts *facts);
void ledger_remove_node(struct ledger *ledger, const char *name, const char *uid);

/* ledger_set_pod() - the API server shows the pod like this (ADDED, MODIFIED or listed). Any order, any
 * repetition. A pod once seen bound is never unbound by an older event; a bound pod's placement does not
 * change any more but by a resize, to a later one of the same GPUs (resize.h); one whose end was seen never
 * comes back, its entry stays until it is removed. Where the API server shows a reserved pod bound otherwise
 * than we reserved (somebody else was faster), the API server is right. Pods that ask for no GPU are not
 * kept. -ENOMEM: nothing changed. */
int ledger_set_pod(struct ledger *ledger, const struct pod_facts *facts);

/* ledger_set_host_pod() - a pod that asks for no GPU is on this node; of it only the CPU and memory that it
 * requests count. ledger_remove_host_pod() - it has ended; unknown uids are ignored. */
int ledger_set_host_pod(struct ledger *ledger, const struct pod_facts *facts);
void ledger_remove_host_pod(struct ledger *ledger, const char *uid);

/* ledger_set_unlisted() - what is known of the pod comes from a single answer: the watch has not shown it,
 * and will not tell its end if it ends in a gap of the watch. Whoever sees a new LIST asks for such pods. */
void ledger_set_unlisted(struct ledger *ledger, const char *uid);

/* ledger_set_agent_lost() - whether the Lease of the node's agent has run out. A node that is not known is
 * ignored: tell again after ledger_set_node(). */
void ledger_set_agent_lost(struct ledger *ledger, const char *node, bool lost);

/* ledger_hear_agent() - the node's agent has renewed its Lease at heard_ns (monotonic); 0: it has no Lease
 * any more. A node that is not known is ignored, and so is an older time. Orphans end by time only while
 * their node's agent is heard: what it could not say does not mean that their containers ended. */
void ledger_hear_agent(struct ledger *ledger, const char *node, int64_t heard_ns);

/* ledger_remove_pod() - the pod has ended. Unknown uids are ignored. Afterwards nothing is known of the uid:
 * an older event must not follow (the watch delivers the events of one object in order). */
void ledger_remove_pod(struct ledger *ledger, const char *uid);

/* ledger_delete_pod() - DELETED, which says nothing about the containers: after a force delete they run on
 * (the kubelet kills them later, kubelet_pods.go HandlePodCleanups; 1.36.3). A bound pod last shown running,
 * or listed by its node, stays as an orphan until its node's `held` says that it ended, at most until
 * expires_ns if its agent is heard (ORPHAN_NS anew after each silence); while `held` lists it, without limit.
 * Everything else is removed. */
void ledger_delete_pod(struct ledger *ledger, const char *uid, int64_t expires_ns);

/* ledger_hold() - tentative reservation of this placement on this node until expires_ns (monotonic); replaces
 * an earlier hold of the pod. -EBUSY if the pod is reserved or bound already, -ENOENT for an unknown node,
 * -ENOSPC if the placement does not fit (any more), -EINVAL if it is not one of this request; on failure an
 * earlier hold stays. Pods not known yet are added, and forgotten with the hold if the API server has not
 * shown them by then. -EBUSY also for a pod that has finished. */
int ledger_hold(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement, int64_t expires_ns);

/* ledger_drop_hold() - ends a tentative hold, nothing else.
 *
 * ledger_expire() - ends all holds, nominations and orphans whose time is over; returns how many. */
void ledger_drop_hold(struct ledger *ledger, const char *uid);
size_t ledger_expire(struct ledger *ledger, int64_t now_ns);

/* ledger_reserve() - the Binding is about to be sent: like ledger_hold(), but stays until ledger_confirm()
 * (the API server accepted it), ledger_release_reservation() (it did not) or what the watch shows. Confirming
 * or releasing twice, or after the watch has already told the end, changes nothing. Release only what the API
 * server has surely refused: after a time-out the Binding may still have landed. */
int ledger_reserve(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement);
void ledger_confirm(struct ledger *ledger, const char *uid);
void ledger_release_reservation(struct ledger *ledger, const char *uid);

/* ledger_restore_pod() - put a pod back as it was in another ledger, without asking whether there is room: a
 * recorded ledger is restored as it was, right or wrong. The image's lists are not read. A pod that is there
 * already is replaced. */
int ledger_restore_pod(struct ledger *ledger, const struct ledger_pod *image);

/* ledger_node() - NULL if unknown; a node that only pods name has no uid and no GPUs. Both answers are valid
 * until the ledger changes. */
const struct node_ledger *ledger_node(const struct ledger *ledger, const char *name);
const struct ledger_pod *ledger_pod(const struct ledger *ledger, const char *uid);

/* ledger_choose() - placement_choose() as if the pod's own hold were not there, and as if nominated pods of
 * its priority or above were there already. The GPU that the pod itself is nominated for comes first. Same
 * returns; REJECT_NO_GPU_NODE for an unknown node. */
int ledger_choose(struct ledger *ledger, const char *node, const struct pod_facts *pod,
	struct placement *ret_placement);

/* ledger_feasibility() - what ledger_choose() would answer for each of these nodes, without the placements;
 * with thousands of nodes each is looked up once. ret_verdicts has n entries; valid until the ledger changes.
 */
struct node_verdict {
	const struct node_ledger *node; /* NULL: unknown */
	enum reject_reason reject_reason;
};
void ledger_feasibility(struct ledger *ledger, const char *const *names, size_t n,
	const struct pod_facts *pod, struct node_verdict *ret_verdicts);

/* ledger_gpu_mean() - CPU and memory behind one GPU, of all nodes with GPUs. */
struct host_sum ledger_gpu_mean(const struct ledger *ledger);

/* ledger_check() - recount every node from its pods. Returns the number of sums that differ (0 is right) and,
 * where ret_over is given, the number of GPUs used over their total. */
size_t ledger_check(const struct ledger *ledger, size_t *ret_over);
