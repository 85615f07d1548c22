/* gpus.h - the description of a tree's GPUs, gpus.json, as the constant part of struct sim_state.
 *
 * ration-sim/ is the command that makes and changes driver trees. It is the only part of sim/ that uses more
 * than libc; the libraries read the fixed layout that it writes.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "sim/state/layout.h"

#define GPUS_MAX_MEMORY_MIB (4u * 1024 * 1024) /* 4 TiB: twenty times the largest GPU that exists */
#define GPUS_FILE_MAX (1024 * 1024)
#define GPUS_DEFAULT_DRIVER "515.105.01"

/* gpus_parse_spec() - "4x16160MiB+1x81559MiB": numbers and sizes of GPUs; "16160MiB" is one GPU. Fills the
 * GPUs with the model of this size. The other fields (UUID, bus, ...) stay empty for gpus_complete(). */
int gpus_parse_spec(const char *spec, struct sim_state *ret_state, struct error *err);

/* gpus_read() - reads and checks the file. Unknown keys, wrong types, values out of range, and two GPUs with
 * the same UUID or bus are errors that name the GPU and the key. -ENOENT: there is no file. gpus_complete()
 * fills in the fields that the file leaves out. */
int gpus_read(const char *path, struct sim_state *ret_state, struct error *err);

/* gpus_write() - writes the same format, readable for people, and replaces the file atomically. Does nothing
 * if the content is the same. */
int gpus_write(const char *path, const struct sim_state *state, struct error *err);

/* gpus_set_driver() - checks and sets the driver's version, and the CUDA version that came with it. */
int gpus_set_driver(struct sim_state *state, const char *version, struct error *err);

/* gpus_adopt() - gives GPUs without a UUID the identity of the tree's previous GPU of the same index, size
 * and model. `everything`: also the readings, which a person may have edited. */
void gpus_adopt(struct sim_state *state, const struct sim_state *old, bool everything);

/* gpus_complete() - fills the fields that are still empty, and checks what must be unique in the complete
 * set. */
int gpus_complete(struct sim_state *state, struct error *err);

/* gpus_set_links() - connects the GPUs as in a published machine: "dgx1-v100", "dgx-a100" or "pcie-8", which
 * have eight. */
int gpus_set_links(struct sim_state *state, const char *machine, struct error *err);

/* gpus_set_model() - sets name and properties by size. */
void gpus_set_model(struct sim_gpu *gpu);
