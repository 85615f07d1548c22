#include "core/preemption/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void budget_free(struct budget *budget)
{
	if (!budget)
		return;
	list_remove(&budget->item);
	selector_release(&budget->selector);
	free(budget->uid);
	free(budget->namespace_);
	free(budget->name);
	free(budget);
}

void budgets_init(struct budgets *budgets)
{
	table_init(&budgets->by_uid);
	table_init(&budgets->by_namespace);
}

void budgets_release(struct budgets *budgets)
{
	struct budget *budget;
	struct list *list;

	table_for_each (&budgets->by_uid, cursor, budget)
		budget_free(budget);
	table_for_each (&budgets->by_namespace, cursor, list)
		free(list);
	table_release(&budgets->by_uid);
	table_release(&budgets->by_namespace);
}

static struct list *namespace_get_or_add(struct budgets *budgets, const char *namespace_)
{
	struct list *list = table_get(&budgets->by_namespace, namespace_);

	if (list)
		return list;
	list = calloc(1, sizeof(*list));
	if (!list)
		return NULL;
	list_init(list);
	if (table_set(&budgets->by_namespace, namespace_, list) < 0) {
		free(list);
		return NULL;
	}
	return list;
}

/* In some clusters, namespaces come and go with each test run. */
static void namespace_drop_if_empty(struct budgets *budgets, const char *namespace_)
{
	struct list *list = table_get(&budgets->by_namespace, namespace_);

	if (list && list_empty(list))
		free(table_remove(&budgets->by_namespace, namespace_));
}

int budgets_set(struct budgets *budgets, struct budget *budget)
{
	struct list *list;

	budgets_remove(budgets, budget->uid);
	list = namespace_get_or_add(budgets, budget->namespace_);
	if (!list || table_set(&budgets->by_uid, budget->uid, budget) < 0) {
		namespace_drop_if_empty(budgets, budget->namespace_);
		budget_free(budget);
		return -ENOMEM;
	}
	list_append(list, &budget->item);
	return 0;
}

void budgets_remove(struct budgets *budgets, const char *uid)
{
	struct budget *budget = table_remove(&budgets->by_uid, uid);

	if (!budget)
		return;
	list_remove(&budget->item);
	namespace_drop_if_empty(budgets, budget->namespace_);
	budget_free(budget);
}

size_t budgets_matching(const struct budgets *budgets, const char *namespace_, const char *labels,
	const struct budget **ret_budgets, size_t max)
{
	const struct list *list = table_get(&budgets->by_namespace, namespace_);
	size_t n = 0;

	if (!list)
		return 0;
	for (const struct list *item = list->next; item != list && n < max; item = item->next) {
		const struct budget *budget = list_entry(item, struct budget, item);

		if (selector_selects(&budget->selector, labels))
			ret_budgets[n++] = budget;
	}
	return n;
}
