/* owners.h - how many pods of each owner (uid of a controller) occupy each node, kept as running numbers:
 * ordering nodes by them must not walk over all pods of thousands of nodes. Used by ledger.c and rank.c. */
#pragma once

#include <stddef.h>

#include "base/table.h"

struct owners {
	struct table by_uid; /* owner -> struct table: node name -> count (as a pointer) */
};

void owners_init(struct owners *owners);
void owners_release(struct owners *owners);

/* owners_add() / owners_remove() - one pod more or less of this owner on this node. Nothing is counted for
 * the owner "". owners_add() returns -ENOMEM with nothing changed. */
int owners_add(struct owners *owners, const char *owner, const char *node);
void owners_remove(struct owners *owners, const char *owner, const char *node);

/* owners_nodes() - the table for owners_count(), looked up once for many nodes. NULL: the owner has no pod
 * anywhere. Valid until the next change. */
const struct table *owners_nodes(const struct owners *owners, const char *owner);
size_t owners_count(const struct table *nodes, const char *node);
