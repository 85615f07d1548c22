/* plugin.h - the device plugins that give GPUs: gpu-mem and, on topology nodes, whole GPUs. It is the service
 * that the kubelet dials, and converts messages to decisions and back. */
#pragma once

#include <stdbool.h>

struct kubelet;
struct plugin;
struct registration;

#define PLUGIN_ENDPOINT "ration-gpu-mem.sock"
#define GPU_PLUGIN_ENDPOINT "ration-gpu.sock"

/* plugin_new() - whole: for whole GPUs. */
int plugin_new(struct kubelet *kubelet, bool whole, struct plugin **ret_plugin);
void plugin_free(struct plugin *plugin); /* accepts NULL */

/* plugin_begin() - from now on, calls of the kubelet are answered. */
void plugin_begin(struct plugin *plugin);

/* How they are registered. registrar_listening() is called when the socket exists, after the calls that
 * waited for this worker. */
extern const struct registration plugin_registration, gpu_registration;

/* plugin_watched() - the kubelet has a ListAndWatch open. */
bool plugin_watched(const struct plugin *plugin);

/* plugin_update() - tells the open ListAndWatch the present devices, if they have changed. */
void plugin_update(struct plugin *plugin);
