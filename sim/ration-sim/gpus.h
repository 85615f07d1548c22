/* gpus.h - the description of a tree's GPUs, gpus.json, as the constant part of struct sim_state.
 *
 * ration-sim/ is the command that makes and changes driver trees. It is the only part of sim/ that uses more
 * than libc: the libraries read what it writes in fixed layout.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "sim/state/layout.h"

#define GPUS_MAX_MEMORY_MIB (4u * 1024 * 1024) /* 4 TiB: twenty times the largest GPU there is */
#define GPUS_FILE_MAX (1024 * 1024)
#define GPUS_DEFAULT_DRIVER "515.105.01"

/* gpus_parse_spec() - "4x16160MiB+1x81559MiB": how many GPUs of which size; "16160MiB" is one. Fills GPUs
 * with the model that has this size. The rest (UUID, bus, ...) is left empty for gpus_complete(). */
int gpus_parse_spec(const char *spec, struct sim_state *ret_state, struct error *err);

/* gpus_read() - the file, checked: unknown keys, wrong types, values out of range, two GPUs of one UUID or
 * bus are errors that name the GPU and key. -ENOENT if there is no file. gpus_complete() fills in the fields
 * that the file leaves out. */
int gpus_read(const char *path, struct sim_state *ret_state, struct error *err);

/* gpus_write() - the same, for people; replaces the file at once. Does nothing where the content is the same.
 */
int gpus_write(const char *path, const struct sim_state *state, struct error *err);

/* gpus_set_driver() - check and set the driver's version, and the CUDA version that came with it. */
int gpus_set_driver(struct sim_state *state, const char *version, struct error *err);

/* gpus_adopt() - give GPUs that lack a UUID the identity of the GPU of the same index, size and model that
 * the tree had. `everything`: also the readings that somebody may have edited. */
void gpus_adopt(struct sim_state *state, const struct sim_state *old, bool everything);

/* gpus_complete() - fill what is still empty, and check what must be unique over the finished set. */
int gpus_complete(struct sim_state *state, struct error *err);

/* gpus_set_links() - connect the GPUs as a published machine does: "dgx1-v100", "dgx-a100" or "pcie-8",
 * which have eight. */
int gpus_set_links(struct sim_state *state, const char *machine, struct error *err);

/* gpus_set_model() - name and properties by size. */
void gpus_set_model(struct sim_gpu *gpu);
