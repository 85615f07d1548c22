/* shared.h - what the containers of a node without isolation use. No grant and no shim counts there; the
 * driver's list of processes is all that is known. So the numbers are for `ration advise` and the metrics,
 * and limit nothing. They begin anew when the agent restarts. */
#pragma once

#include <stdint.h>

#include "base/table.h"
#include "model/placement.h"
#include "model/use.h"

struct holder;
struct node_pod;
struct node_registry;

/* One GPU of one container. */
struct shared_use {
	char *uid, *container;
	char uuid[GPU_UUID_SIZE];
	uint64_t granted_bytes; /* what its units are of the GPU */
	uint64_t used_bytes;	/* at the last sample */
	struct use_record use;
	int64_t use_ns; /* of the last sample */
	bool listed;	/* by the last sample of its GPU */
};

struct shared {
	struct table by_key; /* "<pod uid>/<container>/<GPU>" */
};

void shared_init(struct shared *shared);
void shared_release(struct shared *shared);

/* shared_note() - the driver has just listed all processes that have memory of this GPU. On an isolated node,
 * and for a GPU that no pod has any more, everything about the GPU is forgotten. */
void shared_note(struct shared *shared, const struct node_registry *node, const char *uuid,
	const struct holder *holders, size_t n_holders, int64_t now_ns);

/* shared_pod() - the pod of this container; NULL if it is gone, or the node isolates now. */
const struct node_pod *shared_pod(const struct node_registry *node, const struct shared_use *use);

/* shared_has() - whether pods of a node without isolation have units of this GPU. */
bool shared_has(const struct node_registry *node, const char *uuid);
