/* budget.h - PodDisruptionBudgets as preemption sees them: which pods they select, how many more may go.
 * Pure. The eviction API has the last word; this is for choosing victims that it will let go. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"

enum selector_operator { SELECTOR_IN, SELECTOR_NOT_IN, SELECTOR_EXISTS, SELECTOR_DOES_NOT_EXIST };

/* One requirement of a label selector; matchLabels are SELECTOR_IN with one value. */
struct selector_requirement {
	char *key;
	enum selector_operator operator;
	char **values;
	size_t n_values;
};

struct budget {
	struct list item; /* in the list of its namespace */
	char *uid, *namespace_, *name;
	bool selects_nothing; /* no selector, or one that cannot be understood */
	struct selector_requirement
		*requirements; /* all must hold; none: selects every pod of the namespace */
	size_t n_requirements;
	int64_t allowed; /* status.disruptionsAllowed */
};

struct budgets {
	struct table by_uid;	   /* struct budget */
	struct table by_namespace; /* struct list of them */
};

void budget_free(struct budget *budget); /* accepts NULL */

/* budget_require() - one more requirement, values are copied. -ENOMEM: nothing changed. */
int budget_require(struct budget *budget, const char *key, enum selector_operator operator,
	const char * const * values, size_t n_values);

/* budget_selects() - labels as in struct pod_facts. */
bool budget_selects(const struct budget *budget, const char *labels);

void budgets_init(struct budgets *budgets);
void budgets_release(struct budgets *budgets);

/* budgets_set() - takes the budget over in any case; replaces one of the same uid. -ENOMEM: it is lost. */
int budgets_set(struct budgets *budgets, struct budget *budget);
void budgets_remove(struct budgets *budgets, const char *uid);

/* budgets_matching() - those that select the pod, at most max of them. Returns how many were written. */
size_t budgets_matching(const struct budgets *budgets, const char *namespace_, const char *labels,
	const struct budget **ret_budgets, size_t max);
