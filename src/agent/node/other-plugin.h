/* other-plugin.h - detects that another device plugin offers this node's GPUs to the kubelet, too, usually
 * NVIDIA's as nvidia.com/gpu. Then a GPU that pods share is given to another pod as a whole. */
#pragma once

struct events;
struct json_object;
struct node_registry;

/* other_plugin_look() - reads the Node object as last seen, and compares it with the last result. It posts an
 * Event of the node when the GPUs are advertised a second time, and logs when that has ended. Meanwhile the
 * node's problem `other_plugin` has the sentence. It is cheap; call it whenever something may have changed.
 */
void other_plugin_look(struct node_registry *node, const struct events *events, struct json_object *object);
