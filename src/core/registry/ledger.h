/* ledger.h - every change of what pods use on nodes and GPUs. The structs are in registry.h.
 *
 * The ledger receives what the API server shows (nodes, pods), in any order and any number of times, and this
 * process' own reservations. A pod occupies from its reservation until a terminal phase or its deletion. The
 * numbers are running sums, O(1) per event; ledger_check() recounts them from the pods. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/registry/registry.h"
#include "core/registry/reject-reason.h"

void ledger_init(struct ledger *ledger);
void ledger_release(struct ledger *ledger);

/* ledger_set_node() - the API server shows the node like this. If a fact that matters changed, the ledger
 * recounts the node's pods; if the node changes its mode, holds on it end. The facts need a name and a uid.
 * Pods may name a node before it is known, and after it is gone. ledger_remove_node() - the node is gone. The
 * call is ignored if the uid is another, because the node was created again meanwhile. */
int ledger_set_node(struct ledger *ledger, const struct node_facts *facts);
void ledger_remove_node(struct ledger *ledger, const char *name, const char *uid);

/* ledger_set_pod() - the API server shows the pod like this (ADDED, MODIFIED or listed), in any order and any
 * number of times. An older event never unbinds a pod that was seen bound. A bound pod's placement changes
 * only by a resize, to a later one of the same GPUs (resize.h). A pod whose end was seen never comes back;
 * its entry stays until it is removed. If another client bound a reserved pod differently, the API server is
 * right. Pods that ask for no GPU are not kept. -ENOMEM: nothing changed. */
int ledger_set_pod(struct ledger *ledger, const struct pod_facts *facts);

/* ledger_set_host_pod() - a pod that asks for no GPU is on this node; only the CPU and memory that it
 * requests count. ledger_remove_host_pod() - the pod has ended; unknown uids are ignored. */
int ledger_set_host_pod(struct ledger *ledger, const struct pod_facts *facts);
void ledger_remove_host_pod(struct ledger *ledger, const char *uid);

/* ledger_set_unlisted() - what the ledger knows of the pod comes from a single answer of the API server. The
 * watch has not shown the pod, and will not tell its end if it ends in a gap of the watch. The reader of a
 * new LIST must ask the API server for such pods. */
void ledger_set_unlisted(struct ledger *ledger, const char *uid);

/* ledger_set_agent_lost() - whether the Lease of the node's agent has run out. The call is ignored for an
 * unknown node; repeat it after ledger_set_node(). */
void ledger_set_agent_lost(struct ledger *ledger, const char *node, bool lost);

/* ledger_hear_agent() - the node's agent has renewed its Lease at heard_ns (monotonic); 0: it has no Lease
 * any more. An unknown node and an older time are ignored. Orphans end by time only while their node's agent
 * is heard: the silence of an agent does not mean that their containers ended. */
void ledger_hear_agent(struct ledger *ledger, const char *node, int64_t heard_ns);

/* ledger_remove_pod() - the pod has ended; unknown uids are ignored. Afterwards the ledger knows nothing of
 * the uid, so an older event must not follow. The watch delivers the events of one object in order. */
void ledger_remove_pod(struct ledger *ledger, const char *uid);

/* ledger_delete_pod() - DELETED does not mean that the containers have ended: after a force delete they run
 * on (the kubelet kills them later, kubelet_pods.go HandlePodCleanups; 1.36.3). A bound pod that was last
 * shown running, or that its node lists, stays as an orphan until its node's `held` says that it ended. If
 * `held` does not list it and the agent is heard, it stays until expires_ns at most (ORPHAN_NS anew after
 * each silence). While `held` lists it, it stays without limit. Every other pod is removed; one that the
 * `held` of a node lists, since it was bound and nothing has shown that, becomes an orphan there. */
void ledger_delete_pod(struct ledger *ledger, const char *uid, int64_t expires_ns);

/* ledger_hold() - reserves this placement on this node tentatively until expires_ns (monotonic), in place of
 * an earlier hold of the pod. A pod that the ledger does not know is added; it is forgotten with the hold if
 * the API server has not shown it by then. On failure an earlier hold stays. -EBUSY if the pod is reserved or
 * bound already or has finished, -ENOENT for an unknown node, -ENOSPC if the placement does not fit (any
 * more), -EINVAL if it is not one of this request. */
int ledger_hold(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement, int64_t expires_ns);

/* ledger_drop_hold() - ends a tentative hold, nothing else.
 *
 * ledger_expire() - ends all holds, nominations and orphans whose time is over; returns their number. */
void ledger_drop_hold(struct ledger *ledger, const char *uid);
size_t ledger_expire(struct ledger *ledger, int64_t now_ns);

/* ledger_reserve() - the Binding is about to be sent. Like ledger_hold(), but the reservation has no end
 * time. It lasts until ledger_confirm() (the API server accepted the Binding), ledger_release_reservation()
 * (it did not), or an event of the watch. To confirm or release twice, or after the watch has told the end,
 * changes nothing. Release a reservation only if the API server has surely refused the Binding: after a
 * time-out it may still have landed. */
int ledger_reserve(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement);
void ledger_confirm(struct ledger *ledger, const char *uid);
void ledger_release_reservation(struct ledger *ledger, const char *uid);

/* ledger_restore_pod() - puts a pod back as it was in another ledger, without checking for room: a recorded
 * ledger is restored as it was, right or wrong. The image's lists are not read. The entry of a pod with the
 * same uid is replaced. */
int ledger_restore_pod(struct ledger *ledger, const struct ledger_pod *image);

/* ledger_node() - NULL if the node is unknown. A node that only pods name has no uid and no GPUs. Both
 * results are valid until the ledger changes. */
const struct node_ledger *ledger_node(const struct ledger *ledger, const char *name);
const struct ledger_pod *ledger_pod(const struct ledger *ledger, const char *uid);

/* ledger_choose() - like placement_choose(), as if the pod's own hold were not there, and as if nominated
 * pods of its priority or above were there already. The GPU that the pod itself is nominated for comes first.
 * Returns the same values, and REJECT_NO_GPU_NODE for an unknown node. */
int ledger_choose(struct ledger *ledger, const char *node, const struct pod_facts *pod,
	struct placement *ret_placement);

/* ledger_feasibility() - the result of ledger_choose() for each of these nodes, without the placements. Each
 * node is looked up only once, because there may be thousands. ret_verdicts has n entries; they are valid
 * until the ledger changes. */
struct node_verdict {
	const struct node_ledger *node; /* NULL: unknown */
	enum reject_reason reject_reason;
};
void ledger_feasibility(struct ledger *ledger, const char *const *names, size_t n,
	const struct pod_facts *pod, struct node_verdict *ret_verdicts);

/* gpu_mean_of() - from what all nodes have for each GPU, and what is free for each free GPU. */
struct gpu_mean gpu_mean_of(struct host_sum all, struct host_sum left);

/* ledger_gpu_mean() - what the nodes with GPUs have of CPU and memory for each GPU. Nodes whose CPU is
 * unknown are left out. All zero if there is no such node. */
struct gpu_mean ledger_gpu_mean(const struct ledger *ledger);

/* ledger_gpus_taken() - how much of all GPUs of these nodes is in use, in thousandths, at most 1000. */
uint32_t ledger_gpus_taken(const struct ledger *ledger);

/* ledger_check() - recounts every node from its pods. Returns the number of sums that differ (0 is right).
 * ret_over, if not NULL, receives the number of GPUs that are used over their total. */
size_t ledger_check(const struct ledger *ledger, size_t *ret_over);
