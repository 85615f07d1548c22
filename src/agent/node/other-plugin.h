/* other-plugin.h - another device plugin offers this node's GPUs to the kubelet as well, mostly NVIDIA's as
 * nvidia.com/gpu: then a GPU that pods share is given to another pod as a whole. */
#pragma once

struct events;
struct json_object;
struct node_registry;

/* other_plugin_look() - reads the Node object as it was seen last, and compares it with what was found
 * before. Posts an Event of the node when the GPUs are advertised a second time, and logs when that has
 * ended; the node's problem `other_plugin` has the sentence as long as it lasts. Cheap; call it whenever
 * something may have changed. */
void other_plugin_look(struct node_registry *node, const struct events *events, struct json_object *object);
