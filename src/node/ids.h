/* ids.h - the device ids that the kubelet counts: "<gpu>-<unit>", or "<gpu>-<unit>.<n>" if a kubelet that has
 * just started still holds the first one for an ended pod (spent_find()). They are short, because a
 * ListAndWatch message holds thousands of them in at most 4 MiB. They are only tokens, because the placement
 * says which GPU is meant. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"

struct inventory;
struct node_pods;
struct served;
struct table;

#define DEVICE_ID_SIZE 32 /* two numbers of 32 bits, and one digit */

/* What the ids count: units of memory; percent of computing power, of which a GPU has 100; or whole GPUs. The
 * ids of whole GPUs ("<gpu>-gpu") differ from all ids of units, because one record has both. */
enum ids_of { IDS_OF_UNITS, IDS_OF_CORE, IDS_OF_GPUS };

struct device_ids {
	char (*ids)[DEVICE_ID_SIZE];
	bool *healthy;
	size_t n;
};

/* ids_build() - one id per unit or percent. If an unhealthy GPU has f of them that no pod holds, f *free* ids
 * become unhealthy, its own ones first. An id in use stays healthy, because otherwise a kubelet restart kills
 * its pod (manager.go:636 at 1.36.3). For the same reason a unit keeps the name under which a pod has it.
 * spent: names that must not be offered. -ENOMEM. */
int ids_build(enum ids_of of, const struct inventory *inventory, const struct node_pods *pods,
	const struct served *served, const struct table *spent, struct device_ids *ret_ids);
void ids_release(struct device_ids *ids);

/* ids_held() - how much of the GPU pods of this node hold, by their placements. */
uint32_t ids_held(enum ids_of of, const struct node_pods *pods, const char *uuid);

/* ids_gpu() - the position in the inventory of the GPU that an id names, or -EINVAL. */
int ids_gpu(const char *id);

/* Device ids that the kubelet still counts as taken by ended pods.
 *
 * A kubelet reads its checkpoint when it starts. It frees the ids of ended pods only when its sources are
 * ready, which is after it has admitted the first batch of pods (kubelet.go:2732, manager.go:562 at 1.36.3).
 * It would fail a pod of that batch by itself, for good and without a call to the agent: "requested number of
 * devices unavailable". So the agent offers the units of these ids under other names (ids_build()). */

/* Whether containers of a pod that is gone from the API server may still run. */
typedef bool (*spent_may_live_fn)(const void *userdata, const char *uid);

/* spent_find() - adds the ids of entries whose pod has ended to *ret_spent, which the caller has initialised.
 * Call it with a record that was just read from the checkpoint, when all pods of the node are known. Ids that
 * a living pod also holds are left out. may_live NULL: no pod that is gone has live containers. -ENOMEM. */
int spent_find(const struct served *served, const struct node_pods *pods, spent_may_live_fn may_live,
	const void *userdata, struct table *ret_spent);
