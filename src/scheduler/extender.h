/* extender.h - the verbs that kube-scheduler calls (extender/v1; unchanged on the wire since 1.22).
 *
 * Every answer is JSON with HTTP status 200; the reason of a failure is in "Error". kube-scheduler discards
 * the body of any other status. Returned strings are malloc'ed; NULL means out of memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct http_call;
struct json_object;
struct scheduler;

/* extender_filter() - which of the named nodes have a GPU for the pod: the K best, with a hold on the best
 * one. The caller answers the call, unless *ret_later. Then NULL is returned, and the call is answered when
 * the labels of the pod's policy unit are written. */
char *extender_filter(
	struct scheduler *scheduler, struct http_call *call, const char *body, size_t len, bool *ret_later);

/* extender_prioritize() - 10 for the best node, at most 9 for the others, so that this order decides. */
char *extender_prioritize(struct scheduler *scheduler, const char *body, size_t len);
