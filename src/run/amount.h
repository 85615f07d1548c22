/* amount.h - how much of a GPU, as a person writes it. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* amount_parse() - "2GiB", "2154MiB" or "25%" of a GPU with physical_mib, in whole MiB: a percentage is
 * rounded down, as the documents round a share of a GPU. -EINVAL: another form; -ERANGE: nothing, or more
 * than the GPU has. */
int amount_parse(const char *text, uint64_t physical_mib, uint64_t *ret_mib, struct error *err);
