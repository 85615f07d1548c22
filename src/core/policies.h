/* policies.h - which nodes a pod may use now by its ResourcePolicy: the namespaces that have policies
 * (core/policy/policy-book.h), and the decisions about their pods. Pure.
 *
 * The caller adds and removes spaces, policies and pods, and tells when the pods of a namespace are read.
 * Without a ResourcePolicy, only the labels of nodes are kept. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy-spaces.h"

struct core;
struct error;
struct pod_facts;

/* core_add_policy_space() - adds an empty space, or returns the one that exists; NULL: out of memory.
 * core_remove_policy_space() - removes the space with its content. Unknown names are ignored. */
struct policy_space *core_add_policy_space(struct core *core, const char *namespace_);
void core_remove_policy_space(struct core *core, const char *namespace_);

/* core_policy_space() - NULL if the namespace has none. policy_space_is_ready() - its pods are read, and so
 * are all nodes and pods of the cluster. */
struct policy_space *core_policy_space(const struct core *core, const char *namespace_);
bool policy_space_is_ready(const struct core *core, const struct policy_space *space);

/* A call of kube-scheduler about a pod. */
struct policy_asked {
	struct policy_space *space;	/* of its namespace; NULL: no policy applies */
	const char *uid;		/* "" if it has none */
	struct policy_pod_facts *facts; /* taken over; NULL: the pod is not valid */
};

/* The decision of the pod's policy. */
struct policy_decision {
	bool selected;	   /* a policy applies; else all that follows is empty */
	bool gone;	   /* no policy applies, because the watch has told the pod's end */
	bool owes_marks;   /* the pod may use a unit of which it lacks podLabels or podAnnotations */
	bool answered;	   /* the policy was evaluated; the result is in answer */
	uint64_t preempt;  /* bits of units in which pods may be preempted for it */
	int requeue_error; /* the pod waits and will not be requeued: -ENOMEM, -E2BIG; else 0 */
	struct policy_space *space;
	struct policy_pod *pod; /* valid until the next event */
	int unit;		/* the unit that was chosen for its gang; -1: none */
	size_t together;	/* if so: how many members must be placed there, including this one */
	struct policy_answer answer;
	char text[POLICY_TEXT_SIZE]; /* the unit and why, or why none; constant while nothing changes */
};

/* core_policy_narrow() - usable[i], of n names, says whether the other checks allow the node. The function
 * sets it to false if the policy does not let the pod use the node now. If a node is left, the pod's place in
 * the unit is kept until the pod is bound, asked about again or gone. */
void core_policy_narrow(struct core *core, const struct policy_asked *asked, const char *const *names,
	size_t n, bool *usable, int64_t now_ns, struct policy_decision *ret_decision);

/* core_policy_confirm() - the pod is about to be bound to this node. 0: the place in a unit of this node that
 * filter gave the pod is still kept for it, or the pod had no place and gets one now. -EBUSY, with a sentence
 * in err: the units of this node are full, the pod's place is in a unit of other nodes, the pod lacks the
 * labels or annotations that mark the unit, or the policies or the pods of the namespace are not read yet. */
int core_policy_confirm(struct core *core, const char *namespace_, const char *uid, const char *node,
	int64_t now_ns, struct error *err);

/* core_policy_recall() - returns the last decision, or decides now if nothing was decided yet: kube-scheduler
 * calls preempt without filter if no node passes its own filters. policy_may_preempt() - whether pods may be
 * preempted on this node for the pod, after core_policy_narrow() or core_policy_recall(). */
void core_policy_recall(struct core *core, const struct policy_asked *asked, int64_t now_ns,
	struct policy_decision *ret_decision);
bool policy_may_preempt(const struct policy_decision *decision, const char *node);

/* What the watches show. core_set_policies_known() - it is known which ResourcePolicies exist, if any.
 * core_see_policy() - takes the policy over in any case. 1: the pods of its namespace must be read (again),
 * because it names annotations that no policy named before; -ENOMEM: the policy is lost.
 * core_see_policy_pod() - takes the facts over in any case. core_policy_pods_list_begins(),
 * core_policy_pods_are_listed() - before and after a LIST of the pods of a namespace that the watch of pods
 * did not show. older: the policies existed before this process, so pods may wait that an earlier process has
 * rejected. Returns how many of them could not be queued. core_policy_marks_failed() - the labels of the
 * pod's unit could not be written; another attempt is worth it at until_ns. core_look_at_policies_anew() - a
 * LIST is complete: pods that were told to wait for it are asked about again. */
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

/* core_look_at_policies() - call soon after a decision or a change of a book: tells waiting pods that
 * something was freed. core_tick_policies() - call once a second: ends what is limited in time. */
void core_look_at_policies(struct core *core);
void core_tick_policies(struct core *core, int64_t now_ns);
