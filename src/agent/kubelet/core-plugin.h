/* core-plugin.h - the device plugin of aliyun.com/gpu-core.percentage: 100 ids for each GPU of a core_mem
 * node. They count and nothing else: which GPU, and how much of it, is in the placement, and reaches the
 * container with the answer for gpu-mem, without which nobody asks for a percentage. So Allocate is answered
 * for whoever it may be, with nothing. The kubelet asks for the resources of a container in any order.
 */
#pragma once

#include <stdbool.h>

struct kubelet;
struct core_plugin;
struct registration;

#define CORE_PLUGIN_ENDPOINT "ration-gpu-core.sock"

int core_plugin_new(struct kubelet *kubelet, struct core_plugin **ret_plugin);
void core_plugin_free(struct core_plugin *plugin); /* accepts NULL */

/* core_plugin_begin() - calls of the kubelet are answered from now on. */
void core_plugin_begin(struct core_plugin *plugin);

/* How it is registered. */
extern const struct registration core_registration;

/* core_plugin_watched() - the kubelet has a ListAndWatch open. */
bool core_plugin_watched(const struct core_plugin *plugin);

/* core_plugin_update() - tell the open ListAndWatch what there is now, if it differs. */
void core_plugin_update(struct core_plugin *plugin);
