/* plugin.h - the gpu-mem device plugin: the service that the kubelet dials, messages to decisions and back.
 */
#pragma once

#include <stdbool.h>

struct agent;
struct plugin;

#define PLUGIN_ENDPOINT "ration-gpu-mem.sock"

int plugin_new(struct agent *agent, struct plugin **ret_plugin);
void plugin_free(struct plugin *plugin); /* accepts NULL */

/* plugin_begin() - calls of the kubelet are answered from now on. */
void plugin_begin(struct plugin *plugin);

/* plugin_listen() - have the socket in the plugin directory; registrar_listening() is called when it is
 * there, after the calls that waited for us. */
void plugin_listen(struct plugin *plugin);

/* plugin_watched() - the kubelet has a ListAndWatch open. */
bool plugin_watched(const struct plugin *plugin);

/* plugin_update() - tell the open ListAndWatch what there is now, if it differs. */
void plugin_update(struct plugin *plugin);
