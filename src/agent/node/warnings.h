/* warnings.h - what people must know of the node's GPUs: another device plugin offers them as well, MIG
 * divides them, pods were placed on GPUs that are not there, or containers will lose them. */
#pragma once

#include <stdint.h>

#include "base/device-links.h"

struct events;
struct inventory;
struct json_object;
struct node_registry;
struct runtime;

/* other_plugin_look() - whether another device plugin offers this node's GPUs to the kubelet, too, usually
 * NVIDIA's as nvidia.com/gpu. Then a GPU that pods share is given to another pod as a whole. Reads the Node
 * object as last seen, and compares it with the last result. It posts an Event of the node when the GPUs are
 * advertised a second time, and logs when that has ended. Meanwhile the node's problem `other_plugin` has the
 * sentence. It is cheap; call it whenever something may have changed.
 */
void other_plugin_look(struct node_registry *node, const struct events *events, struct json_object *object);

/* mig_report() - an Event for each GPU that MIG divides, once, because such GPUs are not shared and the user
 * who labelled the node may not know why. Only if the labels ask for a mode that is served.
 * On other nodes ration does not manage the GPUs. It is cheap; call it whenever something may have changed.
 */
void mig_report(struct node_registry *node, const struct events *events);

/* mig_to_json() - the annotation ration.dev/mig; the caller frees it. NULL when out of memory. */
char *mig_to_json(const struct inventory *inventory);

/* missing_gpus_report() - an Event for each pod whose placement names a GPU that the node does not have,
 * once: a machine with other GPUs has taken the node's name before Kubernetes' garbage collector had deleted
 * the pods, or a GPU was removed. The kubelet of a machine without records starts such a pod without any
 * device if it does so before an agent has come, and then no call tells the agent of it. Posts no Event while
 * the node's GPUs are not known. It is cheap; call it whenever something may have changed. */
void missing_gpus_report(struct node_registry *node, const struct events *events);

/* The node's containers will lose their GPUs when systemd reloads its units (base/device-links.h). */
struct device_loss {
	enum device_links links;
	int64_t look_ns, ask_ns; /* when the links, and the runtime, are checked next */
};

/* device_loss_look() - checks again, and writes the node's problem `device_loss`. It is cheap enough for
 * every second; a change is reported. proc: the host's processes. */
void device_loss_look(struct device_loss *loss, struct node_registry *node, const struct events *events,
	struct runtime *runtime, const char *proc);
