/* plugin.h - the gpu-mem device plugin: the service that the kubelet dials, messages to decisions and back.
 */
#pragma once

#include <stdbool.h>

struct agent;
struct plugin;
struct registration;

#define PLUGIN_ENDPOINT "ration-gpu-mem.sock"

int plugin_new(struct agent *agent, struct plugin **ret_plugin);
void plugin_free(struct plugin *plugin); /* accepts NULL */

/* plugin_begin() - calls of the kubelet are answered from now on. */
void plugin_begin(struct plugin *plugin);

/* How it is registered; registrar_listening() of agent->registrar is called when its socket is there, after
 * the calls that waited for us. */
extern const struct registration plugin_registration;

/* plugin_watched() - the kubelet has a ListAndWatch open. */
bool plugin_watched(const struct plugin *plugin);

/* plugin_update() - tell the open ListAndWatch what there is now, if it differs. */
void plugin_update(struct plugin *plugin);
