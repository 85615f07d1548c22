/* ledger-internal.h - steps of ledger.c that ghost.c takes too. */
#pragma once

#include "model/ledger.h"

/* ledger_tell() - to the listener, before the change. */
void ledger_tell(const struct ledger *ledger, const struct ledger_event *event);

/* ledger_pod_add() - an entry that occupies nothing; its uid must be new. */
int ledger_pod_add(struct ledger *ledger, const struct pod_facts *facts, struct ledger_pod **ret_pod);

/* ledger_pod_occupy() - what the pod occupies from now on, in place of what it occupied; placement NULL:
 * unplaced. Does not ask whether it fits. -ENOMEM: nothing changed. */
int ledger_pod_occupy(struct ledger *ledger, struct ledger_pod *pod, const char *node,
	const struct placement *placement, enum occupancy occupancy);
