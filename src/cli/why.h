/* why.h - the parts of `ration why`: the answer of ration-scheduler's page /why as text for users, and the
 * answer about a pod that asks for GPUs by ResourceClaims. */
#pragma once

#include <stdbool.h>

struct error;
struct json_object;
struct pod_facts;
struct strbuf;
struct why_options;

/* why_text() - what the pod waits for or where it is, one line per node and per GPU, then the decisions in
 * order of time. who: "namespace/name". The text has only printable ASCII and newlines. */
int why_text(struct json_object *answer, const char *who, struct strbuf *out);

/* why_policy_text() - for a pod that asks for no GPU: what its ResourcePolicy decides. */
int why_policy_text(struct json_object *answer, const char *who, struct strbuf *out);

/* why_add_decisions() - who: NAMESPACE/NAME of the pod of the question; a decision about another pod names
 * that pod. */
void why_add_decisions(struct json_object *answer, const char *who, struct strbuf *out);

/* why_add_gpus() - the GPUs that a decision has chosen. */
void why_add_gpus(struct strbuf *out, struct json_object *decision);

/* pod_has_claims() - the pod names ResourceClaims or ResourceClaimTemplates. */
bool pod_has_claims(struct json_object *pod);

/* why_claims_read() - reads the pod's claims, their DeviceClasses and all ResourceSlices, and compares them
 * as kube-scheduler does. The caller puts the answer; its members are in ration(1). */
int why_claims_read(const struct why_options *options, struct json_object *pod, const struct pod_facts *facts,
	struct json_object **ret_answer, struct error *err);

/* why_claims_text() - the answer for users. node: only the devices of this node; NULL for all. */
int why_claims_text(struct json_object *answer, const char *node, struct strbuf *out);
