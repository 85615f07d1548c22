/* verbs.h - the verbs that kube-scheduler calls (extender/v1; unchanged on the wire since 1.22).
 *
 * Every answer is JSON with HTTP status 200; the reason of a failure is in "Error". kube-scheduler discards
 * the body of any other status. Returned strings are malloc'ed; NULL means out of memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;
struct http_call;
struct json_object;
struct scheduler;

/* extender_filter() - which of the named nodes have a GPU for the pod: the K best, with a hold on the best
 * one. The caller answers the call, unless *ret_later. Then NULL is returned, and the call is answered when
 * the labels of the pod's policy unit are written. */
char *extender_filter(
	struct scheduler *scheduler, struct http_call *call, const char *body, size_t len, bool *ret_later);

/* extender_prioritize() - 10 for the best node, at most 9 for the others, so that this order decides. */
char *extender_prioritize(struct scheduler *scheduler, const char *body, size_t len);

/* bind_submit() - body is ExtenderBindingArgs. Answers the call now or later, always exactly once. */
void bind_submit(struct scheduler *scheduler, struct http_call *call, const char *body, size_t len);

/* preempt_answer() - body is ExtenderPreemptionArgs with NodeNameToMetaVictims (nodeCacheCapable). The answer
 * has no place for an error. On an error the function returns NULL with a sentence in err, and *ret_status is
 * 400 or 503. NULL and 200: out of memory. */
char *preempt_answer(
	struct scheduler *scheduler, const char *body, size_t len, unsigned *ret_status, struct error *err);

/* simulate_filter() - which nodes could hold a pod, for programs that simulate scheduling, such as
 * autoscalers. body: ExtenderArgs with Nodes, as kube-scheduler sends them to an extender with
 * nodeCacheCapable: false; the nodes need not exist. Returns an ExtenderFilterResult with Nodes and
 * NodeNames, or one whose Error says why there is no answer. It changes nothing, and ignores gangs and
 * ResourcePolicies. */
char *simulate_filter(struct scheduler *scheduler, const char *body, size_t len);
