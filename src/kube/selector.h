/* selector.h - label selectors as the API has them. */
#pragma once

struct json_object;
struct selector;

/* selector_from_json() - a LabelSelector's matchLabels and matchExpressions. Its requirements are added to
 * the selector, which the caller releases; -EINVAL for an invalid selector, -ENOMEM.
 *
 * selector_read_labels(), selector_read_expressions() - the parts; NULL requires nothing. */
int selector_from_json(struct json_object *object, struct selector *selector);
int selector_read_labels(struct json_object *labels, struct selector *selector);
int selector_read_expressions(struct json_object *expressions, struct selector *selector);
