/* policies.h - ResourcePolicies: which nodes a pod may use now. What a policy says and who is counted where
 * is in core/policy (policy.h, policy-book.h); here are the watch of policies, the verbs of kube-scheduler
 * and what is written.
 *
 * Where there is no ResourcePolicy, only the labels of nodes are kept. The first one of a namespace lists its
 * pods once; what happens to them afterwards comes from the one watch of pods (sync.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy/policy.h"

struct error;
struct http_call;
struct json_object;
struct policy_pod;
struct policies;
struct metrics;
struct pod_facts;
struct scheduler;

int policies_start(struct scheduler *scheduler, struct policies **ret_policies);
void policies_stop(struct policies *policies); /* accepts NULL */

/* policies_are_known() - the API server has said which ResourcePolicies there are, or that it knows no such
 * thing. Stays true, as it is for NULL. */
bool policies_are_known(const struct policies *policies);

/* policies_are_used() - there is a ResourcePolicy. */
bool policies_are_used(const struct policies *policies);

/* policies_tick() - once a second: what ends by time, and what is to be written. */
void policies_tick(struct policies *policies);

/* What the watches of nodes and pods have told. policies: NULL is none. last: the pod's last state, or NULL.
 */
void policies_see_node(struct policies *policies, const char *name, struct json_object *object);
void policies_forget_node(struct policies *policies, const char *name);
void policies_see_pod(struct policies *policies, struct json_object *object);
void policies_forget_pod(struct policies *policies, const char *uid, struct json_object *last);

/* policies_look_anew() - a LIST of all pods is complete, or else one of all nodes. policies: NULL is none. */
void policies_look_anew(struct policies *policies, bool pods);

/* What the pod's policy says. */
struct policy_decision {
	bool selected;		/* a policy has a say; else all that follows is empty */
	bool gone;		/* likewise, since the pod's end was told: nothing is for it */
	bool owes_marks;	/* the pod may use a unit of which it lacks podLabels or podAnnotations */
	uint64_t preempt;	/* bits of units */
	struct policy_pod *pod; /* until the loop goes on */
	struct policies *policies;
	int unit;		     /* after policies_narrow_gang(); -1: none */
	size_t together;	     /* then: as many of the gang have to be placed there, with this one */
	char text[POLICY_TEXT_SIZE]; /* the unit and why, or why none; the same words while nothing changes */
};

/* policies_narrow() - usable[i], of n names, says whether others think that the node can take the pod; what
 * the policy does not let it use now becomes false. pod: as kube-scheduler shows it. Where something is left,
 * its place in the unit is kept for it until it is bound, asked about again or gone. */
void policies_narrow(struct policies *policies, struct json_object *pod, const char *const *names, size_t n,
	bool *usable, struct policy_decision *ret_decision);

/* policies_narrow_gang() - the same for a pod of a gang that has not started, which goes whole into the
 * first unit that has room for as many of it as have to be placed. *ret_names: what is left of the names, in
 * malloc'ed memory; NULL: all, the policy has no say (yet). -ENOMEM. policies_take_gang() - the pod gets its
 * node there: its place in the unit is kept, and those of the others. */
int policies_narrow_gang(struct policies *policies, const struct pod_facts *facts, struct json_object *pod,
	const char *const *names, size_t n, const char ***ret_names, size_t *ret_n,
	struct policy_decision *ret_decision);
void policies_take_gang(struct policy_decision *decision);

/* policies_confirm() - the pod is about to be bound to this node: the place that it was given in a unit there
 * is still its own, or it has none and gets one now. -EBUSY, with a sentence: there is none, it was given one
 * elsewhere, or what marks the unit is not on the pod. policies: NULL is none. */
int policies_confirm(struct policies *policies, const char *namespace_, const char *uid, const char *node,
	struct error *err);

/* policies_may_preempt() - whether others may be preempted on this node for the pod, after policies_narrow()
 * or policies_recall(). policies_recall() - what was said last; asks anew where nothing was: preempt comes
 * without filter if no node passes kube-scheduler's own filters. */
bool policies_may_preempt(const struct policy_decision *decision, const char *node);
void policies_recall(
	struct policies *policies, struct json_object *pod, struct policy_decision *ret_decision);

/* policies_reply() - writes the marks that the pod owes and answers the call then: `good` if they are on the
 * pod, else `bad`. A crash in between leaves marks on a pod that is not bound, which counts nowhere. Both
 * texts are taken over. */
void policies_reply(const struct policy_decision *decision, struct http_call *call, char *good, char *bad);

/* policies_answer() - the verbs of the entry that is asked about every pod, "filter" and "preempt". Answers
 * the call. */
void policies_answer(
	struct policies *policies, struct http_call *call, const char *verb, const char *body, size_t len);

/* policies_explain() - how a pod stands, for `ration why`: {"policy", "level", "text", ...}; NULL if no
 * policy has it. The caller puts it. */
struct json_object *policies_explain(
	const struct policies *policies, const char *namespace_, const char *name);

void policies_metrics(const struct policies *policies, struct metrics *page);
