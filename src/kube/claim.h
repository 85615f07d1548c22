/* claim.h - reads ResourceClaim objects of resource.k8s.io/v1. */
#pragma once

#include "model/claim.h"

struct error;
struct json_object;

/* claim_from_json() - reads the claim as a whole or not at all: a claim with one allocation that cannot be
 * read must not be prepared in part. -EINVAL with a sentence that names the claim and the member, -ENOMEM. On
 * failure, *ret_claim still has uid, namespace and name as far as they are readable, and nothing else. The
 * caller releases *ret_claim in any case.
 *
 * Results and parameters of other drivers are not an error; of such results, only the names are read. A
 * consumer that is no pod is left out of `pods`. */
int claim_from_json(struct json_object *object, struct claim *ret_claim, struct error *err);

/* pod_claim_name() - the ResourceClaim of this entry of the pod's spec.resourceClaims: the one that it names,
 * or that was made from its template. NULL until that claim is made. */
const char *pod_claim_name(struct json_object *pod, const char *entry);
