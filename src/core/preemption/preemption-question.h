/* preemption-question.h - for which pod others are to go, and which of them may. */
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
	bool may_violate;	    /* victims that budgets protect are allowed when there is no other way */
	bool may_stop_bindings;	    /* pods whose Binding is on its way may be victims too */
	bool may_stop_holds;	    /* likewise, and pods for which filter has held a GPU */
	bool ignore_deleting;	    /* pods that are being deleted are not believed to go */
};
