/* policies.h - which nodes a pod may use now by its ResourcePolicy: the namespaces that have policies
 * (core/policy/policy-book.h), and the questions about them. Pure.
 *
 * The caller adds and removes spaces, policies and pods, and says when the pods of a namespace are read.
 * Where there is no ResourcePolicy, only the labels of nodes are kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy-spaces.h"

struct core;
struct error;
struct pod_facts;

/* core_add_policy_space() - an empty one; the one that is there already; NULL: out of memory.
 * core_remove_policy_space() - with all that is in it. Unknown names are ignored. */
struct policy_space *core_add_policy_space(struct core *core, const char *namespace_);
void core_remove_policy_space(struct core *core, const char *namespace_);

/* core_policy_space() - NULL if the namespace has none.
 * policy_space_is_ready() - its pods are read, and so are all nodes and pods of the cluster. */
struct policy_space *core_policy_space(const struct core *core, const char *namespace_);
bool policy_space_is_ready(const struct core *core, const struct policy_space *space);

/* A question of kube-scheduler's about a pod. */
struct policy_asked {
	struct policy_space *space;	/* of its namespace; NULL: no policy has a say */
	const char *uid;		/* "" if it has none */
	struct policy_pod_facts *facts; /* taken over; NULL: the pod cannot be understood */
};

/* What the pod's policy says. */
struct policy_decision {
	bool selected;	   /* a policy has a say; else all that follows is empty */
	bool gone;	   /* likewise, since the pod's end was told: nothing is for it */
	bool owes_marks;   /* the pod may use a unit of which it lacks podLabels or podAnnotations */
	bool answered;	   /* the policy was asked anew: answer is what it said */
	uint64_t preempt;  /* bits of units */
	int requeue_error; /* the pod waits, and will not be requeued: -ENOMEM, -E2BIG; else 0 */
	struct policy_space *space;
	struct policy_pod *pod; /* until the next event */
	int unit;		/* that was chosen for its gang; -1: none */
	size_t together;	/* then: as many of the gang have to be placed there, with this one */
	struct policy_answer answer;
	char text[POLICY_TEXT_SIZE]; /* the unit and why, or why none; the same words while nothing changes */
};

/* core_policy_narrow() - usable[i], of n names, says whether others think that the node can take the pod;
 * what the policy does not let it use now becomes false. Where something is left, its place in the unit is
 * kept for it until it is bound, asked about again or gone. */
void core_policy_narrow(struct core *core, const struct policy_asked *asked, const char *const *names,
	size_t n, bool *usable, int64_t now_ns, struct policy_decision *ret_decision);

/* core_policy_confirm() - the pod is about to be bound to this node. 0: the place in a unit of this node that
 * filter gave the pod is still kept for it, or the pod had no place and gets one now. -EBUSY, with a sentence
 * in err: the units of this node are full, the pod's place is in a unit of other nodes, the pod lacks the
 * labels or annotations that mark the unit, or the policies or the pods of the namespace are not read yet. */
int core_policy_confirm(struct core *core, const char *namespace_, const char *uid, const char *node,
	int64_t now_ns, struct error *err);

/* core_policy_recall() - what was said last; asks anew where nothing was: preempt comes without filter if no
 * node passes kube-scheduler's own filters. policy_may_preempt() - whether others may be preempted on this
 * node for the pod, after core_policy_narrow() or core_policy_recall(). */
void core_policy_recall(struct core *core, const struct policy_asked *asked, int64_t now_ns,
	struct policy_decision *ret_decision);
bool policy_may_preempt(const struct policy_decision *decision, const char *node);

/* What the watches show. core_set_policies_known() - which ResourcePolicies there are, or that there are
 * none. core_see_policy() - takes it over in any case; 1: the pods of its namespace have to be read (again),
 * since it names annotations that no policy named before; -ENOMEM: it is lost. core_see_policy_pod() - takes
 * the facts over in any case. core_policy_pods_list_begins(), core_policy_pods_are_listed() - around a LIST
 * of the pods of a namespace that the watch of pods did not show; older: the policies were there before this
 * process, so that pods may wait that an earlier one has rejected; returns how many of them could not be
 * queued. core_policy_marks_failed() - the pod's labels for its unit could not be written: it is worth
 * another attempt at until_ns. core_look_at_policies_anew() - a LIST is complete: pods that were told to wait
 * for it are asked about again. */
void core_set_policies_known(struct core *core, bool known);
int core_see_policy(struct core *core, struct policy_space *space, struct resource_policy *policy);
void core_policy_is_gone(struct core *core, struct policy_space *space, const char *uid);
int core_see_policy_node(struct core *core, const char *name, const char *labels); /* -ENOMEM */
void core_policy_node_is_gone(struct core *core, const char *name);
void core_see_policy_pod(
	struct core *core, struct policy_space *space, struct policy_pod_facts *facts, int64_t now_ns);
void core_policy_pod_is_gone(struct core *core, struct policy_space *space, const char *uid);
void core_policy_pods_list_begins(struct core *core, struct policy_space *space);
size_t core_policy_pods_are_listed(struct core *core, struct policy_space *space, bool older, int64_t now_ns);
int core_policy_marks_failed(
	struct core *core, struct policy_space *space, const char *uid, int64_t until_ns, int64_t now_ns);
void core_look_at_policies_anew(struct core *core);

/* core_look_at_policies() - soon after a question, or a change of a book: what was freed is told to the
 * pods that wait for it. core_tick_policies() - once a second: what ends by time. */
void core_look_at_policies(struct core *core);
void core_tick_policies(struct core *core, int64_t now_ns);
