/* why-claims.h - `ration why` about a pod that asks for GPUs by ResourceClaims. */
#pragma once

#include <stdbool.h>

struct error;
struct json_object;
struct pod_facts;
struct strbuf;
struct why_options;

/* pod_has_claims() - the pod names ResourceClaims or ResourceClaimTemplates. */
bool pod_has_claims(struct json_object *pod);

/* why_claims_read() - reads the pod's claims, their DeviceClasses and all ResourceSlices, and compares them
 * as kube-scheduler does. The caller puts the answer; its members are in ration(1). */
int why_claims_read(const struct why_options *options, struct json_object *pod, const struct pod_facts *facts,
	struct json_object **ret_answer, struct error *err);

/* why_claims_text() - the answer for users. node: only the devices of this node; NULL for all. */
int why_claims_text(struct json_object *answer, const char *node, struct strbuf *out);
