/* extender.h - the verbs that kube-scheduler calls (extender/v1; unchanged on the wire since 1.22).
 *
 * Every answer is JSON for HTTP status 200, the reason of a failure in "Error": kube-scheduler throws the
 * body of any other status away. Returned strings are malloc'ed; NULL means out of memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct http_call;
struct json_object;
struct scheduler;

/* extender_filter() - which of the named nodes have a GPU for the pod: the K best, the best one held for it.
 * The call is the caller's to answer, unless *ret_later: it is answered when the labels of the pod's policy
 * unit are written, and NULL is returned. */
char *extender_filter(
	struct scheduler *scheduler, struct http_call *call, const char *body, size_t len, bool *ret_later);

/* extender_prioritize() - 10 to the best node, at most 9 to the others, so that our order decides. */
char *extender_prioritize(struct scheduler *scheduler, const char *body, size_t len);
