/* tree.h - finds the driver tree that this process belongs to, and maps its state. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "sim/state/layout.h"

struct sim_tree {
	char root[PATH_MAX];
	char devices[PATH_MAX + 4]; /* the folder whose nvidia<N> files show which GPUs there are */
};

/* The last bytes of a library in a tree. A library that was mounted elsewhere on its own, as `ration run`
 * mounts the driver's, finds its tree by them. */
#define SIM_TRAILER_MAGIC "ration-sim tree"
struct sim_trailer {
	char root[PATH_MAX];
	char magic[sizeof(SIM_TRAILER_MAGIC)];
};

/* sim_tree_find() - the first of these: RATION_SIM_DIR; X, if the library that contains this code is
 * X/lib/NAME and X/gpus.json exists; /run/ration-sim, where a container has its GPUs; the tree in the
 * library's trailer. It always returns a tree; mapping it shows whether it exists. */
void sim_tree_find(struct sim_tree *ret_tree);

/* sim_tree_at() - the tree with this root. -ENAMETOOLONG. */
int sim_tree_at(const char *root, struct sim_tree *ret_tree);

/* sim_tree_has_gpu() - whether the device node (or its plain file) of this GPU exists. Containers get only
 * the nodes of their own GPUs. */
bool sim_tree_has_gpu(const struct sim_tree *tree, unsigned minor);

/* sim_state_map() - maps DIR/state/cards. -ENOENT: no tree; -EBADMSG: not our file, or of another version.
 * The mapping is writable if the file is, else read-only. */
int sim_state_map(const char *root, struct sim_state **ret_state, bool *ret_writable);
void sim_state_unmap(struct sim_state *state);

/* sim_state_post_event() - appends an event and wakes waiting processes. The caller holds flock on the
 * file. */
void sim_state_post_event(struct sim_state *state, uint32_t gpu, uint64_t type, uint64_t data);
/* sim_state_read_event() - 0 and the event; -EAGAIN: not there yet; -ENODATA: overwritten or never completed.
 */
int sim_state_read_event(const struct sim_state *state, uint64_t sequence, struct sim_event *ret_event);
/* sim_state_wait_event() - sleeps until last_event differs from `seen`, at most timeout_ns. May return early.
 */
void sim_state_wait_event(struct sim_state *state, uint64_t seen, int64_t timeout_ns);
