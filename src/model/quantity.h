/* quantity.h - the Kubernetes quantity grammar (apimachinery resource.Quantity), for counts. */
#pragma once

#include <stdint.h>

/* quantity_parse_count() - a whole number of things, written in any form of the grammar: "3", "+3", "3.0",
 * "1k", "2Ki", "1e3", "500000m". Extended resources arrive as the user wrote them ("1k" stays "1k"; tried
 * at 1.36.3).
 *
 * Returns 0; -EINVAL if the text is not a quantity; -EDOM if it is negative; -EILSEQ if it is not a whole
 * number ("1500m"); -ERANGE if it is above INT64_MAX. */
int quantity_parse_count(const char *text, int64_t *ret_value);

/* quantity_parse_milli() - any quantity in thousandths, rounded up as Kubernetes does ("100m" is 100, "1Gi"
 * is 1024^3 * 1000, "1n" is 1); more than INT64_MAX is read as INT64_MAX. -EINVAL, -EDOM. */
int quantity_parse_milli(const char *text, int64_t *ret_milli);
