/* preemption-question.h - the pod for which other pods must go, and which of them may go. */
#pragma once

#include <stdbool.h>

struct budgets;
struct pod_facts;
struct table;

struct preemption_question {
	const struct pod_facts *pod;
	const struct budgets *budgets;
	const struct table
		*given; /* uids (with any value but NULL) of pods that go in any case; NULL: none */
	const struct table *spared; /* likewise: uids of pods that must not go; NULL: none */
	bool may_violate;	    /* victims that budgets protect are allowed if there is no other way */
	bool may_stop_bindings;	    /* pods whose Binding is on its way may be victims too */
	bool may_stop_holds;	    /* likewise, and pods for which filter holds a GPU */
	bool ignore_deleting;	    /* do not expect that pods that are being deleted will go */
};
