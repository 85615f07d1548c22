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

/* policy_spaces_init() - known is true: without a watch of policies there are none. */
void policy_spaces_init(struct policy_spaces *spaces);
void policy_spaces_release(struct policy_spaces *spaces);

/* core_add_policy_space() - an empty one; the one that is there already; NULL: out of memory.
 * core_remove_policy_space() - with all that is in it. Unknown names are ignored. */
struct policy_space *core_add_policy_space(struct core *core, const char *namespace_);
void core_remove_policy_space(struct core *core, const char *namespace_);

/* core_policy_space() - NULL if the namespace has none. core_policies_are_used() - any namespace has.
 * policy_space_is_ready() - its pods are read, and so are all nodes and pods of the cluster. */
struct policy_space *core_policy_space(const struct core *core, const char *namespace_);
bool core_policies_are_used(const struct core *core);
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

/* core_policy_wait_until() - the pod waits for a unit, and is worth another attempt then at the latest; 0: it
 * is not by time. core_policy_found_waiting() - the pod may wait for a unit since before this process began.
 */
int core_policy_wait_until(struct core *core, struct policy_space *space, const struct policy_pod *pod,
	int64_t until_ns, int64_t now_ns);
int core_policy_found_waiting(
	struct core *core, struct policy_space *space, const struct policy_pod *pod, int64_t now_ns);

/* core_look_at_policies() - soon after a question, or a change of a book: what was freed is told to the
 * pods that wait for it. core_tick_policies() - once a second: what ends by time. */
void core_look_at_policies(struct core *core);
void core_tick_policies(struct core *core, int64_t now_ns);
