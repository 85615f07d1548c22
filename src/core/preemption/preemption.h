/* preemption.h - which pods must go so that one node can serve a pod of higher priority. Pure: the ledger is
 * the same afterwards.
 *
 * The rule, as kube-scheduler orders nodes (pickOneNodeForPreemption, 1.36.3): the fewest victims that a
 * PodDisruptionBudget protects; then the lowest priority of the most important victim; then the lowest sum of
 * priorities (counted from the lowest possible priority, so usually the fewest victims); then the fewest;
 * then the victims whose most important one started last. The same order decides among the GPUs of a node. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/registry/ledger.h"

struct budgets;
struct pod_facts;
struct table;

/* The pod for which other pods must go, and which of them may go. */
struct preemption_question {
	const struct pod_facts *pod;
	const struct budgets *budgets;
	const struct table
		*given; /* uids (with any value but NULL) of pods that go in any case; NULL: none */
	const struct table *spared; /* likewise: uids of pods that must not go; NULL: none */
	bool may_violate;	    /* victims that budgets protect are allowed if there is no other way */
	bool may_stop_bindings;	    /* pods whose Binding is on its way may be victims too */
	bool may_stop_holds;	    /* likewise, and pods for which filter holds a GPU */
	bool ignore_deleting;	    /* do not expect that pods that are being deleted will go */
};

struct preemption_plan {
	const struct node_ledger *node;
	struct placement placement; /* what the pod will get */
	/* The most important first. Given victims are included, pods that are being deleted are not. */
	const struct ledger_pod **victims;
	size_t n_victims;
	size_t n_violations; /* victims that their budgets protect, without the given ones */
	bool waits;	     /* the pod must wait for pods that are being deleted already */
};

void preemption_plan_release(struct preemption_plan *plan); /* accepts NULL */
#define _cleanup_preemption_plan_ _cleanup_(preemption_plan_release)

/* preemption_plan_node() - FITS: *ret_plan has the victims, none if the pod fits as it is. Victims that were
 * not given all have a lower priority than the pod, are bound, and are not static pods; without any one of
 * them the pod would not fit. Otherwise the function returns the reject reason that no eviction removes, or
 * -ENOMEM. The plan is valid until the ledger changes; the caller releases it. */
int preemption_plan_node(struct ledger *ledger, const char *node, const struct preemption_question *question,
	struct preemption_plan *ret_plan);

/* preemption_plan_compare() - negative: a is better; 0 only for plans of the same node. */
int preemption_plan_compare(const struct preemption_plan *a, const struct preemption_plan *b);

/* preemption_is_pointless() - O(1): the ledger has never seen a pod below this one. */
bool preemption_is_pointless(const struct ledger *ledger, const struct pod_facts *pod);
