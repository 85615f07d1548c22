/* socket.h - where the kubelet's registration server listens. */
#pragma once

#include <limits.h>
#include <stdio.h>

#define KUBELET_SOCKET "kubelet.sock" /* in the plugin directory; each kubelet makes it anew at its start */

static inline void kubelet_socket_path(const char *plugin_dir, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/" KUBELET_SOCKET, plugin_dir);
}
