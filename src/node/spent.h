/* spent.h - device ids that the kubelet still counts as taken by pods that are over.
 *
 * A kubelet reads its checkpoint when it starts and frees what ended only when its sources are ready, and
 * that is after the first batch of pods was admitted (kubelet.go:2732, manager.go:562 at 1.36.3). It would
 * fail a pod of that batch by itself, for good and without asking us: "requested number of devices
 * unavailable". So the units of these ids are offered to it under other names (ids.c).
 */
#pragma once

#include <stdbool.h>

#include "base/table.h"

struct node_pods;
struct served;

/* Whether containers of a pod that the API server has forgotten may still run. */
typedef bool (*spent_may_live_fn)(const void *userdata, const char *uid);

/* spent_find() - the ids of entries whose pod is over, into *ret_spent, which the caller has initialised. To
 * be asked of a record that was just read from the checkpoint, when all pods of the node are known. What a
 * pod that lives holds too is not among them. may_live NULL: no forgotten pod does. -ENOMEM. */
int spent_find(const struct served *served, const struct node_pods *pods, spent_may_live_fn may_live,
	const void *userdata, struct table *ret_spent);
