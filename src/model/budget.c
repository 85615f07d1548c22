#include "model/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void requirement_release(struct selector_requirement *requirement)
{
	for (size_t i = 0; i < requirement->n_values; i++)
		free(requirement->values[i]);
	free(requirement->values);
	free(requirement->key);
}

void budget_free(struct budget *budget)
{
	if (!budget)
		return;
	list_remove(&budget->item);
	for (size_t i = 0; i < budget->n_requirements; i++)
		requirement_release(&budget->requirements[i]);
	free(budget->requirements);
	free(budget->uid);
	free(budget->namespace_);
	free(budget->name);
	free(budget);
}

int budget_require(struct budget *budget, const char *key, enum selector_operator operator,
	const char * const * values, size_t n_values)
{
	struct selector_requirement *grown = reallocarray(
		budget->requirements, budget->n_requirements + 1, sizeof(*grown));
	struct selector_requirement added = {.operator= operator};

	if (!grown)
		return -ENOMEM;
	budget->requirements = grown;
	added.key = strdup(key);
	added.values = calloc(n_values ? n_values : 1, sizeof(*added.values));
	for (size_t i = 0; added.values && i < n_values; i++) {
		added.values[i] = strdup(values[i]);
		if (!added.values[i])
			break;
		added.n_values++;
	}
	if (!added.key || !added.values || added.n_values < n_values) {
		requirement_release(&added);
		return -ENOMEM;
	}
	grown[budget->n_requirements++] = added;
	return 0;
}

/* The value of a label and its length; NULL if the pod has no such label. */
static const char *label_find(const char *labels, const char *key, size_t *ret_len)
{
	size_t key_len = strlen(key);

	for (const char *line = labels; line && *line;) {
		const char *end = strchrnul(line, '\n');

		if (strncmp(line, key, key_len) == 0 && line[key_len] == '=') {
			*ret_len = (size_t)(end - line) - key_len - 1;
			return line + key_len + 1;
		}
		line = *end ? end + 1 : end;
	}
	return NULL;
}

static bool requirement_names(const struct selector_requirement *requirement, const char *value, size_t len)
{
	for (size_t i = 0; i < requirement->n_values; i++)
		if (strlen(requirement->values[i]) == len && memcmp(requirement->values[i], value, len) == 0)
			return true;
	return false;
}

/* As apimachinery's labels.Requirement: NotIn holds for pods that do not have the label at all. */
static bool requirement_holds(const struct selector_requirement *requirement, const char *labels)
{
	size_t len = 0;
	const char *value = label_find(labels, requirement->key, &len);

	switch (requirement->operator) {
	case SELECTOR_IN:
		return value && requirement_names(requirement, value, len);
	case SELECTOR_NOT_IN:
		return !value || !requirement_names(requirement, value, len);
	case SELECTOR_EXISTS:
		return value != NULL;
	default:
		return !value;
	}
}

bool budget_selects(const struct budget *budget, const char *labels)
{
	if (budget->selects_nothing)
		return false;
	for (size_t i = 0; i < budget->n_requirements; i++)
		if (!requirement_holds(&budget->requirements[i], labels))
			return false;
	return true;
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

/* Namespaces come and go, one per test run in some clusters. */
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

		if (budget_selects(budget, labels))
			ret_budgets[n++] = budget;
	}
	return n;
}
