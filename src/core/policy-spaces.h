/* policy-spaces.h - the namespaces with ResourcePolicies of a core. The functions are in policies.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "core/policy/policy-book.h"

/* A namespace with ResourcePolicies, or with pods that still have costs written by ration. */
struct policy_space {
	char *name;
	struct policy_book book;
	bool is_read;	    /* the book has the pods of the namespace */
	bool changed;	    /* something may have to be written to pods; the caller resets it */
	uint64_t looked_at; /* book.freed when waiting pods were last told */
};

struct policy_spaces {
	struct table by_name; /* struct policy_space */
	struct policy_nodes nodes;
	bool known; /* it is known which ResourcePolicies exist, or that the API server does not have the
		       resource */
	int64_t watched_ns; /* since when the watch of pods is open and told everything each second; 0: it is
			       not */
	uint64_t given, waited; /* answers that gave a unit, and answers that made a pod wait */
};
