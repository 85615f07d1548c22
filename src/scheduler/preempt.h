/* preempt.h - the verb preempt as JSON. What it decides: core/preempt.h. */
#pragma once

#include <stddef.h>

struct error;
struct scheduler;

/* preempt_answer() - body is ExtenderPreemptionArgs with NodeNameToMetaVictims (nodeCacheCapable). Its form
 * has no place for an error: NULL with the sentence in err and *ret_status 400 or 503. NULL and 200: out of
 * memory. */
char *preempt_answer(
	struct scheduler *scheduler, const char *body, size_t len, unsigned *ret_status, struct error *err);
