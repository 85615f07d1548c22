/* amount.h - how much of a card, as a person writes it. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* amount_parse() - "2GiB", "2154MiB" or "25%" of a card with physical_mib, in whole MiB: a percentage is
 * rounded down, as the documents round a share of a card. -EINVAL: another form; -ERANGE: nothing, or more
 * than the card has. */
int amount_parse(const char *text, uint64_t physical_mib, uint64_t *ret_mib, struct error *err);
