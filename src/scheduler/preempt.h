/* preempt.h - the verb preempt as JSON. core/preempt.h makes the decision. */
#pragma once

#include <stddef.h>

struct error;
struct scheduler;

/* preempt_answer() - body is ExtenderPreemptionArgs with NodeNameToMetaVictims (nodeCacheCapable). The answer
 * has no place for an error. On an error the function returns NULL with a sentence in err, and *ret_status is
 * 400 or 503. NULL and 200: out of memory. */
char *preempt_answer(
	struct scheduler *scheduler, const char *body, size_t len, unsigned *ret_status, struct error *err);
