#include "model/selector.h"

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

void selector_release(struct selector *selector)
{
	for (size_t i = 0; i < selector->n_requirements; i++)
		requirement_release(&selector->requirements[i]);
	free(selector->requirements);
	*selector = (struct selector){0};
}

int selector_require(struct selector *selector, const char *key, enum selector_operator operator,
	const char * const * values, size_t n_values)
{
	struct selector_requirement *grown = reallocarray(
		selector->requirements, selector->n_requirements + 1, sizeof(*grown));
	struct selector_requirement added = {.operator= operator};

	if (!grown)
		return -ENOMEM;
	selector->requirements = grown;
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
	grown[selector->n_requirements++] = added;
	return 0;
}

const char *labels_find(const char *labels, const char *key, size_t *ret_len)
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

bool labels_have(const char *labels, const char *key, const char *value)
{
	size_t len = 0;
	const char *is = labels_find(labels, key, &len);

	return is && strlen(value) == len && memcmp(is, value, len) == 0;
}

static bool requirement_names(const struct selector_requirement *requirement, const char *value, size_t len)
{
	for (size_t i = 0; i < requirement->n_values; i++)
		if (strlen(requirement->values[i]) == len && memcmp(requirement->values[i], value, len) == 0)
			return true;
	return false;
}

/* As in apimachinery's labels.Requirement: NotIn holds for pods that do not have the label at all. */
static bool requirement_holds(const struct selector_requirement *requirement, const char *labels)
{
	size_t len = 0;
	const char *value = labels_find(labels, requirement->key, &len);

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

bool selector_selects(const struct selector *selector, const char *labels)
{
	if (selector->selects_nothing)
		return false;
	for (size_t i = 0; i < selector->n_requirements; i++)
		if (!requirement_holds(&selector->requirements[i], labels))
			return false;
	return true;
}
