/* node.h - Node objects to and from the model. */
#pragma once

#include "model/facts.h"

struct error;
struct json_object;

/* node_facts_from_json() - a node without our annotations is fine: no GPUs, mode none. A malformed inventory:
 * success with n_gpus 0 and the sentence in err (err->text is "" otherwise); so for a malformed
 * ration.dev/held: who cannot be understood must not be given more. -EINVAL only without name or uid. */
int node_facts_from_json(struct json_object *node, struct node_facts *ret_facts, struct error *err);

/* The ration.dev/gpus annotation:
 *   [{"uuid":"GPU-..","index":0,"mib":16160,"healthy":true,"model":"Tesla V100-SXM2-16GB"}, ...]
 * and "reason" where a GPU is not healthy, for people. On a topology node also "links", a text of link.h
 * for each GPU of the list ("X" for itself), and "nvlinkGBps" where there are NVLinks. inventory_from_json()
 * refuses duplicates of index or UUID, more than NODE_GPUS_MAX GPUs, sizes of 0 and over 4 TiB.
 */
char *inventory_to_json(const struct gpu_facts *gpus, const struct gpu_details *details,
	size_t n_gpus); /* NULL when out of memory */
int inventory_from_json(const char *text, struct gpu_facts *ret_gpus, struct gpu_details *ret_details,
	size_t *ret_n, struct error *err);

/* gpu_links_to_json(), gpu_links_from_json() - the "links" of one GPU object, in the order of the list,
 * which has n GPUs, this one at `at`. A list that is none leaves them unknown: they decide which of several
 * good GPUs is taken, no more. gpu_has_links() - the GPU says any. */
int gpu_links_to_json(
	struct json_object *object, const struct gpu_details *gpu, size_t n, size_t at); /* -ENOMEM */
void gpu_links_from_json(struct json_object *object, size_t n, struct gpu_details *gpu);
bool gpu_has_links(const struct gpu_details *gpu, size_t n);
