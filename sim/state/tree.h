/* tree.h - find the driver tree that this process belongs to, and map its state. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "sim/state/layout.h"

struct sim_tree {
	char root[PATH_MAX];
	char devices[PATH_MAX + 4]; /* the folder whose nvidia<N> say which GPUs there are */
};

/* The last bytes of a library in a tree: a library that was mounted elsewhere by itself, as `ration run` does
 * it with the driver's, finds its tree by them. */
#define SIM_TRAILER_MAGIC "ration-sim tree"
struct sim_trailer {
	char root[PATH_MAX];
	char magic[sizeof(SIM_TRAILER_MAGIC)];
};

/* sim_tree_find() - RATION_SIM_DIR; else X where the object that holds this code is X/lib/NAME and
 * X/gpus.json exists; else /run/ration-sim, where a container has its GPUs; else the tree that the object's
 * trailer names. Always answers; whether there is a tree shows when it is mapped. */
void sim_tree_find(struct sim_tree *ret_tree);

/* sim_tree_at() - the tree whose root is known. -ENAMETOOLONG. */
int sim_tree_at(const char *root, struct sim_tree *ret_tree);

/* sim_tree_has_gpu() - is the device node (or its stand-in) of this GPU there? Containers get the nodes of
 * their own GPUs only. */
bool sim_tree_has_gpu(const struct sim_tree *tree, unsigned minor);

/* sim_state_map() - map DIR/state/cards. -ENOENT: no tree; -EBADMSG: not our file, or another version's. The
 * mapping is writable where the file is, else read-only. */
int sim_state_map(const char *root, struct sim_state **ret_state, bool *ret_writable);
void sim_state_unmap(struct sim_state *state);

/* sim_state_post_event() - append an event and wake those who wait. The caller holds flock on the file. */
void sim_state_post_event(struct sim_state *state, uint32_t gpu, uint64_t type, uint64_t data);
/* sim_state_read_event() - 0 and the event, -EAGAIN: not there yet, -ENODATA: overwritten or never completed.
 */
int sim_state_read_event(const struct sim_state *state, uint64_t sequence, struct sim_event *ret_event);
/* sim_state_wait_event() - sleep until last_event differs from `seen`, at most timeout_ns. May return early.
 */
void sim_state_wait_event(struct sim_state *state, uint64_t seen, int64_t timeout_ns);
