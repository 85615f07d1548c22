/* budget.h - PodDisruptionBudgets as preemption sees them: which pods they select, and how many more may be
 * evicted. Pure. The eviction API has the last word; this helps to choose victims that it will evict. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "model/selector.h"

struct budget {
	struct list item; /* in the list of its namespace */
	char *uid, *namespace_, *name;
	struct selector selector;
	int64_t allowed; /* status.disruptionsAllowed */
};

struct budgets {
	struct table by_uid;	   /* struct budget */
	struct table by_namespace; /* struct list of them */
};

void budget_free(struct budget *budget); /* accepts NULL */

void budgets_init(struct budgets *budgets);
void budgets_release(struct budgets *budgets);

/* budgets_set() - takes the budget over in any case; replaces one with the same uid. -ENOMEM: the budget is
 * lost. */
int budgets_set(struct budgets *budgets, struct budget *budget);
void budgets_remove(struct budgets *budgets, const char *uid);

/* budgets_matching() - the budgets that select the pod, at most max of them. Returns how many were written.
 */
size_t budgets_matching(const struct budgets *budgets, const char *namespace_, const char *labels,
	const struct budget **ret_budgets, size_t max);
