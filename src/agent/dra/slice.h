/* slice.h - the ResourceSlice (resource.k8s.io/v1) that says which GPUs claims can have on this node. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct json_object;
struct node_registry;

/* What an API server keeps of a slice. Which fields it drops follows from its feature gates. */
struct slice_support {
	bool shares; /* DRAConsumableCapacity: a device can be given to several claims, in parts */
	bool taints; /* DRADeviceTaints */
};

/* slice_name() - "gpu.ration.dev-<uid of the Node>", which is valid whatever the node is called. "" before
 * the Node was seen. */
#define SLICE_NAME_SIZE 96
void slice_name(const struct node_registry *node, char ret_name[SLICE_NAME_SIZE]);

/* slice_build() - the whole object, to be freed by the caller. Without support for taints, unhealthy GPUs are
 * left out. NULL: out of memory. */
struct json_object *slice_build(
	const struct node_registry *node, const struct slice_support *support, int64_t generation);

/* slice_probe() - an object for a request with dryRun, whose answer tells what the API server supports:
 * slice_supported() of that answer. */
struct json_object *slice_probe(const struct node_registry *node);
void slice_supported(struct json_object *slice, struct slice_support *ret_support);

/* slice_says_the_same() - the specs of two slices, apart from the generation of the pool and from the time at
 * which the API server saw a taint first. */
bool slice_says_the_same(struct json_object *a, struct json_object *b);

/* slice_differs_in_order_only() - the same devices, in another order. */
bool slice_differs_in_order_only(struct json_object *a, struct json_object *b);

/* slice_generation() - of its pool; 0 if the slice names no generation. */
int64_t slice_generation(struct json_object *slice);
