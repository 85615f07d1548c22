/* evict.h - one eviction through the user's own kubectl. */
#pragma once

#include <stdbool.h>

struct error;
struct json_object;
struct kubectl;

enum evicted { EVICTED_NO, EVICTED_MAYBE, EVICTED_YES };

/* plan_evict() - asks the API server to evict this Pod object, and no other of the same name. A negative
 * errno with a sentence: it was refused. *ret_evicted says what is known then, too. */
int plan_evict(
	const struct kubectl *kubectl, struct json_object *pod, enum evicted *ret_evicted, struct error *err);
