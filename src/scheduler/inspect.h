/* inspect.h - the ledger as JSON, for people and tools: the shape of gpushare's /inspect, with more keys. */
#pragma once

#include "model/ledger.h"

struct scheduler;

/* inspect_json() - all nodes with GPUs, or the one named (NULL: all). malloc'ed; NULL when out of memory. */
char *inspect_json(const struct scheduler *scheduler, const char *node);

/* occupancy_text() - "waiting", "tentative", "reserved", "bound". */
const char *occupancy_text(enum occupancy occupancy);

/* is_on_card() - the pod's placement names the card; is_on_a_card_of() - any card of the node. */
bool is_on_card(const struct ledger_pod *pod, const char *uuid);
bool is_on_a_card_of(const struct ledger_pod *pod, const struct node_ledger *node);
