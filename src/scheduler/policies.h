/* policies.h - connects the ResourcePolicies of the API server with core/policies.h: the watch of policies,
 * the verbs of kube-scheduler and all writes.
 *
 * The first policy of a namespace lists its pods once. Afterwards, the one watch of pods (sync.h) shows their
 * changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_call;
struct json_object;
struct policies;
struct policy_asked;
struct policy_decision;
struct policy_pod_facts;
struct metrics;
struct pod_facts;
struct scheduler;

int policies_start(struct scheduler *scheduler, struct policies **ret_policies);
void policies_stop(struct policies *policies); /* accepts NULL */

/* policies_tick() - call it once a second: ends what is limited in time, and writes. */
void policies_tick(struct policies *policies);

/* What the watches of nodes and pods have told. policies NULL: ration does not watch ResourcePolicies. last:
 * the pod's last state, or NULL. */
void policies_see_node(struct policies *policies, const char *name, struct json_object *object);
void policies_forget_node(struct policies *policies, const char *name);
void policies_see_pod(struct policies *policies, struct json_object *object);
void policies_forget_pod(struct policies *policies, const char *uid, struct json_object *last);

/* policies_look_anew() - a LIST is complete: of all pods (pods true) or of all nodes. policies NULL:
 * ration does not watch ResourcePolicies. */
void policies_look_anew(struct policies *policies, bool pods);

/* policies_question() - the arguments of the core for the pod as kube-scheduler shows it; *facts is their
 * memory, which the core takes over. policies_note() - records what the core decided. */
void policies_question(struct policies *policies, struct json_object *pod, struct policy_pod_facts *facts,
	struct policy_asked *ret_asked);
void policies_note(struct policies *policies, const struct policy_decision *decision);

/* policies_recall() - core_policy_recall() for the pod as kube-scheduler shows it. */
void policies_recall(
	struct policies *policies, struct json_object *pod, struct policy_decision *ret_decision);

/* policies_reply() - writes the marks that the pod lacks, then answers the call: with `good` if the marks are
 * on the pod, else with `bad`. If the process crashes in between, a pod that is not bound keeps the marks; it
 * counts nowhere. Both texts are taken over. */
void policies_reply(struct policies *policies, const struct policy_decision *decision, struct http_call *call,
	char *good, char *bad);

/* policies_answer() - the verbs "filter" and "preempt" of the entry that kube-scheduler calls for every pod.
 * Answers the call. */
void policies_answer(
	struct policies *policies, struct http_call *call, const char *verb, const char *body, size_t len);

/* policies_explain() - the pod's state, for `ration why`: {"policy", "level", "text", ...}; NULL if no policy
 * selects it. The caller puts it. */
struct json_object *policies_explain(
	const struct policies *policies, const char *namespace_, const char *name);

void policies_metrics(const struct policies *policies, struct metrics *page);
