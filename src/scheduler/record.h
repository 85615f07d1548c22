/* record.h - what the verbs tell the flight recorder, from what they have at hand. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "model/placement.h"

struct node_ledger;
struct pod_facts;
struct scheduler;

/* record_filter() - after the best node's cards are held. fitting are the n_offered nodes of the answer, best
 * first, of n_fitting; misfits counts the other nodes by enum misfit. */
void record_filter(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const struct node_ledger *const *offered, size_t n_offered, size_t n_fitting,
	const uint32_t misfits[MISFIT_MAX]);

/* record_prioritize() - n names with their scores, in the order of the answer. */
void record_prioritize(struct scheduler *scheduler, const struct pod_facts *pod, const char *const *names,
	const int *scores, size_t n);

/* record_bind() - the cards are reserved on the node, the Binding is about to leave. */
void record_bind(struct scheduler *scheduler, const struct pod_facts *pod, const char *node,
	const struct placement *placement);

/* record_outcome() - what kube-scheduler is answered; "" for success. */
void record_outcome(struct scheduler *scheduler, const char *uid, const char *namespace_, const char *name,
	const char *node, const char *text, int64_t spent_ns);

void record_nudge(struct scheduler *scheduler, const struct pod_facts *pod);
