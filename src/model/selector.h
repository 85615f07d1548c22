/* selector.h - label selectors, and labels as text. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Labels are "key=value
 * " for each, NULL for none. The API server allows neither '=' nor a line end in them.
 *
 * labels_find() - the value of a label and its length, within the text; NULL if there is no such label.
 * labels_have() - the label is there with this value. */
const char *labels_find(const char *labels, const char *key, size_t *ret_len);
bool labels_have(const char *labels, const char *key, const char *value);

enum selector_operator { SELECTOR_IN, SELECTOR_NOT_IN, SELECTOR_EXISTS, SELECTOR_DOES_NOT_EXIST };

/* One requirement; matchLabels are SELECTOR_IN with one value. */
struct selector_requirement {
	char *key;
	enum selector_operator operator;
	char **values;
	size_t n_values;
};

struct selector {
	bool selects_nothing;			   /* there is no selector, or it is not valid */
	struct selector_requirement *requirements; /* all must hold; without any, everything is selected */
	size_t n_requirements;
};

void selector_release(struct selector *selector);

/* selector_require() - adds one requirement; values are copied. -ENOMEM: nothing changed. */
int selector_require(struct selector *selector, const char *key, enum selector_operator operator,
	const char * const * values, size_t n_values);

bool selector_selects(const struct selector *selector, const char *labels);
