/* levels.h - ResourcePolicies: which nodes a pod may use now. What a policy says and who is counted where is
 * in core/policy (levels.h, level-book.h); here are the watch of policies, the verbs of kube-scheduler and
 * what is written.
 *
 * Where there is no ResourcePolicy, only the labels of nodes are kept. The first one of a namespace lists its
 * pods once; what happens to them afterwards comes from the one watch of pods (sync.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy/levels.h"

struct error;
struct http_call;
struct json_object;
struct level_pod;
struct levels;
struct metrics;
struct pod_facts;
struct scheduler;

int levels_start(struct scheduler *scheduler, struct levels **ret_levels);
void levels_stop(struct levels *levels); /* accepts NULL */

/* levels_are_known() - the API server has said which ResourcePolicies there are, or that it knows no such
 * thing. Stays true, as it is for NULL. */
bool levels_are_known(const struct levels *levels);

/* levels_are_used() - there is a ResourcePolicy. */
bool levels_are_used(const struct levels *levels);

/* levels_tick() - once a second: what ends by time, and what is to be written. */
void levels_tick(struct levels *levels);

/* What the watches of nodes and pods have told. levels: NULL is none. last: the pod's last state, or NULL. */
void levels_see_node(struct levels *levels, const char *name, struct json_object *object);
void levels_forget_node(struct levels *levels, const char *name);
void levels_see_pod(struct levels *levels, struct json_object *object);
void levels_forget_pod(struct levels *levels, const char *uid, struct json_object *last);

/* levels_not_nudged() - a pod that we wanted woken was not; others are ignored. NULL is none. */
void levels_not_nudged(struct levels *levels, const char *uid);

/* What the pod's policy says. */
struct levels_say {
	bool selected;	       /* a policy has a say; else all that follows is empty */
	bool gone;	       /* likewise, since the pod's end was told: nothing is for it */
	bool owes_marks;       /* the pod may use a level of which it lacks podLabels or podAnnotations */
	uint64_t preempt;      /* bits of levels */
	struct level_pod *pod; /* until the loop goes on */
	struct levels *levels;
	int level;		    /* after levels_narrow_gang(); -1: none */
	size_t together;	    /* then: as many of the gang have to be placed there, with this one */
	char text[LEVEL_TEXT_SIZE]; /* the level and why, or why none; the same words while nothing changes */
};

/* levels_narrow() - usable[i], of n names, says whether others think that the node can take the pod; what the
 * policy does not let it use now becomes false. pod: as kube-scheduler shows it. Where something is left, its
 * place in the level is kept for it until it is bound, asked about again or gone. */
void levels_narrow(struct levels *levels, struct json_object *pod, const char *const *names, size_t n,
	bool *usable, struct levels_say *ret_say);

/* levels_narrow_gang() - the same for a pod of a gang that has not come about, which goes whole into the
 * first level that has room for as many of it as have to be placed. *ret_names: what is left of the names, in
 * malloc'ed memory; NULL: all, the policy has no say (yet). -ENOMEM. levels_take_gang() - the pod gets its
 * node there: its place in the level is kept, and those of the others. */
int levels_narrow_gang(struct levels *levels, const struct pod_facts *facts, struct json_object *pod,
	const char *const *names, size_t n, const char ***ret_names, size_t *ret_n,
	struct levels_say *ret_say);
void levels_take_gang(struct levels_say *say);

/* levels_confirm() - the pod is about to be bound to this node: the place that it was given in a level there
 * is still its own, or it has none and gets one now. -EBUSY, with a sentence: there is none, it was given one
 * elsewhere, or what marks the level is not on the pod. levels: NULL is none. */
int levels_confirm(
	struct levels *levels, const char *namespace_, const char *uid, const char *node, struct error *err);

/* levels_may_preempt() - whether others may be preempted on this node for the pod, after levels_narrow() or
 * levels_recall(). levels_recall() - what was said last; asks anew where nothing was: preempt comes without
 * filter if no node passes kube-scheduler's own filters. */
bool levels_may_preempt(const struct levels_say *say, const char *node);
void levels_recall(struct levels *levels, struct json_object *pod, struct levels_say *ret_say);

/* levels_reply() - writes the marks that the pod owes and answers the call then: `good` if they are on the
 * pod, else `bad`. A crash in between leaves marks on a pod that is not bound, which counts nowhere. Both
 * texts are taken over. */
void levels_reply(const struct levels_say *say, struct http_call *call, char *good, char *bad);

/* levels_answer() - the verbs of the entry that is asked about every pod, "filter" and "preempt". Answers the
 * call. */
void levels_answer(
	struct levels *levels, struct http_call *call, const char *verb, const char *body, size_t len);

/* levels_explain() - how a pod stands, for `ration why`: {"policy", "level", "text", ...}; NULL if no policy
 * has it. The caller puts it. */
struct json_object *levels_explain(const struct levels *levels, const char *namespace_, const char *name);

void levels_metrics(const struct levels *levels, struct metrics *page);
