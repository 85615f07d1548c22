/* spent.h - device ids that the kubelet still counts as taken by pods that are over.
 *
 * A kubelet reads its checkpoint when it starts and frees what ended only when its sources are ready, and
 * that is after the first batch of pods was admitted (kubelet.go:2732, manager.go:562 at 1.36.3). It would
 * fail a pod of that batch by itself, for good and without asking us: "requested number of devices
 * unavailable". So the units of these ids are offered to it under other names (ids.c).
 */
#pragma once

#include "base/table.h"

struct leftovers;
struct node_pods;
struct served;

/* spent_find() - the ids of entries whose pod is over, into *ret_spent, which the caller has initialised. To
 * be asked of a record that was just read from the checkpoint, when all pods of the node are known. What a
 * pod that lives holds too is not among them. -ENOMEM. */
int spent_find(const struct served *served, const struct node_pods *pods, const struct leftovers *leftovers,
	struct table *ret_spent);
