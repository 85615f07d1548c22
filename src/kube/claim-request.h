/* claim-request.h - reads the requests of a ResourceClaim of resource.k8s.io/v1. */
#pragma once

#include "model/claim-request.h"

struct error;
struct json_object;

/* claim_requests_from_json() - the requests of the claim's spec, or of a claim template's (spec.spec of the
 * template's object). -EINVAL with a sentence, -ENOMEM. The caller releases *ret_requests in any case. */
int claim_requests_from_json(
	struct json_object *spec, struct claim_requests *ret_requests, struct error *err);
