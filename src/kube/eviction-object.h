/* eviction-object.h - the object that evicts a pod, and what the API server answers. Pure. */
#pragma once

#include <stdbool.h>

struct error;
struct json_object;

/* eviction_object() - of policy/v1; the pod must have this uid. NULL: out of memory. The caller puts it. */
struct json_object *eviction_object(const char *namespace_, const char *name, const char *uid);

/* eviction_is_refused() - an answer of status 201 that is a refusal: a Status that is not a success (1.36.3:
 * a pod with more than one budget). ret_reason has the server's sentence then. */
bool eviction_is_refused(struct json_object *answer, struct error *ret_reason);
