/* record.h - writes what the verbs decide into the flight recorder. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/placement/choose.h"
#include "core/preempt.h"
#include "scheduler/recorder.h"

struct node_ledger;
struct pod_facts;
struct preemption_plan;
struct scheduler;

/* record_filter() - call it after the best node's GPUs are held. fitting are the n_offered nodes of the
 * answer, best first, of n_fitting; reject_reasons counts the other nodes by enum reject_reason. text: the
 * text of the pod's ResourcePolicy, "" if it has none. */
void record_filter(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const struct node_ledger *const *offered, size_t n_offered, size_t n_fitting,
	const uint32_t reject_reasons[REJECT_MAX], const char *text);

/* record_prioritize() - n names with their scores, in the order of the answer. */
void record_prioritize(struct scheduler *scheduler, const struct pod_facts *pod, const char *const *names,
	const int *scores, size_t n);

/* record_bind() - the GPUs are reserved on the node, and the Binding is about to be sent. */
void record_bind(struct scheduler *scheduler, const struct pod_facts *pod, const char *node,
	const struct placement *placement);

/* record_outcome() - the answer to kube-scheduler; "" for success. */
void record_outcome(struct scheduler *scheduler, const char *uid, const char *namespace_, const char *name,
	const char *node, const char *text, int64_t spent_ns);

/* record_policy() - the decision of the ResourcePolicy about a pod that asks for no GPU: the n nodes that are
 * left of the nodes of the call. */
void record_policy(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const char *const *names, size_t n, const char *text);

void record_requeue(struct scheduler *scheduler, const struct pod_facts *pod);

/* record_filter_error() - filter was answered with a sentence. The pod's request may be empty. */
void record_filter_error(struct scheduler *scheduler, const struct pod_facts *pod, const char *text);

/* record_preempt() - call it before the nomination. plan NULL: no node; text then says why, "" if the tally
 * does. n_others: victims that ask for no GPU. */
void record_preempt(struct scheduler *scheduler, const struct pod_facts *pod,
	const struct preempt_tally *tally, const struct preemption_plan *plan, size_t n_others,
	const char *text);

/* For evictions by ration. record_eviction_search() - the best nodes where victims were found, or why there
 * are none. record_eviction_plan() - call it before the nomination. record_eviction() - the API server's
 * answer to the eviction of one victim, "" for success. record_eviction_end() - how the attempt ended; node
 * may be NULL. */
void record_eviction_search(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const char *const *nodes, size_t n_nodes, const char *text);
void record_eviction_plan(
	struct scheduler *scheduler, const struct pod_facts *pod, const struct preemption_plan *plan);
void record_eviction(struct scheduler *scheduler, const struct pod_facts *pod, const struct pod_facts *victim,
	const char *node, const char *text);
void record_eviction_end(
	struct scheduler *scheduler, const struct pod_facts *pod, const char *node, const char *text);

/* For a gang member: record_gang_place() - DECISION_GANG_PLAN or _KEPT, with the place. record_gang_end() -
 * DECISION_GANG_GIVEN_UP or _EVICT; node: the node of its present or former place. */
void record_gang_place(struct scheduler *scheduler, const struct pod_facts *pod, enum decision_kind kind,
	const char *node, const struct placement *placement, const char *text);
void record_gang_end(struct scheduler *scheduler, const struct pod_facts *pod, enum decision_kind kind,
	const char *node, const char *text);
