/* answer.h - the answers of filter and prioritize as text. They are written piece by piece, because a tree of
 * JSON objects for thousands of nodes costs more than the decision. Returned strings are malloc'ed; NULL
 * means out of memory. */
#pragma once

#include <stddef.h>

#include "core/registry/ledger.h"

/* answer_names(), answer_nodes() - filter: these nodes pass. */
char *answer_names(const char *const *names, size_t n);
char *answer_nodes(const struct node_ledger *const *nodes, size_t n);

/* answer_rejection() - filter: no node passes, and each has its reason. waits_for: the node of struct
 * filter_answer, or NULL. unit: what the pod's ResourcePolicy says, for nodes that would fit. */
char *answer_rejection(const char *const *names, const struct node_verdict *verdicts, size_t n,
	const struct request *request, const struct node_ledger *waits_for, const char *unit);

/* answer_unresolvable() - filter: no node passes, all for the same reason, which depends only on the pod. */
char *answer_unresolvable(const char *const *names, size_t n, const char *reason);

/* answer_error() - filter, prioritize or bind: only the reason of the failure. For bind, "" means success. */
char *answer_error(const char *text);

/* answer_scores() - prioritize. */
char *answer_scores(const char *const *names, const int *scores, size_t n);
