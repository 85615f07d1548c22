/* plugin.h - the gpu-mem device plugin: the service that the kubelet dials, messages to decisions and back.
 */
#pragma once

#include <stdbool.h>

struct agent;
struct error;
struct plugin;

#define PLUGIN_ENDPOINT "ration-gpu-mem.sock"

int plugin_new(struct agent *agent, struct plugin **ret_plugin);
void plugin_free(struct plugin *plugin); /* accepts NULL */

/* plugin_listen() - (again) on the socket in the plugin directory. Nothing happens if it is still there. */
int plugin_listen(struct plugin *plugin, struct error *err);

/* plugin_reachable() - the socket file is there, and is ours. */
bool plugin_reachable(const struct plugin *plugin);

/* plugin_watched() - the kubelet has a ListAndWatch open. */
bool plugin_watched(const struct plugin *plugin);

/* plugin_update() - tell the open ListAndWatch what there is now, if it differs. */
void plugin_update(struct plugin *plugin);
