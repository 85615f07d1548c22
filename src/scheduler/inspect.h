/* inspect.h - the ledger as JSON, for users and tools: the structure of gpushare's /inspect, with more keys.
 */
#pragma once

#include "core/registry/ledger.h"

struct scheduler;

/* inspect_json() - all nodes with GPUs, or the one named (NULL: all). malloc'ed; NULL when out of memory. */
char *inspect_json(const struct scheduler *scheduler, const char *node);

/* occupancy_text() - "waiting", "tentative", "reserved", "bound". */
const char *occupancy_text(enum occupancy occupancy);

/* units_on() - what a pod of this node occupies on one GPU; uuid NULL: what it occupies on no GPU of the
 * node. */
uint32_t units_on(const struct node_ledger *node, const struct ledger_pod *pod, const char *uuid);
