/* plugin.h - the device plugins of aliyun.com/gpu-mem and, on topology nodes, of aliyun.com/gpu. They answer
 * the calls of the kubelet, and convert its messages to decisions of src/node and back. */
#pragma once

#include <stdbool.h>

struct kubelet;
struct plugin;
struct registration;

#define PLUGIN_ENDPOINT "ration-gpu-mem.sock"
#define GPU_PLUGIN_ENDPOINT "ration-gpu.sock"

/* plugin_new() - whole: the plugin of aliyun.com/gpu. */
int plugin_new(struct kubelet *kubelet, bool whole, struct plugin **ret_plugin);
void plugin_free(struct plugin *plugin); /* accepts NULL */

/* plugin_begin() - starts to answer calls of the kubelet. */
void plugin_begin(struct plugin *plugin);

/* How the plugins register. registrar_listening() is called when the socket exists and the calls that waited
 * for this worker are answered. */
extern const struct registration plugin_registration, gpu_registration;

/* plugin_watched() - the kubelet has a ListAndWatch open. */
bool plugin_watched(const struct plugin *plugin);

/* plugin_update() - tells the open ListAndWatch the present devices, if they have changed. */
void plugin_update(struct plugin *plugin);
