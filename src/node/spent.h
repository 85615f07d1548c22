/* spent.h - device ids that the kubelet still counts as taken by ended pods.
 *
 * A kubelet reads its checkpoint when it starts. It frees the ids of ended pods only when its sources are
 * ready, which is after it has admitted the first batch of pods (kubelet.go:2732, manager.go:562 at 1.36.3).
 * It would fail a pod of that batch by itself, for good and without a call to the agent: "requested number of
 * devices unavailable". So the agent offers the units of these ids under other names (ids.c). */
#pragma once

#include <stdbool.h>

#include "base/table.h"

struct node_pods;
struct served;

/* Whether containers of a pod that is gone from the API server may still run. */
typedef bool (*spent_may_live_fn)(const void *userdata, const char *uid);

/* spent_find() - adds the ids of entries whose pod has ended to *ret_spent, which the caller has initialised.
 * Call it with a record that was just read from the checkpoint, when all pods of the node are known. Ids that
 * a living pod also holds are left out. may_live NULL: no pod that is gone has live containers. -ENOMEM. */
int spent_find(const struct served *served, const struct node_pods *pods, spent_may_live_fn may_live,
	const void *userdata, struct table *ret_spent);
