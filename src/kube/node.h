/* node.h - converts Node objects to and from the model. */
#pragma once

#include "model/facts.h"

struct error;
struct json_object;

/* node_facts_from_json() - a node without ration's annotations is valid: no GPUs, mode none. For a malformed
 * inventory the function succeeds with n_gpus 0 and a sentence in err (err->text is "" otherwise). The same
 * holds for a malformed ration.dev/held, because a node whose orphans are unknown must not get more pods.
 * -EINVAL only without name or uid. */
int node_facts_from_json(struct json_object *node, struct node_facts *ret_facts, struct error *err);

/* The ration.dev/gpus annotation:
 *   [{"uuid":"GPU-..","index":0,"mib":16160,"healthy":true,"model":"Tesla V100-SXM2-16GB"}, ...] A GPU that
 * is not healthy also has a "reason", for users. On a topology node, a GPU also has "links", a text of link.h
 * for each GPU of the list ("X" for itself), and "nvlinkGBps" if it has NVLinks. inventory_from_json()
 * refuses duplicates of index or UUID, more than NODE_GPUS_MAX GPUs, sizes of 0 and over 4 TiB. */
char *inventory_to_json(const struct gpu_facts *gpus, const struct gpu_details *details,
	size_t n_gpus); /* NULL when out of memory */
int inventory_from_json(const char *text, struct gpu_facts *ret_gpus, struct gpu_details *ret_details,
	size_t *ret_n, struct error *err);

/* gpu_links_to_json(), gpu_links_from_json() - the "links" of one GPU object, in the order of the list, which
 * has n GPUs; this one is at `at`. An invalid list leaves the links unknown, because they only decide which
 * of several possible GPUs is taken. gpu_has_links() - the GPU has at least one known link. */
int gpu_links_to_json(
	struct json_object *object, const struct gpu_details *gpu, size_t n, size_t at); /* -ENOMEM */
void gpu_links_from_json(struct json_object *object, size_t n, struct gpu_details *gpu);
bool gpu_has_links(const struct gpu_details *gpu, size_t n);
