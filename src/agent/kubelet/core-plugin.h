/* core-plugin.h - the device plugin of aliyun.com/gpu-core.percentage: 100 ids for each GPU of a core_mem
 * node. The ids only count. The placement says which GPU, and how much of it; it reaches the container with
 * the answer for gpu-mem, which every pod with a percentage also asks for. So Allocate needs to know no pod,
 * and its answer is empty. The kubelet asks for the resources of a container in any order. */
#pragma once

#include <stdbool.h>

struct kubelet;
struct core_plugin;
struct registration;

#define CORE_PLUGIN_ENDPOINT "ration-gpu-core.sock"

int core_plugin_new(struct kubelet *kubelet, struct core_plugin **ret_plugin);
void core_plugin_free(struct core_plugin *plugin); /* accepts NULL */

/* core_plugin_begin() - from now on, calls of the kubelet are answered. */
void core_plugin_begin(struct core_plugin *plugin);

/* How it is registered. */
extern const struct registration core_registration;

/* core_plugin_watched() - the kubelet has a ListAndWatch open. */
bool core_plugin_watched(const struct core_plugin *plugin);

/* core_plugin_update() - tells the open ListAndWatch the present devices, if they have changed. */
void core_plugin_update(struct core_plugin *plugin);
