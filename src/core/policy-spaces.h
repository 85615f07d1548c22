/* policy-spaces.h - the namespaces with ResourcePolicies, as a core has them. The functions are in
 * policies.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "core/policy/policy-book.h"

/* A namespace with ResourcePolicies, or with pods that still have costs of ours. */
struct policy_space {
	char *name;
	struct policy_book book;
	bool is_read;	    /* the book has the pods of the namespace */
	bool changed;	    /* pods may need something to be written; the caller ends it */
	uint64_t looked_at; /* book.freed, when pods that wait were told of it */
};

struct policy_spaces {
	struct table by_name; /* struct policy_space */
	struct policy_nodes nodes;
	bool known; /* the API server has said which ResourcePolicies there are, or that it knows none */
	int64_t watched_ns; /* since when the watch of pods is open, for all that is known each second; 0: it
			       is not */
	uint64_t given, waited; /* answers of both kinds */
};
